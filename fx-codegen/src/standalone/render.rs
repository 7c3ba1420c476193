//! Steps as Rust text.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use fx_core::dim::Step as DimStep;
use fx_core::loops::{self, Operand};
use fx_core::{DType, Dim, Result, Symbol, err};

use super::memory::Memory;
use super::package::is_kernel;
use super::step::{Buffer, Call, Failure, Length, Loop, Piece, Source, Step};
use super::table;
use super::value::{Home, View, collapse, count};
use crate::expression::{self, convert};
use crate::readable::names;

/// The most statements of a function.
const LONGEST: usize = 40;
/// The longest line of a call.
const WIDEST: usize = 110;

/// Writes steps.
pub(super) struct Renderer<'a> {
    pub(super) memory: &'a Memory,
    pub(super) buffers: &'a [Buffer],
    /// The names of inputs, weights and symbols.
    pub(super) inputs: &'a [String],
    pub(super) weights: &'a [String],
    pub(super) symbols: &'a [(Symbol, String)],
    /// The functions that were written, and their text.
    functions: Vec<String>,
    loops: HashMap<String, usize>,
    loop_texts: Vec<String>,
    /// The modules of kernels that are called.
    pub(super) modules: BTreeSet<String>,
    n_parts: usize,
}

/// What statements read: the parameters of a function of them.
#[derive(Clone, Copy, Default)]
struct Needs {
    sizes: bool,
    /// Whether they change sizes.
    binds: bool,
    weights: bool,
    inputs: bool,
    scratch: bool,
}

/// A list of statements.
#[derive(Default)]
struct Block {
    lines: Vec<String>,
    fails: bool,
    /// What the functions that they call read.
    needs: Needs,
}

impl Block {
    fn push(&mut self, depth: usize, line: &str) {
        self.lines.push(format!("{}{line}", "    ".repeat(depth)));
    }

    /// Adds the statements of another list.
    fn absorb(&mut self, inner: Block) {
        self.lines.extend(inner.lines);
        self.called(inner.fails, inner.needs);
    }

    fn called(&mut self, fails: bool, needs: Needs) {
        self.fails |= fails;
        self.needs = self.needs.and(needs);
    }
}

impl Needs {
    fn and(self, other: Needs) -> Needs {
        Needs {
            sizes: self.sizes || other.sizes,
            binds: self.binds || other.binds,
            weights: self.weights || other.weights,
            inputs: self.inputs || other.inputs,
            scratch: self.scratch || other.scratch,
        }
    }

    /// Returns what a text reads itself.
    fn of(text: &str) -> Needs {
        let [sizes, weights, inputs, scratch] =
            ["d.", "w.", "inputs.", "s."].map(|mark| mentions(text, mark));
        Needs { sizes, binds: false, weights, inputs, scratch }
    }
}

impl<'a> Renderer<'a> {
    pub(super) fn new(
        memory: &'a Memory,
        buffers: &'a [Buffer],
        inputs: &'a [String],
        weights: &'a [String],
        symbols: &'a [(Symbol, String)],
    ) -> Self {
        Renderer {
            memory,
            buffers,
            inputs,
            weights,
            symbols,
            functions: Vec::new(),
            loops: HashMap::new(),
            loop_texts: Vec::new(),
            modules: BTreeSet::new(),
            n_parts: 0,
        }
    }

    /// Writes a program: the statements that run it, and the functions that these call.
    pub(super) fn program(mut self, steps: &[Step]) -> Result<Program> {
        let block = match n_statements(steps) {
            0..=LONGEST => {
                let lines = self.block_lines(steps, 1)?;
                let (call, ..) = self.part(lines);
                Block { lines: vec![format!("        {call}")], ..Block::default() }
            }
            _ => self.block(steps, 2)?,
        };
        let mut text = String::new();
        for function in self.functions.iter().chain(&self.loop_texts) {
            text.push('\n');
            text.push_str(function);
        }
        Ok(Program {
            body: block.lines,
            functions: text,
            modules: self.modules,
            has_loops: !self.loop_texts.is_empty(),
        })
    }

    /// Writes a list of steps as statements; a long list as calls of functions.
    fn block(&mut self, steps: &[Step], depth: usize) -> Result<Block> {
        if n_statements(steps) <= LONGEST {
            return self.block_lines(steps, depth);
        }
        let mut block = Block::default();
        let mut rest = steps;
        while !rest.is_empty() {
            let mut n = 0;
            let end = rest.iter().position(|step| {
                n += usize::from(!matches!(step, Step::Comment(_)));
                n > LONGEST
            });
            let mut end = end.unwrap_or(rest.len());
            // Comments stay with what they are about.
            while end < rest.len() && end > 0 && matches!(rest[end - 1], Step::Comment(_)) {
                end -= 1;
            }
            let (part, next) = rest.split_at(end.max(1));
            rest = next;
            let lines = self.block_lines(part, 1)?;
            let (call, fails, needs) = self.part(lines);
            block.called(fails, needs);
            block.push(depth, &call);
        }
        Ok(block)
    }

    /// Makes a function of statements; returns its call, whether it can fail, and what it reads.
    fn part(&mut self, block: Block) -> (String, bool, Needs) {
        let name = format!("part_{}", self.n_parts);
        self.n_parts += 1;
        let body = block.lines.join("\n");
        let needs = block.needs.and(Needs::of(&body));
        let sizes = if needs.binds { "&mut Sizes" } else { "&Sizes" };
        let all = [
            (needs.sizes || needs.binds, "d", sizes),
            (needs.weights, "w", "&Weights"),
            (needs.inputs, "inputs", "&Inputs<'_>"),
            (needs.scratch, "s", "&mut Scratch"),
        ];
        let used = || all.iter().filter(|(is_used, ..)| *is_used);
        let params: Vec<String> = used().map(|(_, name, ty)| format!("{name}: {ty}")).collect();
        let args: Vec<&str> = used().map(|(_, name, _)| *name).collect();
        let (params, args) = (params.join(", "), args.join(", "));
        let fails = block.fails;
        let (result, end, ask) =
            if fails { (" -> Result<(), Error>", "\n    Ok(())", "?") } else { ("", "", "") };
        self.functions.push(format!("fn {name}({params}){result} {{\n{body}{end}\n}}\n"));
        (format!("{name}({args}){ask};"), fails, needs)
    }

    fn block_lines(&mut self, steps: &[Step], depth: usize) -> Result<Block> {
        let mut block = Block::default();
        for step in steps {
            match step {
                Step::Comment(text) => block.push(depth, &format!("// {text}")),
                Step::Call(call) => {
                    block.fails |= call.fails.is_some();
                    self.call(call, depth, &mut block)?;
                }
                Step::Loop(made) => {
                    if made.writes.is_empty() {
                        continue;
                    }
                    let args = self.loop_of(made)?;
                    push_call(&mut block, depth, &args.0, &args.1, ";");
                }
                Step::Branch { test, then, otherwise } => {
                    let at = self.element(test)?;
                    block.push(depth, &format!("if {at} {{"));
                    block.absorb(self.block(then, depth + 1)?);
                    block.push(depth, "} else {");
                    block.absorb(self.block(otherwise, depth + 1)?);
                    block.push(depth, "}");
                }
                Step::While { before, test, body } => {
                    block.push(depth, "loop {");
                    block.absorb(self.block(before, depth + 1)?);
                    let at = self.element(test)?;
                    block.push(depth + 1, &format!("if !{at} {{"));
                    block.push(depth + 2, "break;");
                    block.push(depth + 1, "}");
                    block.absorb(self.block(body, depth + 1)?);
                    block.push(depth, "}");
                }
                Step::For { index, rounds, body } => {
                    block.push(depth, &format!("for i in 0..{} {{", self.integer(rounds)?));
                    self.bind(&[(index.clone(), "i".to_owned())], depth + 1, &mut block)?;
                    block.absorb(self.block(body, depth + 1)?);
                    block.push(depth, "}");
                }
                Step::Bind(values) => {
                    let values = values.iter().map(|(symbol, source)| {
                        let value = self.integer(source)?;
                        let is_known = matches!(source, Source::Size(size) if size.known().is_some());
                        let value = match (is_known, is_enclosed(&value)) {
                            (true, _) => value,
                            (_, true) => format!("bounded{value}?"),
                            (_, false) => format!("bounded({value})?"),
                        };
                        Ok((symbol.clone(), value))
                    });
                    let values = values.collect::<Result<Vec<_>>>()?;
                    block.fails |= values.iter().any(|(_, value)| value.ends_with('?'));
                    self.bind(&values, depth, &mut block)?;
                }
                Step::Grow(id) => {
                    block.fails = true;
                    let place = self.place(*id);
                    let buffer = &self.buffers[*id];
                    let (len, zero) = (length(&buffer.len, self.symbols)?, zero(buffer.dtype));
                    self.modules.extend(called_modules(&len).map(str::to_owned));
                    block.push(depth, &format!("grow(&mut s.{place}, {len}, {zero})?;"));
                }
                Step::Require(size) => {
                    block.fails = true;
                    let why = format!("{} is negative", names::comment(&size.to_string()));
                    block.push(depth, &format!("if {} < 0 {{", self.signed(size)?));
                    block.push(depth + 1, &format!("return Err(Error::Sizes({why:?}));"));
                    block.push(depth, "}");
                }
            }
        }
        Ok(block)
    }

    /// Writes an assignment of sizes.
    fn bind(&self, values: &[(Symbol, String)], depth: usize, block: &mut Block) -> Result<()> {
        block.needs.binds = true;
        // A symbol of one possible value is a number in expressions.
        let names = values.iter().map(|(symbol, _)| symbol_name(symbol, self.symbols));
        let names = names.collect::<Result<Vec<_>>>()?;
        let line = match (&names[..], values) {
            ([name], [(_, value)]) => format!("{name} = {value};"),
            _ => {
                let values: Vec<&str> = values.iter().map(|(_, value)| &**value).collect();
                format!("({}) = ({});", names.join(", "), values.join(", "))
            }
        };
        block.push(depth, &line);
        Ok(())
    }

    /// Writes an integer as an `i64`.
    fn integer(&self, source: &Source) -> Result<String> {
        match source {
            Source::Size(size) => self.signed(size),
            Source::Element(view) => self.element(view),
        }
    }

    fn signed(&self, size: &Dim) -> Result<String> {
        signed(size, self.symbols)
    }

    fn call(&mut self, call: &Call, depth: usize, block: &mut Block) -> Result<()> {
        let function = match call.function.strip_prefix('!') {
            Some(custom) => custom.to_owned(),
            None => {
                self.modules.extend(called_modules(&call.function).map(str::to_owned));
                call.function.clone()
            }
        };
        let mut args = Vec::new();
        for pieces in &call.args {
            let mut text = String::new();
            for piece in pieces {
                match piece {
                    Piece::Text(part) => {
                        self.modules.extend(called_modules(part).map(str::to_owned));
                        text.push_str(part);
                    }
                    Piece::Size(dim) => text.push_str(&self.size(dim)?),
                    Piece::Integer(dim) => text.push_str(&self.signed(dim)?),
                    Piece::Read(view) => text.push_str(&self.slice(view, false)?),
                    Piece::Element(view) => text.push_str(&self.element(view)?),
                    Piece::WriteView(view) => text.push_str(&self.slice(view, true)?),
                    Piece::Weight(i) => {
                        let _ = write!(text, "&{}", self.home(Home::Weight(*i)));
                    }
                    Piece::Write(id) => {
                        let _ = write!(text, "&mut s.{}[..]", self.place(*id));
                    }
                }
            }
            args.push(text);
        }
        let end = match call.fails {
            None => ";",
            Some(Failure::Index) => ".map_err(Error::Index)?;",
            Some(Failure::Operand) => ".map_err(Error::Operand)?;",
            Some(Failure::Check) => ".map_err(Error::Check)?;",
        };
        push_call(block, depth, &function, &args, end);
        Ok(())
    }

    fn place(&self, id: usize) -> String {
        place_name(self.memory.place_of[id].unwrap_or(usize::MAX))
    }

    /// Writes the memory of a value.
    fn home(&self, home: Home) -> String {
        match home {
            Home::Input(i) => format!("inputs.{}", self.inputs[i]),
            Home::Weight(i) => format!("w.{}", self.weights[i]),
            Home::Buffer(id) => format!("s.{}", self.place(id)),
        }
    }

    /// Writes the elements of a value from its first as a slice.
    pub(super) fn slice(&self, view: &View, mutable: bool) -> Result<String> {
        let (reference, home) = (if mutable { "&mut " } else { "&" }, self.home(view.home));
        let (none, span) = (Dim::new(0), view.span());
        if view.shape.contains(&none) {
            return Ok(format!("{reference}{home}[..0]"));
        }
        let is_first = view.offset == none && view.is_contiguous();
        // Where there are no elements there may be no place for the first one either.
        if !is_first && view.shape.iter().any(|size| size.bounds().0 < 1) {
            let function = if mutable { "part_mut" } else { "part" };
            let [offset, span, n] = [&view.offset, &span, &count(&view.shape)].map(|dim| self.size(dim));
            return Ok(format!("{function}({reference}{home}, {}, {}, {})", offset?, span?, n?));
        }
        let range = match view.offset == Dim::new(0) {
            true => format!("..{}", self.size(&span)?),
            false => format!("{}..{}", self.size(&view.offset)?, self.size(&(&view.offset + &span))?),
        };
        Ok(format!("{reference}{home}[{range}]"))
    }

    /// Writes the first element of a value.
    fn element(&self, view: &View) -> Result<String> {
        Ok(format!("{}[{}]", self.home(view.home), self.size(&view.offset)?))
    }

    /// Writes a size.
    pub(super) fn size(&self, dim: &Dim) -> Result<String> {
        size(dim, self.symbols)
    }

    /// Writes a loop as a function; returns its name and the arguments of its call.
    fn loop_of(&mut self, made: &Loop) -> Result<(String, Vec<String>)> {
        let (params, args, body) = self.loop_parts(made)?;
        let text = format!("({params}) {{\n{body}}}\n");
        let next = self.loops.len();
        let number = *self.loops.entry(text.clone()).or_insert(next);
        let name = format!("loop_{number}");
        if number == next {
            let body: String = text.lines().map(|line| format!("    {line}\n")).collect();
            self.loop_texts.push(format!("simd! {{\n    fn {name}{}}}\n", body.trim_start()));
        }
        Ok((name, args))
    }

    fn loop_parts(&mut self, made: &Loop) -> Result<(String, Vec<String>, String)> {
        let dense = super::value::row_major(&made.shape);
        let mut strides: Vec<Vec<Dim>> = made.reads.iter().map(|read| read.strides.clone()).collect();
        strides.push(dense);
        let (mut sizes, mut strides) = collapse(&made.shape, &strides);
        if sizes.is_empty() {
            sizes.push(Dim::new(1));
            strides.iter_mut().for_each(|strides| strides.push(Dim::new(0)));
        }
        let (mut params, mut args) = (Vec::new(), Vec::new());
        let is_replaced =
            |read: usize| made.in_place.iter().find(|(from, _)| *from == read).map(|(_, write)| *write);
        // Sizes are arguments, so that loops which differ in nothing else are one function.
        let mut numbers: Vec<String> = Vec::new();
        let mut size = |renderer: &Self, dim: &Dim| -> Result<String> {
            let text = renderer.size(dim)?;
            if text == "0" || text == "1" {
                return Ok(text);
            }
            let at = numbers.iter().position(|known| *known == text).unwrap_or_else(|| {
                numbers.push(text);
                numbers.len() - 1
            });
            Ok(format!("n{at}"))
        };
        for (i, read) in made.reads.iter().enumerate() {
            if is_replaced(i).is_none() {
                params.push(format!("x{i}: &[{}]", read.dtype));
                args.push(self.slice(read, false)?);
            }
        }
        for (i, (id, step)) in made.writes.iter().enumerate() {
            params.push(format!("o{i}: &mut [{}]", made.ops[*step].dtype));
            let view = View::whole(Home::Buffer(*id), made.ops[*step].dtype, &made.shape);
            args.push(self.slice(&view, true)?);
        }
        let rank = sizes.len();
        let zero = Dim::new(0);
        let one = Dim::new(1);
        let mut body = String::new();
        if made.shape.iter().any(|size| size.bounds().0 < 1) && !made.writes.is_empty() {
            body.push_str("    if o0.is_empty() {\n        return;\n    }\n");
        }
        let mut depth = 1;
        let indent = |depth: usize| "    ".repeat(depth);
        // The outer axes are one loop each.
        for (axis, n) in sizes[..rank - 1].iter().enumerate() {
            let _ = writeln!(body, "{}for i{axis} in 0..{} {{", indent(depth), size(self, n)?);
            depth += 1;
        }
        let n = size(self, &sizes[rank - 1])?;
        let base = |renderer: &Self,
                    strides: &[Dim],
                    size: &mut dyn FnMut(&Self, &Dim) -> Result<String>|
         -> Result<String> {
            let mut terms = Vec::new();
            for (axis, stride) in strides[..rank - 1].iter().enumerate() {
                if *stride == one {
                    terms.push(format!("i{axis}"));
                } else if *stride != zero {
                    terms.push(format!("i{axis} * {}", size(renderer, stride)?));
                }
            }
            Ok(terms.join(" + "))
        };
        let mut reads = Vec::new();
        for (i, own) in strides[..made.reads.len()].iter().enumerate() {
            if let Some(write) = is_replaced(i) {
                reads.push(format!("o{write}[i]"));
                continue;
            }
            let from = base(self, own, &mut size)?;
            let pad = indent(depth);
            if own[rank - 1] == zero {
                let at = if from.is_empty() { "0".to_owned() } else { from };
                let _ = writeln!(body, "{pad}let x{i} = x{i}[{at}];");
                reads.push(format!("x{i}"));
            } else {
                if own[rank - 1] == one {
                    let start = if from.is_empty() { String::new() } else { format!("{from}..][") };
                    let _ = writeln!(body, "{pad}let x{i} = &x{i}[{start}..{n}];");
                    reads.push(format!("x{i}[i]"));
                } else {
                    if !from.is_empty() {
                        let _ = writeln!(body, "{pad}let x{i} = &x{i}[{from}..];");
                    }
                    reads.push(format!("x{i}[i * {}]", size(self, &own[rank - 1])?));
                }
            }
        }
        let from = base(self, &strides[made.reads.len()], &mut size)?;
        for i in 0..made.writes.len() {
            let start = if from.is_empty() { String::new() } else { format!("{from}..][") };
            let _ = writeln!(body, "{}let o{i} = &mut o{i}[{start}..{n}];", indent(depth));
        }
        let sizes = made.sizes.iter().enumerate().map(|(i, dim)| {
            params.push(format!("d{i}: i64"));
            args.push(signed(dim, self.symbols)?);
            Ok(format!("d{i}"))
        });
        let sizes = sizes.collect::<Result<Vec<String>>>()?;
        let _ = writeln!(body, "{}for i in 0..{n} {{", indent(depth));
        for (step, op) in made.ops.iter().enumerate() {
            let _ = writeln!(
                body,
                "{}let v{step}: {} = {};",
                indent(depth + 1),
                op.dtype,
                value(made, op, &reads, &sizes)
            );
        }
        for (i, (_, step)) in made.writes.iter().enumerate() {
            let _ = writeln!(body, "{}o{i}[i] = v{step};", indent(depth + 1));
        }
        for depth in (1..=depth).rev() {
            let _ = writeln!(body, "{}}}", indent(depth));
        }
        for (i, text) in numbers.into_iter().enumerate() {
            params.push(format!("n{i}: usize"));
            args.push(text);
        }
        Ok((params.join(", "), args, body))
    }
}

fn n_statements(steps: &[Step]) -> usize {
    steps.iter().filter(|step| !matches!(step, Step::Comment(_))).count()
}

/// What a program is as text.
pub(super) struct Program {
    /// The statements that run it.
    pub(super) body: Vec<String>,
    pub(super) functions: String,
    /// The modules of kernels that it names.
    pub(super) modules: BTreeSet<String>,
    pub(super) has_loops: bool,
}

/// Returns whether a text reads a field of the variable that `mark` begins with.
fn mentions(text: &str, mark: &str) -> bool {
    text.match_indices(mark).any(|(at, _)| {
        let before = &text[..at];
        // Behind a dot it is a field, behind two the end of a range.
        before.ends_with("..") || !before.ends_with(|c: char| c.is_ascii_alphanumeric() || "_.:".contains(c))
    })
}

/// Returns the name of a place.
pub(super) fn place_name(place: usize) -> String {
    format!("a{place}")
}

fn push_call(block: &mut Block, depth: usize, function: &str, args: &[String], end: &str) {
    let line = format!("{function}({}){end}", args.join(", "));
    if line.len() + 4 * depth <= WIDEST {
        return block.push(depth, &line);
    }
    block.push(depth, &format!("{function}("));
    for arg in args {
        block.push(depth + 1, &format!("{arg},"));
    }
    block.push(depth, &format!("){end}"));
}

/// Writes a size: a number, or an expression of the sizes `d`.
pub(super) fn size(dim: &Dim, symbols: &[(Symbol, String)]) -> Result<String> {
    if let Some(n) = dim.known() {
        return Ok(n.to_string());
    }
    let text = signed(dim, symbols)?;
    let is_one = dim.as_symbol().is_some() || is_enclosed(&text);
    Ok(if is_one { format!("{text} as usize") } else { format!("({text}) as usize") })
}

/// Returns whether a text is in parentheses as a whole.
fn is_enclosed(text: &str) -> bool {
    let mut depth = 0;
    text.starts_with('(')
        && text.char_indices().all(|(at, c)| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth > 0 || at + 1 == text.len()
        })
}

fn symbol_name(symbol: &Symbol, symbols: &[(Symbol, String)]) -> Result<String> {
    let found = symbols.iter().find(|(known, _)| known == symbol).map(|(_, name)| format!("d.{name}"));
    found.ok_or_else(|| err!(Unresolved, "the size {} is known only when the program runs", symbol.name()))
}

/// Writes a size as an `i64`.
pub(super) fn signed(dim: &Dim, symbols: &[(Symbol, String)]) -> Result<String> {
    dim.fold(&mut |step: DimStep<'_, String>| {
        Ok(match step {
            DimStep::Const(i64::MIN) => "i64::MIN".to_owned(),
            DimStep::Const(n) => n.to_string(),
            DimStep::Symbol(symbol) => symbol_name(symbol, symbols)?,
            DimStep::Add(a, b) => {
                let a = if is_enclosed(&a) { &a[1..a.len() - 1] } else { &a };
                match b.strip_prefix('-') {
                    Some(b) => format!("({a} - {b})"),
                    None => format!("({a} + {b})"),
                }
            }
            DimStep::Mul(a, b) => match b.strip_prefix('-') {
                Some("1") => format!("-{a}"),
                Some(b) => format!("-{a} * {b}"),
                None => format!("{a} * {b}"),
            },
            DimStep::FloorDiv(a, b) => format!("i64::div_euclid({a}, {b})"),
            DimStep::Mod(a, b) => format!("i64::rem_euclid({a}, {b})"),
            DimStep::Min(a, b) => format!("i64::min({a}, {b})"),
            DimStep::Max(a, b) => format!("i64::max({a}, {b})"),
        })
    })
}

/// Writes the element that memory is filled with.
pub(super) fn zero(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "false",
        DType::F16 => "f16::ZERO",
        DType::BF16 => "bf16::ZERO",
        dtype if dtype.is_float() => "0.0",
        _ => "0",
    }
}

/// Writes the number of elements of a buffer.
pub(super) fn length(len: &Length, symbols: &[(Symbol, String)]) -> Result<String> {
    if let Some(n) = super::memory::known(len) {
        return Ok(n.to_string());
    }
    match len {
        Length::Of(dim) => size(dim, symbols),
        Length::Work(room, sizes) => {
            let sizes = sizes.iter().map(|dim| size(dim, symbols)).collect::<Result<Vec<_>>>()?;
            Ok(format!("{}({})", room.path, sizes.join(", ")))
        }
    }
}

/// Writes the value of a step of a loop from the texts of what it reads.
fn value(made: &Loop, step: &loops::Step, reads: &[String], sizes: &[String]) -> String {
    let operand = |(i, operand): (usize, &Operand)| {
        let (wanted, taken) = (step.operand_dtype(i), expression::taken(step, i));
        let from = made.dtype_of(*operand, wanted);
        let text = match operand {
            Operand::Number(x) => return table::number(*x, taken),
            Operand::Load(i) => reads[*i as usize].clone(),
            Operand::Step(i) => format!("v{i}"),
            Operand::Size(i) => sizes[*i as usize].clone(),
        };
        match step.is_exact(i) {
            true => convert(&text, from, taken),
            false => convert(&convert(&text, from, wanted), wanted, taken),
        }
    };
    let operands: Vec<String> = step.operands.iter().enumerate().map(operand).collect();
    let params: Vec<String> =
        step.params.iter().map(|x| table::number(*x, expression::taken(step, 0))).collect();
    expression::expression(step, &operands, &params)
}

/// Finds the modules of kernels that a text names.
pub(super) fn called_modules(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
        .filter_map(|path| path.split_once("::"))
        .map(|(module, _)| module)
        .filter(|module| is_kernel(module))
}
