//! Reading values, types and attributes: everything nested, with a bound on the nesting.

use std::convert::Infallible;
use std::sync::Arc;

use super::lex::{Number, Parsed, Problem};
use super::parse::Parser;
use crate::types::MAX_NESTING;
use crate::{
    Arg, DType, Dim, Literal, MAX_DEPTH, ModuleFrame, NodeId, NodeMeta, Provenance, Shape, SourceLoc, Symbol,
    TensorType, Type, TypeTree, err,
};

/// What may stand at the leaves of a nested value.
pub(super) trait Leaf<'a>: Sized {
    /// Reads a leaf, or nothing and does not move if there is none.
    fn read(parser: &mut Parser<'a>) -> Parsed<Option<Self>>;
}

impl<'a> Leaf<'a> for NodeId {
    fn read(parser: &mut Parser<'a>) -> Parsed<Option<Self>> {
        if parser.cursor.peek() != b'%' { Ok(None) } else { parser.node().map(Some) }
    }
}

impl<'a> Leaf<'a> for Infallible {
    fn read(_: &mut Parser<'a>) -> Parsed<Option<Self>> {
        Ok(None)
    }
}

/// A placeholder in the signature.
pub(super) struct InputLeaf<'a> {
    pub(super) name: &'a str,
    pub(super) at: usize,
    pub(super) ty: Option<Arc<TypeTree>>,
}

impl<'a> Leaf<'a> for InputLeaf<'a> {
    fn read(parser: &mut Parser<'a>) -> Parsed<Option<Self>> {
        if parser.cursor.peek() != b'%' {
            return Ok(None);
        }
        let at = parser.cursor.pos;
        let name = parser.new_name()?;
        let ty = if parser.cursor.eat(":") { Some(parser.ty()?) } else { None };
        Ok(Some(InputLeaf { name, at, ty }))
    }
}

impl<'a> Leaf<'a> for Type {
    fn read(parser: &mut Parser<'a>) -> Parsed<Option<Self>> {
        let start = parser.cursor;
        let Some(word) = parser.cursor.word() else { return Ok(None) };
        let ty = match word {
            "int" => Type::Int,
            "float" => Type::Float,
            "boolean" => Type::Bool,
            "str" => Type::Str,
            "any" => Type::Any,
            "optional" => Type::Optional(Box::new(parser.inner_type()?)),
            "list" => Type::List(Box::new(parser.inner_type()?)),
            _ => match dtype(word) {
                Some(dtype) if parser.cursor.here() == b'[' => {
                    parser.cursor.pos += 1;
                    let at = parser.cursor.pos;
                    let shape = parser.cursor.until(b']')?;
                    Type::Tensor(TensorType { dtype, shape: parser.shape(shape, at)? })
                }
                _ => {
                    parser.cursor = start;
                    return Ok(None);
                }
            },
        };
        Ok(Some(ty))
    }
}

fn dtype(word: &str) -> Option<DType> {
    DType::ALL.iter().copied().find(|dtype| dtype.name() == word)
}

/// Which attributes of a node were read.
pub(super) struct Attributes {
    pub(super) meta: NodeMeta,
    pub(super) name: Option<(usize, Arc<str>)>,
}

impl<'a> Parser<'a> {
    /// Reads a nested value.
    pub(super) fn value<L: Leaf<'a>>(&mut self) -> Parsed<Arg<L>> {
        self.nested(0)
    }

    /// Reads the type in parentheses after `optional` or `list`.
    fn inner_type(&mut self) -> Parsed<TypeTree> {
        let at = self.cursor.pos;
        self.cursor.expect("(")?;
        self.type_depth += 1;
        if self.type_depth > MAX_NESTING {
            let error = err!(Parse, "expected at most {MAX_NESTING} levels of types, got more");
            return Err(Problem { at, error });
        }
        let inner = self.value()?;
        self.type_depth -= 1;
        self.cursor.expect(")")?;
        Ok(inner)
    }

    fn nested<L: Leaf<'a>>(&mut self, depth: usize) -> Parsed<Arg<L>> {
        if let Some(leaf) = L::read(self)? {
            return Ok(Arg::Leaf(leaf));
        }
        let at = self.cursor.pos;
        let open = self.cursor.peek();
        if matches!(open, b'(' | b'[' | b'{') && depth >= MAX_DEPTH {
            let error = err!(Parse, "expected at most {MAX_DEPTH} levels of nesting, got more");
            return Err(Problem { at, error: error.help("flatten the nested lists") });
        }
        let arg = match open {
            b'(' => {
                let (items, _) = self.items(")", depth)?;
                Arg::tuple(items)
            }
            b'[' => {
                let (items, _) = self.items("]", depth)?;
                Arg::list(items)
            }
            b'{' => {
                self.cursor.pos += 1;
                let mut entries = Vec::new();
                while !self.cursor.eat("}") {
                    let key: Arc<str> = self.cursor.string()?.into();
                    self.cursor.expect(":")?;
                    entries.push((key, self.nested(depth + 1)?));
                    self.separator("}")?;
                }
                Arg::dict(entries)
            }
            b'"' => Arg::str(&*self.cursor.string()?),
            b'@' => self.subgraph()?,
            b'<' => {
                self.cursor.pos += 1;
                let start = self.cursor.pos;
                let text = self.cursor.until(b'>')?;
                Arg::dim(self.dim(text, start)?)
            }
            b'.' if self.cursor.eat("..") => Arg::Ellipsis,
            b'-' | b'0'..=b'9' => match self.cursor.number()? {
                Number::Int(n) => Arg::Int(n),
                Number::Float(x) => Arg::Float(x),
            },
            _ => return self.word_value(depth),
        };
        match arg {
            Arg::Failed(error) => Err(Problem { at, error: err!(Parse, "{}", error.message()) }),
            arg => Ok(arg),
        }
    }

    /// Reads items in brackets, and whether the last was followed by a comma.
    fn items<L: Leaf<'a>>(&mut self, close: &str, depth: usize) -> Parsed<(Vec<Arg<L>>, bool)> {
        self.cursor.pos += 1;
        let (mut items, mut comma, at) = (Vec::new(), false, self.cursor.pos);
        while !self.cursor.eat(close) {
            items.push(self.nested(depth + 1)?);
            comma = self.separator(close)?;
        }
        if close == ")" && items.len() == 1 && !comma {
            let error = err!(Parse, "expected `,` after the only item of a tuple, got `)`");
            return Err(Problem { at, error: error.help("write `(a,)` for a tuple of one item") });
        }
        Ok((items, comma))
    }

    /// Reads a comma, which may be missing before `close`.
    pub(super) fn separator(&mut self, close: &str) -> Parsed<bool> {
        if self.cursor.eat(",") {
            return Ok(true);
        }
        if self.cursor.peek() == close.as_bytes()[0] {
            return Ok(false);
        }
        Err(self.cursor.expected(&format!("`,` or `{close}`")))
    }

    fn word_value<L: Leaf<'a>>(&mut self, depth: usize) -> Parsed<Arg<L>> {
        let start = self.cursor;
        let word = self.cursor.word();
        let arg = match word.unwrap_or_default() {
            "none" => Arg::None,
            "true" => Arg::Bool(true),
            "false" => Arg::Bool(false),
            "inf" => Arg::Float(f64::INFINITY),
            "nan" if self.cursor.here() == b'(' => Arg::Float(self.nan()?),
            "nan" => Arg::Float(f64::NAN),
            "slice" => {
                if depth >= MAX_DEPTH {
                    return Err(Problem { at: start.pos, error: err!(Parse, "slices are nested too deep") });
                }
                self.cursor.expect("(")?;
                let first = self.nested(depth + 1)?;
                self.cursor.expect(",")?;
                let stop = self.nested(depth + 1)?;
                self.cursor.expect(",")?;
                let step = self.nested(depth + 1)?;
                self.cursor.expect(")")?;
                match Arg::slice(first, stop, step) {
                    Arg::Failed(error) => {
                        return Err(Problem { at: start.pos, error: err!(Parse, "{}", error.message()) });
                    }
                    slice => slice,
                }
            }
            "error" => {
                self.cursor.expect("(")?;
                let message = self.cursor.string()?;
                self.cursor.expect(")")?;
                Arg::Failed(err!(Structure, "{message}"))
            }
            word => match dtype(word) {
                Some(dtype) => Arg::DType(dtype),
                None => {
                    self.cursor = start;
                    let problem = self.cursor.expected("a value");
                    return Err(match word.is_empty() {
                        true => problem,
                        false => Problem {
                            error: problem.error.help("write text in double quotes, and nodes with %"),
                            ..problem
                        },
                    });
                }
            },
        };
        Ok(arg)
    }

    fn nan(&mut self) -> Parsed<f64> {
        self.cursor.pos += 1;
        let at = self.cursor.pos;
        let text = self.cursor.until(b')')?;
        let digits =
            text.strip_prefix("0x").filter(|d| d.len() == 16 && d.bytes().all(|b| b.is_ascii_hexdigit()));
        let x = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).map(f64::from_bits);
        x.filter(|x| x.is_nan()).ok_or_else(|| Problem {
            at,
            error: err!(Parse, "expected the bits of a NaN as 0x and 16 hexadecimal digits"),
        })
    }

    /// Reads a type; equal tensor types of one graph are shared.
    pub(super) fn ty(&mut self) -> Parsed<Arc<TypeTree>> {
        self.cursor.skip();
        let start = self.cursor;
        let mut end = start;
        if dtype(end.segment()).is_some() && end.here() == b'[' && end.until(b']').is_ok() {
            let text = start.until_position(end.pos);
            if let Some(ty) = self.types.get(text) {
                self.cursor = end;
                return Ok(ty.clone());
            }
            let ty: Arc<TypeTree> = Arc::new(self.value()?);
            self.types.insert(text, ty.clone());
            return Ok(ty);
        }
        self.value().map(Arc::new)
    }

    /// Reads sizes between commas that are not inside parentheses.
    fn shape(&mut self, text: &'a str, at: usize) -> Parsed<Shape> {
        let mut dims = Vec::new();
        let (mut depth, mut start) = (0usize, 0);
        for (i, b) in text.bytes().chain([b',']).enumerate() {
            match b {
                b'(' => depth += 1,
                b')' => depth = depth.saturating_sub(1),
                b',' if depth == 0 || i == text.len() => {
                    if i == text.len() && dims.is_empty() && text.trim().is_empty() {
                        break;
                    }
                    let dim = self.dim(&text[start..i], at + start)?;
                    if dim.known().is_some_and(|n| n < 0) {
                        let error = err!(Parse, "expected a size of at least 0, got {dim}");
                        return Err(Problem { at: at + start, error });
                    }
                    dims.push(dim);
                    start = i + 1;
                }
                _ => {}
            }
        }
        Ok(dims.into_iter().collect())
    }

    fn dim(&mut self, text: &'a str, at: usize) -> Parsed<Dim> {
        let text = text.trim();
        if !text.is_empty() && text.len() < 18 && text.bytes().all(|b| b.is_ascii_digit()) {
            return Ok(Dim::new(text.bytes().fold(0, |n, b| n * 10 + i64::from(b - b'0'))));
        }
        let symbols = &self.symbols;
        let dim = Dim::parse_with(text, &|name, is_node| match symbols[usize::from(is_node)].get(name) {
            Some(symbol) => symbol.clone(),
            None if is_node => Symbol::of_node(name, Symbol::UNKNOWN_OWNER),
            None => Symbol::new(name),
        });
        dim.map_err(|error| Problem { at, error: err!(Parse, "{}", error.message()) })
    }

    /// Reads `#{..}`; each attribute may come once.
    pub(super) fn attributes(&mut self) -> Parsed<Attributes> {
        self.cursor.expect("#{")?;
        let mut attributes = Attributes { meta: NodeMeta::default(), name: None };
        let meta = &mut attributes.meta;
        let mut seen: Vec<&str> = Vec::new();
        while !self.cursor.eat("}") {
            self.cursor.skip();
            let mut start = self.cursor;
            let key = self.cursor.word().unwrap_or_default();
            if seen.contains(&key) {
                return Err(Problem {
                    at: start.pos,
                    error: err!(Parse, "the attribute {key} is given twice"),
                });
            }
            seen.push(key);
            self.cursor.expect(":")?;
            match key {
                "name" => {
                    self.cursor.skip();
                    let at = self.cursor.pos;
                    attributes.name = Some((at, self.cursor.string()?.into()));
                }
                "type" => meta.ty = Some(self.ty()?),
                "src" => meta.source = Some(self.source()?),
                "stack" => meta.stack = Some(self.stack()?),
                "by" => {
                    for provenance in self.list(Self::provenance)? {
                        meta.add_provenance(provenance);
                    }
                }
                "tags" => {
                    for tag in self.list(Self::text)? {
                        meta.add_tag(tag);
                    }
                }
                "ext" => {
                    let at = {
                        self.cursor.skip();
                        self.cursor.pos
                    };
                    let value: Literal = self.value()?;
                    let Arg::Dict(entries) = value else {
                        return Err(Problem {
                            at,
                            error: err!(Parse, "expected a dictionary, got {}", value.kind_name()),
                        });
                    };
                    for (key, value) in entries.iter() {
                        meta.set_ext(key.clone(), Some(value.clone()));
                    }
                }
                _ => return Err(start.expected("one of name, type, src, stack, by, tags, ext")),
            }
            self.separator("}")?;
        }
        Ok(attributes)
    }

    fn list<T>(&mut self, item: fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        self.cursor.expect("[")?;
        let mut items = Vec::new();
        while !self.cursor.eat("]") {
            items.push(item(self)?);
            self.separator("]")?;
        }
        Ok(items)
    }

    fn text(&mut self) -> Parsed<Arc<str>> {
        self.cursor.string().map(Into::into)
    }

    /// Reads `"file:line:column"`.
    fn source(&mut self) -> Parsed<SourceLoc> {
        self.cursor.skip();
        let at = self.cursor.pos;
        let text = self.cursor.string()?;
        let mut parts = text.rsplitn(3, ':');
        let (column, line, file) = (parts.next(), parts.next(), parts.next());
        let number =
            |part: Option<&str>| part.filter(|p| p.bytes().all(|b| b.is_ascii_digit()))?.parse().ok();
        match (file, number(line), number(column)) {
            (Some(file), Some(line), Some(column)) => {
                let shared = self.shared.get(file).cloned().unwrap_or_else(|| {
                    let file: Arc<str> = Arc::from(file);
                    self.shared.insert(file.clone());
                    file
                });
                Ok(SourceLoc::new(shared, line, column))
            }
            _ => Err(Problem {
                at,
                error: err!(Parse, "expected a place as \"file:line:column\", got {text:?}"),
            }),
        }
    }

    fn stack(&mut self) -> Parsed<Arc<[ModuleFrame]>> {
        self.cursor.skip();
        let start = self.cursor;
        // The same text as that of the node before is the same stack.
        if let Some((text, stack)) = &self.last_stack
            && start.starts_with(text)
        {
            self.cursor.pos += text.len();
            return Ok(stack.clone());
        }
        let stack: Arc<[ModuleFrame]> = self.list(Self::frame)?.into();
        self.last_stack = Some((start.until_position(self.cursor.pos), stack.clone()));
        Ok(stack)
    }

    fn frame(&mut self) -> Parsed<ModuleFrame> {
        self.cursor.expect("(")?;
        let path = self.text()?;
        self.cursor.expect(",")?;
        let type_name = self.text()?;
        self.cursor.expect(",")?;
        let at = {
            self.cursor.skip();
            self.cursor.pos
        };
        let call = self.cursor.integer()?;
        let call = u32::try_from(call)
            .map_err(|_| Problem { at, error: err!(Parse, "expected the number of a call, got {call}") })?;
        let source = if self.cursor.eat(",") { Some(self.source()?) } else { None };
        self.cursor.expect(")")?;
        Ok(ModuleFrame { path, type_name, call, source })
    }

    fn provenance(&mut self) -> Parsed<Provenance> {
        self.cursor.expect("(")?;
        let pass = self.text()?;
        self.cursor.expect(",")?;
        let from = self.list(Self::text)?;
        self.cursor.expect(")")?;
        Ok(Provenance { pass, from })
    }
}
