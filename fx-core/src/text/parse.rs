//! Reading one graph: its head, then line by line, with recovery at the ends of lines.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::lex::{Cursor, Parsed, Problem};
use super::meta::OUTPUT_NAME;
use super::print::output_type;
use super::value::{Attributes, InputLeaf};
use crate::{
    Arg, Error, Graph, Kwargs, ModuleFrame, NodeId, NodeMeta, OpCode, Registry, Symbol, Target, Type,
    TypeTree, err,
};

/// After so many mistakes the parser stops.
pub(super) const MAX_PROBLEMS: usize = 20;

/// The sub-graphs of a text by name; `None` for one that has mistakes itself.
pub(super) type Subgraphs<'a> = FxHashMap<&'a str, Option<Arc<Graph>>>;

/// What reads one graph.
pub(super) struct Parser<'a> {
    pub(super) cursor: Cursor<'a>,
    pub(super) types: FxHashMap<&'a str, Arc<TypeTree>>,
    /// How many types the one that is read lies in.
    pub(super) type_depth: usize,
    /// Symbols of the signature, and those of nodes.
    pub(super) symbols: [FxHashMap<&'a str, Symbol>; 2],
    /// File names of the metadata.
    pub(super) shared: FxHashSet<Arc<str>>,
    pub(super) last_stack: Option<(&'a str, Arc<[ModuleFrame]>)>,
    registry: &'a Registry,
    subgraphs: &'a Subgraphs<'a>,
    graph: Graph,
    problems: Vec<Problem>,
    /// Names whose definition has a mistake: their uses are no further mistakes.
    broken_names: FxHashSet<&'a str>,
    /// Names that were used without a definition before them.
    undefined: Vec<(&'a str, usize)>,
    /// Whether the line uses something that has a mistake elsewhere.
    is_line_broken: bool,
    /// Whether inputs may be missing, because the head has a mistake.
    is_head_broken: bool,
    annotated: FxHashSet<NodeId>,
    result_type: Option<(usize, Arc<TypeTree>)>,
    output_name: Option<(usize, Arc<str>)>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(cursor: Cursor<'a>, registry: &'a Registry, subgraphs: &'a Subgraphs<'a>) -> Self {
        Parser {
            cursor,
            types: FxHashMap::default(),
            type_depth: 0,
            symbols: Default::default(),
            shared: FxHashSet::default(),
            last_stack: None,
            registry,
            subgraphs,
            graph: Graph::default(),
            problems: Vec::new(),
            broken_names: FxHashSet::default(),
            undefined: Vec::new(),
            is_line_broken: false,
            is_head_broken: false,
            annotated: FxHashSet::default(),
            result_type: None,
            output_name: None,
        }
    }

    /// Reads a graph from its first word to the end of the text; without mistakes there is a graph.
    pub(super) fn graph(mut self) -> (Graph, Vec<Problem>) {
        if let Err(problem) = self.head() {
            self.problems.push(problem);
            self.is_head_broken = true;
            self.recover();
        }
        let mut is_returned = false;
        while !self.is_full() {
            match self.cursor.peek() {
                b'}' => {
                    if !is_returned && !self.is_head_broken {
                        let problem = self.cursor.expected("`return` as the last line of the graph");
                        self.problems.push(problem);
                    }
                    self.cursor.pos += 1;
                    self.cursor.skip();
                    if !self.cursor.is_at_end() {
                        let problem = self.cursor.expected("a graph on a line of its own or the end");
                        self.problems.push(problem);
                    }
                    break;
                }
                _ if self.cursor.is_at_end() => {
                    let problem = self.cursor.expected("`}`");
                    self.problems.push(problem);
                    break;
                }
                _ if is_returned => {
                    let problem = self.cursor.expected("`}` after the return");
                    self.problems.push(problem);
                    self.recover();
                }
                b'r' => {
                    is_returned = true;
                    self.line(Self::output);
                }
                _ => self.line(Self::definition),
            }
        }
        self.finish();
        (self.graph, self.problems)
    }

    fn is_full(&self) -> bool {
        self.problems.len() + self.undefined.len() >= MAX_PROBLEMS
    }

    fn line(&mut self, read: fn(&mut Self) -> Parsed<()>) {
        self.is_line_broken = false;
        let result = read(self).and_then(|()| {
            self.cursor.skip_in_line();
            match self.cursor.here() {
                b'\n' | b'}' => Ok(()),
                _ if self.cursor.is_at_end() => Ok(()),
                _ => Err(self.cursor.expected("the end of the line")),
            }
        });
        if let Err(problem) = result {
            self.problems.push(problem);
            self.recover();
        }
    }

    /// Skips to the next line that looks like the beginning of a statement.
    fn recover(&mut self) {
        while !self.cursor.is_at_end() {
            self.cursor.skip_to_line_end();
            self.cursor.skip();
            if matches!(self.cursor.here(), b'%' | b'}') || self.cursor.starts_with("return") {
                return;
            }
        }
    }

    fn head(&mut self) -> Parsed<()> {
        self.cursor.expect("graph")?;
        let mut at = self.skip();
        let mut name = self.cursor.word().ok_or_else(|| self.cursor.expected("the name of the graph"))?;
        let after = self.cursor;
        if self.cursor.word() == Some("as") {
            at = self.skip();
            name = self.cursor.word().ok_or_else(|| self.cursor.expected("the name of the graph"))?;
        } else {
            self.cursor = after;
        }
        self.graph.set_name(name).map_err(|error| Problem { at, error: parse_error(&error) })?;
        if self.cursor.eat("<") {
            self.symbol_ranges()?;
        }
        self.cursor.expect("(")?;
        let mut names = FxHashSet::default();
        while !self.cursor.eat(")") {
            let at = self.skip();
            let (name, tree) = self.input()?;
            if !names.insert(name.clone()) {
                return Err(Problem { at, error: err!(Parse, "the argument {name:?} is declared twice") });
            }
            self.add_input(&name, at, &tree)?;
            self.separator(")")?;
        }
        if self.cursor.eat("->") {
            let at = self.skip();
            self.result_type = Some((at, self.ty()?));
        }
        self.cursor.expect("{")
    }

    fn skip(&mut self) -> usize {
        self.cursor.skip();
        self.cursor.pos
    }

    /// Reads `batch: 1..=64, n: 2..>`.
    fn symbol_ranges(&mut self) -> Parsed<()> {
        while !self.cursor.eat(">") {
            let is_node = self.cursor.eat("%");
            let at = self.skip();
            let name = self.cursor.word().ok_or_else(|| self.cursor.expected("the name of a symbol"))?;
            self.cursor.expect(":")?;
            let min = if self.cursor.peek() == b'.' { i64::MIN } else { self.cursor.integer()? };
            self.cursor.expect("..")?;
            let max = if self.cursor.eat("=") { Some(self.cursor.integer()?) } else { None };
            if max.is_some_and(|max| max < min) {
                return Err(Problem { at, error: err!(Parse, "the symbol {name} has an empty range") });
            }
            let symbol = match is_node {
                true => Symbol::of_node(name, Symbol::UNKNOWN_OWNER),
                false => Symbol::new(name),
            };
            if self.symbols[usize::from(is_node)].insert(name, symbol.ranged(min, max)).is_some() {
                return Err(Problem { at, error: err!(Parse, "the symbol {name} is given two ranges") });
            }
            self.separator(">")?;
        }
        Ok(())
    }

    /// Reads `%x: type`, `name: tree` or `name = literal`.
    fn input(&mut self) -> Parsed<(Arc<str>, Arg<InputLeaf<'a>>)> {
        let name: Arc<str> = match self.cursor.peek() {
            b'%' => {
                let tree = self.value::<InputLeaf<'a>>()?;
                let name = tree.leaf().map_or("", |leaf| leaf.name);
                return Ok((Arc::from(name), tree));
            }
            b'"' => self.cursor.string()?.into(),
            _ => Arc::from(self.cursor.word().ok_or_else(|| self.cursor.expected("an argument or `)`"))?),
        };
        if !self.cursor.eat(":") && !self.cursor.eat("=") {
            return Err(self.cursor.expected("`:` and the structure of the argument, or `=` and its value"));
        }
        Ok((name, self.value()?))
    }

    fn add_input(&mut self, name: &str, at: usize, tree: &Arg<InputLeaf<'a>>) -> Parsed<()> {
        let leaves = tree.leaves();
        let mut names = FxHashSet::default();
        for leaf in &leaves {
            if !names.insert(leaf.name) {
                return Err(Problem { at: leaf.at, error: err!(Parse, "%{} is defined twice", leaf.name) });
            }
            self.free(leaf.name, leaf.at)?;
        }
        let mut problem = None;
        tree.walk(&mut |arg| match arg {
            Arg::Slice(_) if !arg.leaves().is_empty() => {
                problem = Some(err!(Parse, "expected no placeholder inside of a slice"));
            }
            Arg::Failed(error) => problem = Some(error.clone()),
            _ => {}
        });
        if let Some(error) = problem {
            return Err(Problem { at, error });
        }
        let added = self.graph.named_input(name, &tree.map(&mut |leaf| Arc::from(leaf.name)));
        let tree = added.map_err(|error| Problem { at, error })?;
        for (id, leaf) in tree.leaves().into_iter().zip(leaves) {
            self.meta(*id, leaf.at)?.ty = leaf.ty.clone();
        }
        Ok(())
    }

    fn meta(&mut self, id: NodeId, at: usize) -> Parsed<&mut NodeMeta> {
        self.graph.meta_mut(id).map_err(|error| Problem { at, error })
    }

    /// Reads the name of a node that is defined here.
    pub(super) fn new_name(&mut self) -> Parsed<&'a str> {
        self.cursor.expect("%")?;
        let at = self.cursor.pos;
        match self.cursor.segment() {
            name if crate::names::is_identifier(name) => Ok(name),
            name => {
                self.cursor.pos = at;
                let problem = self.cursor.expected("the name of a node");
                Err(match crate::names::is_reserved(name) {
                    true => Problem { error: problem.error.help("this word is reserved"), ..problem },
                    false => problem,
                })
            }
        }
    }

    /// Makes sure that a new node can be called `name`.
    fn free(&mut self, name: &'a str, at: usize) -> Parsed<()> {
        let output = self.graph.output_node();
        match self.graph.find(name) {
            Some(id) if id == output => {
                let hint = if name == "_return" { "_result" } else { "_return" };
                self.graph.rename(output, hint).map_err(|error| Problem { at, error })?;
                match self.graph.find(name) {
                    None => Ok(()),
                    Some(_) => Err(Problem { at, error: err!(Parse, "%{name} is the name of the output") }),
                }
            }
            None if !self.broken_names.contains(name) => Ok(()),
            _ => Err(Problem {
                at,
                error: err!(Parse, "%{name} is defined twice").help("give each node a name of its own"),
            }),
        }
    }

    /// Reads the use of a node. One that is not defined is noted, and any node stands in for it.
    pub(super) fn node(&mut self) -> Parsed<NodeId> {
        let start = self.cursor;
        let at = start.pos;
        self.cursor.expect("%")?;
        let name = self.cursor.segment();
        let output = self.graph.output_node();
        match self.graph.find(name).filter(|id| *id != output) {
            Some(id) => Ok(id),
            None => {
                self.cursor = start;
                self.new_name()?;
                self.is_line_broken = true;
                if !self.is_head_broken && !self.broken_names.contains(name) && !self.is_full() {
                    self.undefined.push((name, at));
                }
                Ok(output)
            }
        }
    }

    /// Reads `@name`.
    pub(super) fn subgraph<L>(&mut self) -> Parsed<Arg<L>> {
        self.cursor.expect("@")?;
        let at = self.cursor.pos;
        let name = self.cursor.segment();
        match self.subgraphs.get(name) {
            Some(Some(graph)) => Ok(graph.clone().into()),
            Some(None) => {
                self.is_line_broken = true;
                Ok(Arg::None)
            }
            None => {
                let help = crate::names::suggest(name, self.subgraphs.keys().copied().take(1000));
                Err(Problem { at, error: err!(Unresolved, "no sub-graph is called {name:?}").help(help) })
            }
        }
    }

    fn definition(&mut self) -> Parsed<()> {
        let at = self.skip();
        if self.cursor.here() != b'%' {
            return Err(self.cursor.expected("`%name = ..`, `return` or `}`"));
        }
        let name = self.new_name()?;
        if self.cursor.peek() == b'#' {
            return self.annotation(name, at);
        }
        let known = self.graph.find(name);
        let result = self.definition_of(name, at);
        if (result.is_err() || self.is_line_broken)
            && (known.is_none() || known == Some(self.graph.output_node()))
        {
            self.broken_names.insert(name);
        }
        result
    }

    /// Reads the metadata of a placeholder.
    fn annotation(&mut self, name: &'a str, at: usize) -> Parsed<()> {
        let Attributes { meta, name: output_name } = self.attributes()?;
        let placeholder = self
            .graph
            .find(name)
            .filter(|id| self.graph.node(*id).is_ok_and(|node| node.opcode() == OpCode::Placeholder));
        let Some(id) = placeholder else {
            if self.is_head_broken {
                return Ok(());
            }
            return Err(Problem {
                at,
                error: err!(Parse, "%{name} has no definition, and is not an argument"),
            });
        };
        if !self.annotated.insert(id) {
            return Err(Problem { at, error: err!(Parse, "the argument %{name} is described twice") });
        }
        if output_name.is_some() || meta.ty.is_some() {
            let error = err!(Parse, "expected no name and type among the attributes of %{name}");
            return Err(Problem { at, error: error.help("they belong into the signature") });
        }
        let node_meta = self.meta(id, at)?;
        let ty = node_meta.ty.take();
        *node_meta = meta;
        node_meta.ty = ty;
        Ok(())
    }

    fn definition_of(&mut self, name: &'a str, at: usize) -> Parsed<()> {
        let ty = if self.cursor.eat(":") { Some(self.ty()?) } else { None };
        self.cursor.expect("=")?;
        let (target, args, kwargs) = self.call()?;
        let attributes = self.trailing_attributes()?;
        if let Some(Attributes { name, meta }) = &attributes
            && (name.is_some() || meta.ty.is_some())
        {
            return Err(Problem {
                at,
                error: err!(Parse, "expected no name and type among the attributes of a call"),
            });
        }
        self.free(name, at)?;
        if self.is_line_broken {
            return Ok(());
        }
        let created = self.graph.create(target, args, kwargs, Some(name));
        let id = created.map_err(|error| Problem { at, error })?;
        if ty.is_some() || attributes.is_some() {
            let meta = self.meta(id, at)?;
            *meta = attributes.map_or_else(NodeMeta::default, |attributes| attributes.meta);
            meta.ty = ty;
        }
        Ok(())
    }

    fn trailing_attributes(&mut self) -> Parsed<Option<Attributes>> {
        self.cursor.skip_in_line();
        if self.cursor.here() == b'#' { self.attributes().map(Some) } else { Ok(None) }
    }

    fn call(&mut self) -> Parsed<(Target, SmallVec<[Arg; 2]>, Kwargs)> {
        let mut args: SmallVec<[Arg; 2]> = SmallVec::new();
        let mut kwargs = Kwargs::new();
        match self.cursor.peek() {
            open @ (b'%' | b'(') => {
                args.push(if open == b'%' { Arg::Leaf(self.node()?) } else { self.parenthesised()? });
                self.cursor.expect(".")?;
                let op = self.op()?;
                self.args(&mut args, &mut kwargs)?;
                Ok((Target::CallMethod(op), args, kwargs))
            }
            _ => {
                let start = self.cursor;
                if self.cursor.word() == Some("self") && self.cursor.here() == b'.' {
                    self.cursor.pos += 1;
                    let path = self.path()?;
                    self.cursor.skip_in_line();
                    if self.cursor.here() != b'(' {
                        return Ok((Target::GetAttr(path), args, kwargs));
                    }
                    self.args(&mut args, &mut kwargs)?;
                    return Ok((Target::CallModule(path), args, kwargs));
                }
                self.cursor = start;
                let op = self.op()?;
                self.args(&mut args, &mut kwargs)?;
                Ok((Target::CallFunction(op), args, kwargs))
            }
        }
    }

    fn parenthesised(&mut self) -> Parsed<Arg> {
        self.cursor.expect("(")?;
        let arg = self.value()?;
        self.cursor.expect(")")?;
        Ok(arg)
    }

    /// Reads a dotted path, in quotes if a part of it is not a word or number.
    fn path(&mut self) -> Parsed<Arc<str>> {
        if self.cursor.here() == b'"' {
            return self.cursor.string().map(Into::into);
        }
        let start = self.cursor;
        loop {
            if self.cursor.segment().is_empty() {
                return Err(self.cursor.expected("the path of an attribute or module"));
            }
            if self.cursor.here() != b'.' {
                return Ok(Arc::from(start.until_position(self.cursor.pos)));
            }
            self.cursor.pos += 1;
        }
    }

    fn op(&mut self) -> Parsed<crate::Op> {
        let at = self.skip();
        let quoted;
        let name = match self.cursor.here() {
            b'"' => {
                quoted = self.cursor.string()?;
                &*quoted
            }
            _ => self.cursor.word().ok_or_else(|| self.cursor.expected("an operation"))?,
        };
        if self.cursor.peek() != b'(' {
            return Err(self.cursor.expected("`(`"));
        }
        self.registry.find(name).map_err(|error| Problem { at, error })
    }

    fn args(&mut self, args: &mut SmallVec<[Arg; 2]>, kwargs: &mut Kwargs) -> Parsed<()> {
        self.cursor.expect("(")?;
        while !self.cursor.eat(")") {
            let at = self.skip();
            match self.key()? {
                Some(key) => kwargs.push((key, self.value()?)),
                None if kwargs.is_empty() => args.push(self.value()?),
                None => {
                    return Err(Problem {
                        at,
                        error: err!(Parse, "expected no positional argument after a keyword"),
                    });
                }
            }
            self.separator(")")?;
        }
        Ok(())
    }

    /// Reads `name=`, if it comes next.
    fn key(&mut self) -> Parsed<Option<Arc<str>>> {
        let start = self.cursor;
        let key = match self.cursor.here() {
            b'"' => self.cursor.string()?,
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => self.cursor.segment().into(),
            _ => return Ok(None),
        };
        if self.cursor.eat("=") {
            return Ok(Some(key.into()));
        }
        self.cursor = start;
        Ok(None)
    }

    fn output(&mut self) -> Parsed<()> {
        let at = self.skip();
        let mut start = self.cursor;
        if self.cursor.word() != Some("return") {
            return Err(start.expected("`%name = ..`, `return` or `}`"));
        }
        let value: Arg = self.value()?;
        let attributes = self.trailing_attributes()?;
        if self.is_line_broken {
            return Ok(());
        }
        self.graph.set_output(value).map_err(|error| Problem { at, error })?;
        let output = self.graph.output_node();
        if let Some(Attributes { meta, name }) = attributes {
            *self.meta(output, at)? = meta;
            self.output_name = name;
        }
        if let Some((at, expected)) = self.result_type.take()
            && let Some(got) = output_type(&self.graph)
            && !is_compatible(&expected, &got)
        {
            return Err(Problem { at, error: err!(Parse, "expected the result {expected}, got {got}") });
        }
        Ok(())
    }

    /// Gives the output its name, and says which names were never defined and which too late.
    fn finish(&mut self) {
        let output = self.graph.output_node();
        if self.problems.is_empty() && self.undefined.is_empty() {
            let (at, wanted) = self.output_name.take().unwrap_or((self.cursor.pos, Arc::from(OUTPUT_NAME)));
            let is_free = self.graph.find(&wanted).is_none_or(|id| id == output);
            match self.graph.rename(output, &wanted) {
                Ok(name) if name == wanted || &*wanted == OUTPUT_NAME => {}
                Ok(_) if is_free => {
                    self.problems
                        .push(Problem { at, error: err!(Parse, "{wanted:?} is not a name for the output") });
                }
                Ok(_) => self.problems.push(Problem { at, error: err!(Parse, "%{wanted} is defined twice") }),
                Err(error) => self.problems.push(Problem { at, error }),
            }
        }
        for (name, at) in std::mem::take(&mut self.undefined) {
            let is_late =
                self.graph.find(name).is_some_and(|id| id != output) || self.broken_names.contains(name);
            let error = match is_late {
                true => err!(Parse, "%{name} is used before it is defined").help("move its definition up"),
                false => err!(Unresolved, "no node is called %{name}").help(self.suggest(name)),
            };
            self.problems.push(Problem { at, error });
        }
    }

    fn suggest(&self, name: &str) -> String {
        let near = |other: &&str| other.len().abs_diff(name.len()) <= 1 + name.len() / 4;
        let names = self.graph.nodes().map(|(_, node)| node.name()).take(100_000).filter(near).take(5000);
        crate::names::suggest(name, names)
    }
}

/// Returns whether a declared type does not contradict what is known.
fn is_compatible(expected: &TypeTree, got: &TypeTree) -> bool {
    match (expected, got) {
        (Arg::Leaf(Type::Any), _) | (_, Arg::Leaf(Type::Any)) => true,
        (Arg::Leaf(Type::Int), Arg::Int(_) | Arg::Dim(_))
        | (Arg::Leaf(Type::Float), Arg::Float(_))
        | (Arg::Leaf(Type::Bool), Arg::Bool(_))
        | (Arg::Leaf(Type::Str), Arg::Str(_))
        | (Arg::Leaf(Type::Optional(_)), Arg::None) => true,
        (Arg::Leaf(Type::Optional(a)), Arg::Leaf(Type::Optional(b)))
        | (Arg::Leaf(Type::List(a)), Arg::Leaf(Type::List(b))) => is_compatible(a, b),
        (Arg::Leaf(Type::Optional(a)), b) => is_compatible(a, b),
        (Arg::Leaf(Type::List(a)), Arg::List(b)) => b.iter().all(|b| is_compatible(a, b)),
        (Arg::Tuple(a), Arg::Tuple(b)) | (Arg::List(a), Arg::List(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| is_compatible(a, b))
        }
        (Arg::Dict(a), Arg::Dict(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|((k, a), (l, b))| k == l && is_compatible(a, b))
        }
        (a, b) => a == b,
    }
}

fn parse_error(error: &Error) -> Error {
    let parse = err!(Parse, "{}", error.message());
    match error.advice() {
        Some(advice) => parse.help(advice),
        None => parse,
    }
}
