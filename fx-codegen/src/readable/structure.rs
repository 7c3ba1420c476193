//! Modules: a struct with its members, how it is made, and its `forward`; equal ones are written once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use fx_core::{Arg, GraphModule, Module, NodeId, Result, Target, Type, ops};

use super::body::{Body, Statement, Var, is_below, is_used, type_in};
use super::layout::{Expr, WIDTH};
use super::names::{Names, comment, is_identifier, type_name, variable};
use super::types::{Ty, string};
use super::{Node, Options};

/// The kind of a field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Member {
    Parameter,
    Buffer,
    Constant,
    /// A module of this type.
    Typed(String),
    /// A module of any type.
    Any,
    /// A graph module, as this struct.
    Child(String),
    /// Nodes of this graph that belong to an inner module, as this struct.
    Inner(String),
}

impl Member {
    fn ty(&self) -> &str {
        match self {
            Member::Parameter => "Parameter",
            Member::Buffer => "Buffer",
            Member::Constant => "Tensor",
            Member::Any => "Box<dyn Forward>",
            Member::Typed(ty) | Member::Child(ty) | Member::Inner(ty) => ty,
        }
    }

    /// Writes how a field of this path is made.
    fn made(&self, path: &str) -> String {
        let path = string(path);
        match self {
            Member::Parameter => format!("members.parameter({path})?"),
            Member::Buffer => format!("members.buffer({path})?"),
            Member::Constant => format!("members.constant({path})?"),
            Member::Typed(_) => format!("members.module({path})?"),
            Member::Any => format!("members.any_module({path})?"),
            Member::Child(ty) => format!("{ty}::new(&members.child({path})?)?"),
            Member::Inner(ty) => format!("{ty}::new(&members.at({path}))?"),
        }
    }
}

/// The fields of a struct: path, name and what it is.
#[derive(Default)]
pub(super) struct Fields {
    list: Vec<(String, String, Member)>,
    names: Names,
}

impl Fields {
    /// Returns the name of the field for a member.
    pub(super) fn add(&mut self, path: &str, member: Member) -> String {
        if let Some((_, name, _)) = self.list.iter().find(|(other, _, kind)| other == path && *kind == member)
        {
            return name.clone();
        }
        let name = self.names.claim(variable(&path.replace('.', "_")));
        self.list.push((path.to_owned(), name.clone(), member));
        name
    }
}

/// A line of code with the nodes that it runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) nodes: Vec<NodeId>,
}

/// Writes statements.
pub(super) fn write(statements: &[Statement], indent: usize) -> Vec<Line> {
    let pad = " ".repeat(indent);
    let mut out: Vec<Line> = Vec::new();
    for statement in statements {
        let (head, expr, end, nodes) = match statement {
            Statement::Comment(text) => {
                out.push(Line { text: format!("{pad}// {text}"), nodes: Vec::new() });
                continue;
            }
            Statement::Let { pattern, ty, expr, nodes } => {
                let ty = ty.as_ref().map_or(String::new(), |ty| format!(": {ty}"));
                (format!("let {pattern}{ty} = "), expr, ";", nodes)
            }
            Statement::Do { expr, nodes } => (String::new(), expr, ";", nodes),
            Statement::Tail { expr, nodes } => (String::new(), expr, "", nodes),
        };
        let at = indent + head.chars().count();
        // What fits on a line of its own goes there, rather than on several.
        let is_plain = matches!(expr, Expr::Text(_) | Expr::Binary(..));
        let fits_below = |flat: &String| {
            is_plain || expr.is_narrow() && indent + 4 + flat.chars().count() + end.len() <= WIDTH
        };
        let is_chain = expr.is_broken_chain();
        let flat = expr.flat().filter(|flat| is_chain || fits_below(flat));
        let is_too_wide = flat.is_some_and(|flat| at + flat.chars().count() + end.len() > WIDTH);
        let begins_too_late = || at + expr.lines(indent, at, end.len())[0].chars().count() > WIDTH;
        let goes_below = !head.is_empty() && (is_too_wide || begins_too_late());
        let mut lines = match goes_below {
            true => {
                let inner = expr.lines(indent + 4, indent + 4, end.len());
                let mut lines = vec![format!("{pad}{}", head.trim_end())];
                lines.extend(
                    inner
                        .into_iter()
                        .enumerate()
                        .map(|(i, line)| if i == 0 { format!("{pad}    {line}") } else { line }),
                );
                lines
            }
            false => {
                let mut lines = expr.lines(indent, at, end.len());
                lines[0].insert_str(0, &format!("{pad}{head}"));
                lines
            }
        };
        if let Some(last) = lines.last_mut() {
            last.push_str(end);
        }
        out.extend(lines.into_iter().map(|text| Line { text, nodes: nodes.clone() }));
    }
    out
}

/// The arguments and the result of a generated `forward`.
#[derive(Clone, Debug)]
pub(super) struct Signature {
    pub(super) name: String,
    pub(super) params: Vec<Ty>,
    pub(super) result: Ty,
    /// Whether it returns a `Result`.
    pub(super) fails: bool,
}

/// A struct as it was written.
pub(super) struct Written {
    pub(super) name: String,
    pub(super) lines: Vec<(String, Vec<Node>)>,
}

/// The code generated so far.
pub(super) struct Generator {
    pub(super) options: Options,
    pub(super) structs: Vec<Written>,
    /// The number of the struct with this text, but for its name.
    by_text: HashMap<String, usize>,
    /// The structs of graph modules, by address.
    children: HashMap<usize, Signature>,
    /// The path of the graph module whose code is written.
    place: String,
}

impl Generator {
    pub(super) fn new(options: Options) -> Self {
        Generator {
            options,
            structs: Vec::new(),
            by_text: HashMap::new(),
            children: HashMap::new(),
            place: String::new(),
        }
    }

    /// Writes a graph module; `is_leaf` says that a call of it is one node.
    pub(super) fn graph_module(&mut self, gm: &GraphModule, is_leaf: bool) -> Result<Signature> {
        let gm = &*with_early_reads(gm)?;
        let graph = gm.graph();
        let base = type_name(gm.name());
        let mut body = self.body(gm);
        body.exact_names = true;
        let (mut params, mut types, mut unused) = (Vec::new(), Vec::new(), Vec::new());
        for input in graph.inputs() {
            let struct_name = format!("{base}{}", type_name(&input.name));
            // An integer with a name is a size of the body.
            let leaf = |id: &NodeId| match graph.node(*id).ok().and_then(fx_core::Node::ty) {
                Some(Arg::Dim(size)) if size.as_symbol().is_some() => Ty::Dim,
                _ => type_in(graph, id),
            };
            let ty = Ty::of(&input.tree, &leaf, &mut || struct_name.clone());
            let name = body.names.claim(variable(&input.name));
            bind_input(&input.tree, &ty, &name, true, &mut body.vars)?;
            let is_used = input.tree.leaves().into_iter().any(|id| is_used(graph, *id));
            if !is_used {
                unused.push(name.clone());
            }
            params.push((name, ty.clone()));
            types.push(ty);
        }
        for name in unused {
            let expr = Expr::Text(name);
            body.statements.push(Statement::Let { pattern: "_".into(), ty: None, expr, nodes: Vec::new() });
        }
        let ids = graph.ids();
        body.count_frames(&ids);
        body.nodes(&ids)?;
        let leaf = |id: &NodeId| match body.vars.get(id) {
            Some(Var::Value(_) | Var::Dim(_) | Var::Tensors(_) | Var::Parts(_)) => Ty::Value,
            _ => Ty::Tensor,
        };
        let result_name = format!("{base}Output");
        let result = Ty::of(graph.output(), &leaf, &mut || result_name.clone());
        let output = graph.output().clone();
        body.tail(&output, &result)?;
        let (statements, fields) = (std::mem::take(&mut body.statements), std::mem::take(&mut body.fields));
        let fails = body.fails;
        let doc = format!("`{}`, written by fx from a graph of {} nodes.", comment(gm.name()), graph.len());
        let name = self.finish(&base, &doc, is_leaf, &params, (&result, fails), &fields, &statements, gm)?;
        let renamed = |ty: Ty| ty.renamed(&base, &name);
        Ok(Signature {
            params: types.into_iter().map(renamed).collect(),
            result: renamed(result),
            name: name.clone(),
            fails,
        })
    }

    fn body<'a, 'g>(&'g mut self, gm: &'a GraphModule) -> Body<'a, 'g> {
        let updated = gm.graph().nodes().filter_map(|(_, node)| updated_path(node).cloned());
        let updated = std::rc::Rc::new(updated.collect());
        Body::new(gm, gm.graph(), self, updated)
    }

    /// Writes a struct, unless there is one like it; returns its name.
    #[expect(clippy::too_many_arguments, reason = "the parts of a struct")]
    fn finish(
        &mut self,
        base: &str,
        doc: &str,
        is_leaf: bool,
        params: &[(String, Ty)],
        (result, fails): (&Ty, bool),
        fields: &Fields,
        statements: &[Statement],
        gm: &GraphModule,
    ) -> Result<String> {
        let body = write(statements, 8);
        let lines_of = |name: &str| {
            let mut lines: Vec<(String, Vec<NodeId>)> = Vec::new();
            let mut push = |text: String| lines.push((text, Vec::new()));
            let mut structs = Vec::new();
            params.iter().for_each(|(_, ty)| ty.structs(&mut structs));
            result.structs(&mut structs);
            for mut inner in structs {
                inner.push(String::new());
                inner.into_iter().for_each(&mut push);
            }
            push(format!("/// {doc}"));
            push("#[derive(Module)]".into());
            match (is_leaf, is_leaf && !gm.is_pure()) {
                (_, true) => push("#[module(leaf, impure)]".into()),
                (true, _) => push("#[module(leaf)]".into()),
                _ => {}
            }
            if fields.list.is_empty() {
                push(format!("pub struct {name} {{}}"));
            } else {
                push(format!("pub struct {name} {{"));
                for (path, field, member) in &fields.list {
                    if path != field {
                        push(format!("    #[module(rename = {})]", string(path)));
                    }
                    push(format!("    pub {field}: {},", member.ty()));
                }
                push("}".into());
            }
            push(String::new());
            push(format!("impl {name} {{"));
            push("    /// Takes the members from a graph module, or from weights.".into());
            let members = if fields.list.is_empty() { "_members" } else { "members" };
            push(format!("    pub fn new({members}: &fx::Members<'_>) -> Result<Self> {{"));
            if fields.list.is_empty() {
                push(format!("        Ok({name} {{}})"));
            } else {
                push(format!("        Ok({name} {{"));
                for (path, field, member) in &fields.list {
                    made(field, member, path).into_iter().for_each(&mut push);
                }
                push("        })".into());
            }
            push("    }".into());
            push("}".into());
            push(String::new());
            push("#[fx::forward]".into());
            push(format!("impl {name} {{"));
            push("    /// Runs the graph.".into());
            signature(params, result, fails).into_iter().for_each(&mut push);
            lines.extend(body.iter().map(|line| (line.text.clone(), line.nodes.clone())));
            lines.push(("    }".into(), Vec::new()));
            lines.push(("}".into(), Vec::new()));
            lines
        };
        let node = |id: &NodeId| {
            let node = gm.graph().node(*id)?;
            Ok(Node {
                module: self.place.clone(),
                name: node.name().to_owned(),
                source: node.meta().source.clone(),
            })
        };
        let nodes = |ids: &[NodeId]| ids.iter().map(node).collect::<Result<Vec<Node>>>();
        let key: Vec<String> = lines_of("\0")
            .into_iter()
            .map(|(text, _)| text)
            .filter(|text| !text.trim_start().starts_with("//"))
            .collect();
        let key = key.join("\n");
        if let Some(&at) = self.by_text.get(&key) {
            // The two may have other comments.
            let is_code = |text: &str| !text.trim_start().starts_with("//");
            let known = self.structs[at].lines.iter_mut().rev().skip(2).filter(|(text, _)| is_code(text));
            let same = body.iter().rev().filter(|line| is_code(&line.text));
            for ((_, known), line) in known.zip(same) {
                known.extend(nodes(&line.nodes)?);
            }
            return Ok(self.structs[at].name.clone());
        }
        let free = |name: &String| self.structs.iter().all(|written| written.name != *name);
        let numbered = (2u64..).map(|i| format!("{base}{i}"));
        let name = std::iter::once(base.to_owned()).chain(numbered).find(free).unwrap_or_default();
        // Structs of arguments and results are named after this one.
        let mut inner = Vec::new();
        params.iter().map(|(_, ty)| ty).chain([result]).for_each(|ty| ty.names(&mut inner));
        let rename = |text: String| match name == base {
            true => text,
            false => inner.iter().fold(text, |text, old| {
                replace_word(&text, old, &format!("{name}{}", old.strip_prefix(base).unwrap_or(old)))
            }),
        };
        let line = |(text, ids): (String, Vec<NodeId>)| Ok((rename(text), nodes(&ids)?));
        let lines = lines_of(&name).into_iter().map(line).collect::<Result<_>>()?;
        self.by_text.insert(key, self.structs.len());
        self.structs.push(Written { name: name.clone(), lines });
        Ok(name)
    }
}

/// Replaces a word where it stands alone.
fn replace_word(text: &str, old: &str, new: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(old) {
        let (before, after) = (&rest[..at], &rest[at + old.len()..]);
        let alone = !before.ends_with(is_part) && !after.starts_with(is_part);
        out.push_str(before);
        out.push_str(if alone { new } else { old });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Writes how a field is made.
fn made(field: &str, member: &Member, path: &str) -> Vec<String> {
    let flat = format!("            {field}: {},", member.made(path));
    if flat.chars().count() <= WIDTH {
        return vec![flat];
    }
    let made = member.made(path);
    if let Some(call) = made.strip_prefix("members") {
        return vec![format!("            {field}: members"), format!("                {call},")];
    }
    match made.split_once('(').and_then(|(head, rest)| Some((head, rest.strip_suffix(")?")?))) {
        Some((head, argument)) => {
            let argument = format!("                {argument},");
            vec![format!("            {field}: {head}("), argument, "            )?,".into()]
        }
        None => vec![flat],
    }
}

/// Writes the head of `forward`, which returns a `Result` if it fails.
fn signature(params: &[(String, Ty)], result: &Ty, fails: bool) -> Vec<String> {
    let (open, close) = if fails { ("Result<", ">") } else { ("", "") };
    let param = |(name, ty): &(String, Ty)| match ty {
        Ty::Tensor => format!("{name}: &Tensor"),
        ty => format!("{name}: {}", ty.rust()),
    };
    let params: Vec<String> = std::iter::once("&self".to_owned()).chain(params.iter().map(param)).collect();
    let returned = format!("{open}{}{close}", result.rust());
    let flat = format!("    pub fn forward({}) -> {returned} {{", params.join(", "));
    if flat.chars().count() <= WIDTH {
        return vec![flat];
    }
    let mut lines = vec!["    pub fn forward(".to_owned()];
    lines.extend(params.iter().map(|param| format!("        {param},")));
    match result {
        Ty::Tuple(items) if result.rust().len() > 62 => {
            lines.push(format!("    ) -> {open}("));
            lines.extend(items.iter().map(|item| format!("        {},", item.rust())));
            lines.push(format!("    ){close} {{"));
        }
        _ => lines.push(format!("    ) -> {returned} {{")),
    }
    lines
}

/// Says where the tensors of an argument are.
fn bind_input(
    tree: &Arg,
    ty: &Ty,
    place: &str,
    is_whole: bool,
    vars: &mut HashMap<NodeId, Var>,
) -> Result<()> {
    match (tree, ty) {
        (Arg::Leaf(id), Ty::Tensor) => {
            vars.insert(
                *id,
                if is_whole { Var::Borrowed(place.to_owned()) } else { Var::Place(place.to_owned()) },
            );
        }
        (Arg::Leaf(id), Ty::Dim) => {
            vars.insert(*id, Var::Dim(place.to_owned()));
        }
        (Arg::Leaf(id), _) => {
            vars.insert(*id, Var::Value(place.to_owned()));
        }
        (Arg::Tuple(items), Ty::Tuple(types)) => {
            for (i, (item, ty)) in items.iter().zip(types).enumerate() {
                bind_input(item, ty, &format!("{place}.{i}"), false, vars)?;
            }
        }
        (Arg::List(items), Ty::Array(ty, _)) => {
            for (i, item) in items.iter().enumerate() {
                bind_input(item, ty, &format!("{place}[{i}]"), false, vars)?;
            }
        }
        (Arg::Dict(entries), Ty::Struct(_, fields)) => {
            for ((_, item), (field, ty)) in entries.iter().zip(fields) {
                bind_input(item, ty, &format!("{place}.{field}"), false, vars)?;
            }
        }
        (tree, _) if tree.leaves().is_empty() => {}
        (tree, _) => fx_core::bail!(
            Unresolved,
            "code for an argument of the structure {} cannot be written",
            tree.kind_name()
        ),
    }
    Ok(())
}

/// The names of the arguments of an inner module.
const ARGUMENTS: [&str; 3] = ["x", "y", "z"];

impl Body<'_, '_> {
    /// Counts the nodes of each call of an inner module.
    pub(super) fn count_frames(&mut self, ids: &[NodeId]) {
        for id in ids {
            if self.read_where_used(*id).is_none()
                && let Some(frame) = self.frame(*id)
            {
                *self.frames.entry(frame).or_default() += 1;
            }
        }
    }

    /// Writes the nodes of one call of an inner module as a call of a struct of its own, if they can stand alone.
    pub(super) fn module_call(&mut self, ids: &[NodeId]) -> Result<bool> {
        let node = self.graph.node(ids[0])?;
        let Some(frame) = node.meta().stack.as_deref().and_then(|stack| stack.get(self.depth)).cloned()
        else {
            return Ok(false);
        };
        let relative = self.relative(&frame.path);
        let is_inner =
            frame.path.len() > self.path.len() && (self.path.is_empty() || relative != *frame.path);
        let is_whole = self.frames.get(&(frame.path.clone(), frame.call)) == Some(&ids.len());
        let parts_are_names = relative.split('.').all(|part| {
            !part.is_empty() && (is_identifier(part) || part.bytes().all(|b| b.is_ascii_digit()))
        });
        if !is_inner || !is_whole || !parts_are_names || !self.is_closed(ids, &frame.path)? {
            return Ok(false);
        }
        let (inputs, outputs) = self.border(ids, &frame.path)?;
        inputs.iter().try_for_each(|id| self.read(*id))?;
        let tensor = |id: &NodeId| {
            matches!(
                self.vars.get(id),
                Some(Var::Owned(_) | Var::Borrowed(_) | Var::Place(_) | Var::Parameter(_))
            )
        };
        if !inputs.iter().all(tensor)
            || outputs.is_empty()
            || outputs.len() > 8
            || ids.len() == 1 && inputs.is_empty()
        {
            return Ok(false);
        }
        if !outputs.iter().all(|id| self.gives_tensor(*id)) {
            return Ok(false);
        }
        let argument = |i: usize| ARGUMENTS.get(i).map_or_else(|| format!("x{i}"), |name| (*name).to_owned());
        let mut inner = Body::new(self.gm, self.graph, self.generator, self.updated.clone());
        (inner.path, inner.depth) = (frame.path.to_string(), self.depth + 1);
        let mut params = Vec::new();
        for (i, id) in inputs.iter().enumerate() {
            let name = inner.names.claim(argument(i));
            inner.vars.insert(*id, Var::Borrowed(name.clone()));
            params.push((name, Ty::Tensor));
        }
        inner.count_frames(ids);
        let structs = inner.generator.structs.len();
        let done = inner.nodes(ids);
        let all_tensors = outputs.iter().all(|id| {
            matches!(
                inner.vars.get(id),
                Some(Var::Owned(_) | Var::Borrowed(_) | Var::Place(_) | Var::Parameter(_))
            )
        });
        if done.is_err() || !all_tensors {
            // Sizes that only the outside tells, for example; the nodes are written where they are called.
            inner.generator.forget(structs);
            return Ok(false);
        }
        let (output, result) = match &outputs[..] {
            [one] => (Arg::Leaf(*one), Ty::Tensor),
            all => (Arg::tuple(all.iter().map(|id| Arg::Leaf(*id))), Ty::Tuple(vec![Ty::Tensor; all.len()])),
        };
        inner.tail(&output, &result)?;
        let (statements, fields) = (std::mem::take(&mut inner.statements), std::mem::take(&mut inner.fields));
        let fails = inner.fails;
        self.fails |= fails;
        let base = type_name(&frame.type_name);
        let doc = format!("`{}`, first called as `{}`.", comment(&frame.type_name), comment(&frame.path));
        let name = self.generator.finish(
            &base,
            &doc,
            false,
            &params,
            (&result, fails),
            &fields,
            &statements,
            self.gm,
        )?;
        let field = self.fields.add(&relative, Member::Inner(name));
        let args: Vec<Expr> =
            inputs.iter().map(|id| self.reference(*id).map(Expr::Text)).collect::<Result<_>>()?;
        let call = Expr::Method(format!("self.{field}"), "call".into(), args);
        let expr = if fails { Expr::Try(Box::new(call)) } else { call };
        self.last_source = None;
        let mut names = Vec::new();
        for id in &outputs {
            let name = self.name(*id)?;
            self.vars.insert(*id, Var::Owned(name.clone()));
            names.push(name);
        }
        let pattern = if names.len() == 1 { names.remove(0) } else { format!("({})", names.join(", ")) };
        self.statements.push(Statement::Let { pattern, ty: None, expr, nodes: ids.to_vec() });
        Ok(true)
    }

    /// Returns whether what the nodes read and call lies below a path.
    fn is_closed(&self, ids: &[NodeId], path: &str) -> Result<bool> {
        for id in ids {
            let node = self.graph.node(*id)?;
            let fits = match node.target() {
                Target::GetAttr(other) | Target::CallModule(other) => is_below(other, path),
                Target::CallFunction(op) if *op == ops::set_buffer::OP => {
                    matches!(node.args().first(), Some(Arg::Str(other)) if is_below(other, path))
                }
                _ => true,
            };
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether the value of a node is a tensor, as far as can be told.
    fn gives_tensor(&self, id: NodeId) -> bool {
        let Ok(node) = self.graph.node(id) else { return false };
        match (node.ty(), node.op()) {
            (Some(Arg::Leaf(Type::Any)) | None, Some(op)) => {
                op.returns.contains("Tensor") && !op.returns.contains(['(', '<'])
            }
            (Some(ty), _) => ty.tensor().is_some() || matches!(ty, Arg::Leaf(Type::Any)),
            (None, None) => true,
        }
    }

    /// Writes the call of a sub-module.
    pub(super) fn call_module(&mut self, id: NodeId, path: &Arc<str>) -> Result<()> {
        let child = self.gm.child(path)?;
        let relative = self.relative(path);
        let args = self.graph.node(id)?.args().to_vec();
        if let Some(child) = child.as_module().as_any().downcast_ref::<GraphModule>() {
            let signature = self.generator.child(child, path)?;
            let field = self.fields.add(&relative, Member::Child(signature.name.clone()));
            let uses = HashMap::new();
            let mut passed = Vec::new();
            for (arg, ty) in args.iter().zip(&signature.params) {
                passed.push(match (ty, arg) {
                    (Ty::Tensor, Arg::Leaf(id)) => Expr::Text(self.reference(*id)?),
                    _ => self.result(arg, ty, &uses)?,
                });
            }
            let mut expr = Expr::Method(format!("self.{field}"), "call".into(), passed);
            if signature.fails {
                self.fails = true;
                expr = Expr::Try(Box::new(expr));
            }
            return self.bind_call(id, &signature.result, expr, false);
        }
        let structure = child.output().ok();
        let ty = match (&structure, self.graph.node(id)?.ty()) {
            (Some(structure), _) => Ty::of(structure, &|_| Ty::Tensor, &mut || "Struct".into()),
            (None, Some(ty)) => Ty::of(ty, &|_| Ty::Tensor, &mut || "Struct".into()),
            (None, None) => Ty::Tensor,
        };
        let one_in = matches!(&child.inputs()[..], [input] if matches!(input.structure, Ok(Arg::Leaf(()))));
        let typed = self.generator.options.module_type(child.as_module());
        let (member, plain) = match typed {
            Some(typed) if one_in && ty == Ty::Tensor => (Member::Typed(typed), true),
            _ => (Member::Any, one_in && ty == Ty::Tensor),
        };
        let field = self.fields.add(&relative, member);
        let receiver = format!("self.{field}");
        if plain && let [Arg::Leaf(x)] = &args[..] {
            let expr = Expr::Method(receiver, "call".into(), vec![Expr::Text(self.reference(*x)?)]);
            return self.bind_call(id, &Ty::Tensor, expr, false);
        }
        let args = args.iter().map(|arg| self.value(arg)).collect::<Result<Vec<_>>>()?;
        let expr = Expr::Method(receiver, "call_values".into(), vec![Expr::Array(args)]);
        let ty = if matches!(ty, Ty::Struct(..)) { Ty::Value } else { ty };
        self.bind_call(id, &ty, expr, true)
    }

    /// Stores the result of a module in variables.
    fn bind_call(&mut self, id: NodeId, ty: &Ty, expr: Expr, annotated: bool) -> Result<()> {
        let annotation = annotated.then(|| ty.rust());
        let (var, pattern) = match ty {
            Ty::Tuple(items) if items.iter().all(|item| *item == Ty::Tensor) => {
                self.parts(id, items.len())?
            }
            Ty::Tensor => {
                let name = self.name(id)?;
                (Var::Owned(name.clone()), name)
            }
            Ty::Array(item, _) if **item == Ty::Tensor => {
                let name = self.name(id)?;
                (Var::Tensors(name.clone()), name)
            }
            Ty::Struct(_, fields) if fields.iter().all(|(_, ty)| *ty == Ty::Tensor) => {
                let name = self.name(id)?;
                (Var::Struct(name.clone(), fields.iter().map(|(field, _)| field.clone()).collect()), name)
            }
            Ty::Value => {
                let name = self.name(id)?;
                (Var::Value(name.clone()), name)
            }
            other => fx_core::bail!(
                Unresolved,
                "code for a module that returns {} cannot be written yet",
                other.rust()
            ),
        };
        self.push(pattern, annotation, expr, id);
        self.vars.insert(id, var);
        Ok(())
    }
}

impl Generator {
    /// Writes a sub-module that is a graph module, once.
    fn child(&mut self, gm: &GraphModule, path: &str) -> Result<Signature> {
        let address = std::ptr::from_ref(gm) as usize;
        if let Some(signature) = self.children.get(&address) {
            return Ok(signature.clone());
        }
        let place = match self.place.is_empty() {
            true => path.to_owned(),
            false => format!("{}.{path}", self.place),
        };
        let outer = std::mem::replace(&mut self.place, place);
        let signature = self.graph_module(gm, true);
        self.place = outer;
        let signature = signature?;
        self.children.insert(address, signature.clone());
        Ok(signature)
    }

    /// Forgets the structs from a number on, that nobody uses.
    fn forget(&mut self, from: usize) {
        self.structs.truncate(from);
        self.by_text.retain(|_, at| *at < from);
        self.children
            .retain(|_, signature| self.structs.iter().any(|written| written.name == signature.name));
    }
}

/// Returns the path of the buffer that a node updates.
fn updated_path(node: &fx_core::Node) -> Option<&Arc<str>> {
    match node.args().first() {
        Some(Arg::Str(path)) if node.op() == Some(ops::set_buffer::OP) => Some(path),
        _ => None,
    }
}

/// Moves reads of buffers that come after an update before it. In a graph, an update is seen when the call
/// has succeeded, in code at once.
fn with_early_reads(gm: &GraphModule) -> Result<Cow<'_, GraphModule>> {
    let mut first: HashMap<&str, NodeId> = HashMap::new();
    let mut late = Vec::new();
    for (id, node) in gm.graph().nodes() {
        if let Some(path) = updated_path(node) {
            first.entry(path).or_insert(id);
        } else if let Target::GetAttr(path) = node.target()
            && let Some(update) = first.get(&**path)
        {
            late.push((id, *update));
        }
    }
    if late.is_empty() {
        return Ok(Cow::Borrowed(gm));
    }
    let mut gm = gm.clone();
    let graph = gm.graph_mut();
    for (read, update) in late {
        graph.move_before(read, update)?;
        // It belongs to the function that it was moved to.
        let stack = graph.node(update)?.meta().stack.clone();
        graph.meta_mut(read)?.stack = stack;
    }
    Ok(Cow::Owned(gm))
}
