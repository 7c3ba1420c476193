//! The files of a crate: `model` writes the program, `texts` what stands beside it.

mod model;
mod texts;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use fx_core::{Arg, GraphModule, Result, Symbol, Tensor, bail, err};

use super::lower::{self, Lowered, is_half};
use super::memory::{self, Memory};
use super::step::{Length, Step};
use super::value::{Value, View};
use super::{Options, Package, gufunc, rowwise, safetensors};
use crate::readable::names::{self, Names};

/// How the manifest begins, by which it is known that fx wrote it.
pub(super) const MARK: &str = "# Written by fx.";

/// The modules of kernels, with what they need.
const KERNELS: &[(&str, &str, &[&str])] = &[
    ("attention", include_str!("../kernels/attention.rs"), &["gemm", "rows"]),
    // Written for the operations of a program.
    (gufunc::MODULE, "", &["row", "simd", "threads", "walk"]),
    ("bits", include_str!("../kernels/bits.rs"), &[]),
    ("check", include_str!("../kernels/check.rs"), &[]),
    ("conv", include_str!("../kernels/conv.rs"), &["gemm", "window"]),
    ("copy", include_str!("../kernels/copy.rs"), &["walk"]),
    ("count", include_str!("../kernels/count.rs"), &["sort"]),
    ("depthwise", include_str!("../kernels/depthwise.rs"), &["conv"]),
    ("detect", include_str!("../kernels/detect.rs"), &["detection"]),
    ("detection", fx_core::math_source::DETECTION, &["sampling"]),
    ("factor", include_str!("../kernels/factor.rs"), &["row"]),
    ("fft", include_str!("../kernels/fft.rs"), &[]),
    ("float", include_str!("../kernels/float.rs"), &[]),
    ("fractional", fx_core::math_source::FRACTIONAL, &[]),
    ("gemm", include_str!("../kernels/gemm.rs"), &["row", "simd", "threads", "tile"]),
    ("grid", include_str!("../kernels/grid.rs"), &["sampling"]),
    ("half", include_str!("../kernels/half.rs"), &[]),
    ("linalg", include_str!("../kernels/linalg.rs"), &[]),
    ("lookup", include_str!("../kernels/lookup.rs"), &[]),
    ("margin", fx_core::math_source::MARGIN, &[]),
    ("pack", include_str!("../kernels/pack.rs"), &["gemm", "simd"]),
    ("philox", fx_core::math_source::PHILOX, &[]),
    ("pool", include_str!("../kernels/pool.rs"), &["row", "simd", "threads", "window"]),
    ("product", include_str!("../kernels/product.rs"), &["gemm"]),
    ("random", include_str!("../kernels/random.rs"), &["philox"]),
    ("recurrent", include_str!("../kernels/recurrent.rs"), &["gemm"]),
    ("reduce", include_str!("../kernels/reduce.rs"), &["row", "simd"]),
    ("resampling", fx_core::math_source::RESAMPLING, &[]),
    ("resize", include_str!("../kernels/resize.rs"), &["resampling", "simd"]),
    ("row", fx_core::math_source::ROW, &[]),
    ("rows", include_str!("../kernels/rows.rs"), &["row", "simd"]),
    // Written for the operations of a program.
    (rowwise::MODULE, "", &["row", "simd", "threads"]),
    ("sampling", fx_core::math_source::SAMPLING, &["resampling"]),
    ("scan", include_str!("../kernels/scan.rs"), &[]),
    ("select", fx_core::math_source::SELECT, &[]),
    ("simd", include_str!("../kernels/simd.rs"), &["tile"]),
    ("sort", include_str!("../kernels/sort.rs"), &["select"]),
    ("threads", include_str!("../kernels/threads.rs"), &[]),
    ("tile", include_str!("../kernels/tile.rs"), &[]),
    ("walk", include_str!("../kernels/walk.rs"), &[]),
    ("window", include_str!("../kernels/window.rs"), &["simd"]),
    ("winograd", include_str!("../kernels/winograd.rs"), &["conv"]),
];

/// Returns whether a module of kernels has this name.
pub(super) fn is_kernel(name: &str) -> bool {
    KERNELS.iter().any(|(module, ..)| *module == name)
}

/// What takes the place of `simd` and `threads` without `std`.
const PLAIN: &str = include_str!("../kernels/plain.rs");
const ALONE: &str = include_str!("../kernels/alone.rs");

/// The longest name that registries of crates take.
const LONGEST_NAME: usize = 64;

/// Lints that a text which is not written by hand does not follow.
const ALLOW: &str = "#![allow(unused, unreachable_pub, clippy::all, clippy::pedantic)]\n";

pub(super) fn generate(gm: &GraphModule, options: &Options) -> Result<Package> {
    let name = package_name(gm, options)?;
    let mut lowered = lower::lower(gm, options)?;
    let updates: Vec<Value> =
        lowered.weights.iter().filter_map(|weight| weight.update.clone().map(Arg::Leaf)).collect();
    let mut kept: Vec<&Value> = updates.iter().collect();
    kept.push(&lowered.output);
    let memory = memory::plan(&lowered.buffers, &mut lowered.steps, &kept);
    let writer = Writer::new(&lowered, &memory, options, name.clone())?;
    writer.package()
}

/// Names all that cannot be written.
pub(super) fn check(gm: &GraphModule, options: &Options) -> Result<()> {
    package_name(gm, options)?;
    lower::lower(gm, options).map(|_| ())
}

/// Crates of Rust that every crate or test knows by their names.
const KNOWN_CRATES: [&str; 5] = ["alloc", "core", "proc_macro", "std", "test"];

/// Returns a text as the name of a crate.
pub(super) fn name_of(text: &str) -> String {
    let name = names::variable(text).trim_matches('_').replace('_', "-");
    match name.as_str() {
        "" => "model".to_owned(),
        // Keywords are given a line behind them, which a crate cannot have.
        name if names::variable(name) != name.replace('-', "_") => format!("model-{name}"),
        name if KNOWN_CRATES.contains(&&*name.replace('-', "_")) => format!("model-{name}"),
        _ => name,
    }
}

/// Returns the name of the crate. Fails if the options give it one that no crate can have.
fn package_name(gm: &GraphModule, options: &Options) -> Result<String> {
    let Some(name) = &options.name else { return Ok(name_of(gm.name())) };
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    let ident = name.replace('-', "_");
    let fault = if name.is_empty() {
        "it is empty"
    } else if name.len() > LONGEST_NAME {
        "it is too long"
    } else if !ident.chars().all(|c| is_letter(c) || c.is_ascii_digit()) {
        "it has other characters than letters, digits, `-` and `_`"
    } else if !name.starts_with(is_letter) {
        "it does not begin with a letter or `_`"
    } else if ident.bytes().all(|b| b == b'_') {
        "it has neither a letter nor a digit"
    } else if names::is_keyword(&ident) {
        "it is a keyword of Rust"
    } else if KNOWN_CRATES.contains(&&*ident) {
        "it is that of a crate of Rust"
    } else {
        return Ok(name.clone());
    };
    Err(err!(Argument, "{name:?} cannot be the name of a crate: {fault}").help(format!(
        "a name has up to {LONGEST_NAME} letters, digits, `-` and `_`, begins with a letter or `_`, and is no \
         keyword, such as {:?}",
        name_of(name)
    )))
}

/// Returns the least and the greatest size that a crate takes for a symbol; two of them are multiplied
/// without overflow.
fn size_range(symbol: &Symbol) -> (i64, i64) {
    let most = i64::from(i32::MAX);
    (symbol.min().max(0), symbol.max().map_or(most, |max| max.min(most)))
}

/// Returns the range of an integer input.
fn number_range(symbol: &Symbol) -> (i64, i64) {
    let most = i64::from(i32::MAX);
    (symbol.min().max(-most), symbol.max().map_or(most, |max| max.min(most)))
}

/// An output: its field, and where it is.
struct Output {
    name: String,
    view: View,
}

struct Writer<'a> {
    lowered: &'a Lowered,
    memory: &'a Memory,
    options: &'a Options,
    name: String,
    inputs: Vec<String>,
    weights: Vec<String>,
    /// Which weights a call reads or changes.
    is_kept: Vec<bool>,
    symbols: Vec<(Symbol, String)>,
    outputs: Vec<Output>,
}

/// Finds the tensors of a result and names them by their place in it.
fn outputs(value: &Value, path: &str, names: &mut Names, out: &mut Vec<Output>) -> Result<()> {
    match value {
        Arg::Leaf(view) => {
            let name = names.claim(names::variable(if path.is_empty() { "output" } else { path }));
            out.push(Output { name, view: view.clone() });
        }
        Arg::Tuple(items) | Arg::List(items) => {
            for (i, item) in items.iter().enumerate() {
                let path = if path.is_empty() { format!("output_{i}") } else { format!("{path}_{i}") };
                outputs(item, &path, names, out)?;
            }
        }
        Arg::Dict(entries) => {
            for (key, item) in entries.iter() {
                let path = if path.is_empty() { key.to_string() } else { format!("{path}_{key}") };
                outputs(item, &path, names, out)?;
            }
        }
        Arg::None => {}
        other => bail!(Unresolved, "the program returns {}, expected tensors", other.kind_name()),
    }
    Ok(())
}

impl<'a> Writer<'a> {
    fn new(lowered: &'a Lowered, memory: &'a Memory, options: &'a Options, name: String) -> Result<Self> {
        let mut taken = Names::default();
        ["self", "d", "w", "s", "inputs"].into_iter().for_each(|name| taken.keep(name));
        let inputs = lowered.inputs.iter().map(|(name, _)| taken.claim(names::variable(name))).collect();
        let mut taken = Names::default();
        // In capitals, the file of baked weights.
        taken.keep("data");
        let weights =
            lowered.weights.iter().map(|weight| taken.claim(names::variable(&weight.path))).collect();
        let mut taken = Names::default();
        let mut symbols: Vec<(Symbol, String)> = Vec::new();
        for symbol in lowered.inputs.iter().flat_map(|(_, input)| input.symbols()) {
            if !symbols.iter().any(|(known, _)| *known == symbol) {
                let name = taken.claim(names::variable(symbol.name()));
                symbols.push((symbol, name));
            }
        }
        if let (true, Some((symbol, _))) = (options.baked, symbols.first()) {
            return Err(err!(Unresolved, "the size {} is not known", symbol.name()).help(
                "a baked crate needs inputs of known sizes: give recorded inputs, or specialise the program",
            ));
        }
        for symbol in &lowered.locals {
            symbols.push((symbol.clone(), taken.claim(names::variable(symbol.name()))));
        }
        let mut lens = memory.places.iter().flat_map(|place| &place.lens);
        if options.baked && lens.any(|len| memory::known(len).is_none()) {
            return Err(err!(Unresolved, "the data decides how much memory it needs").help(
                "a baked crate needs sizes that are known: keep the sizes of what a loop carries and a branch gives",
            ));
        }
        let mut is_kept: Vec<bool> = lowered.weights.iter().map(|weight| weight.update.is_some()).collect();
        memory::note_weights(&lowered.steps, &mut is_kept);
        let mut list = Vec::new();
        outputs(&lowered.output, "", &mut Names::default(), &mut list)?;
        Ok(Writer { lowered, memory, options, name, inputs, weights, is_kept, symbols, outputs: list })
    }

    /// Returns whether some value is kept in 16 bits.
    fn has_halves(&self) -> bool {
        let inputs = self.lowered.inputs.iter().filter_map(|(_, input)| Some(input.tensor()?.dtype));
        let weights = self.lowered.weights.iter().filter_map(|weight| weight.tensor.dtype().ok());
        inputs.chain(weights).chain(self.lowered.buffers.iter().map(|buffer| buffer.dtype)).any(is_half)
    }

    /// Returns the reader of safetensors files; `halves` is the path of the types of 16 bits.
    fn reader(&self, halves: &str) -> String {
        let mut text = include_str!("../runtime/safetensors.rs").to_owned();
        if self.has_halves() {
            for (ty, name) in [("f16", "F16"), ("bf16", "BF16")] {
                let _ = write!(
                    text,
                    "\nimpl Element for {halves}::{ty} {{\n    const NAME: &'static str = \"{name}\";\n    \
                     fn read(bytes: &[u8]) -> Vec<Self> {{\n        \
                     bytes.as_chunks().0.iter().map(|bytes| Self::from_le_bytes(*bytes)).collect()\n    }}\n}}\n"
                );
            }
        }
        text
    }

    /// Returns whether the model draws random numbers, and so has a generator.
    fn draws(&self) -> bool {
        self.lowered.steps.iter().any(Step::draws)
    }

    fn is_symbolic(&self) -> bool {
        !self.symbols.is_empty()
    }

    /// Returns whether data decide a length.
    fn is_local(&self, len: &Length) -> bool {
        len.follows_from(&self.lowered.locals)
    }

    fn package(self) -> Result<Package> {
        let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut modules: Vec<(String, String)> = Vec::new();
        let mut add = |path: &str, text: String| {
            files.insert(path.to_owned(), text.into_bytes());
        };
        let (model, used) = self.model()?;
        let mut module = |name: &str, file: &str, text: String| {
            add(file, text);
            modules.push((name.to_owned(), file.to_owned()));
        };
        module("error", "src/error.rs", self.error());
        module("kernels", "src/kernels/mod.rs", kernels_module(&used, self.options.baked));
        for (name, text) in kernel_files(&used, self.options.baked) {
            let text = match name {
                rowwise::MODULE => rowwise::module(&self.lowered.rowwise),
                gufunc::MODULE => gufunc::module(&self.lowered.gufuncs),
                _ => text,
            };
            module(&format!("kernels::{name}"), &format!("src/kernels/{name}.rs"), text);
        }
        module("math", "src/math.rs", self.math());
        module("model", "src/model.rs", model);
        if !self.options.baked {
            module("safetensors", "src/safetensors.rs", self.reader("super::kernels::half"));
        }
        module("tensor", "src/tensor.rs", include_str!("../runtime/tensor.rs").to_owned());
        add("Cargo.toml", self.manifest());
        let has_threads = !self.options.baked && modules.iter().any(|(name, _)| name == "kernels::threads");
        add("README.md", self.readme(has_threads)?);
        add("src/lib.rs", self.library(has_threads));
        if !self.options.baked {
            add("src/main.rs", self.main(has_threads));
        }
        if !self.options.recorded.is_empty() {
            add("tests/recorded.rs", self.test()?);
            if self.options.baked {
                let modules = "//! Reads what was recorded.\n#![allow(dead_code)]\n\npub mod error;\npub mod safetensors;\n";
                add("tests/reader/mod.rs", modules.to_owned());
                add("tests/reader/error.rs", include_str!("../runtime/error.rs").to_owned());
                add("tests/reader/safetensors.rs", self.reader(&self.crate_name()));
            }
        }
        let in_file = self.lowered.weights.iter().filter(|weight| weight.packed.is_none());
        let tensors: Vec<(String, Tensor)> =
            in_file.map(|weight| (weight.path.clone(), weight.tensor.clone())).collect();
        match self.options.baked {
            true => _ = files.insert("src/weights.bin".to_owned(), self.baked_weights()?.0),
            false => _ = files.insert("model.safetensors".to_owned(), safetensors::file(&tensors)?),
        }
        if !self.options.recorded.is_empty() {
            files.insert("tests/recorded.safetensors".to_owned(), safetensors::file(&self.recorded()?)?);
        }
        Ok(Package { name: self.name, files, modules })
    }

    /// Returns the recorded tensors by the names of their file.
    fn recorded(&self) -> Result<Vec<(String, Tensor)>> {
        let mut tensors = Vec::new();
        for (set, (inputs, outputs)) in self.options.recorded.iter().enumerate() {
            if inputs.len() != self.inputs.len() || outputs.len() != self.outputs.len() {
                return Err(err!(
                    Argument,
                    "the record {set} has {} inputs and {} outputs, the program {} and {}",
                    inputs.len(),
                    outputs.len(),
                    self.inputs.len(),
                    self.outputs.len()
                )
                .help("give a record all tensors and numbers that the program returns, or none: then its own results are recorded"));
            }
            for (kind, list) in [("in", inputs), ("out", outputs)] {
                tensors.extend(
                    list.iter().enumerate().map(|(i, tensor)| (format!("{set}.{kind}{i}"), tensor.clone())),
                );
            }
        }
        Ok(tensors)
    }

    fn error(&self) -> String {
        let text = include_str!("../runtime/error.rs");
        let mut out = String::new();
        let mut skips = false;
        for line in text.lines() {
            match line.trim() {
                "// begin std" => skips = self.options.baked,
                "// end std" => skips = false,
                _ if skips => {}
                _ => {
                    out.push_str(line);
                    out.push('\n');
                }
            }
        }
        out
    }

    fn math(&self) -> String {
        let source = fx_core::math_source::SOURCE;
        if !self.options.baked {
            return format!("//! Scalar mathematics.\n{ALLOW}\n{source}");
        }
        // What `std` has as functions of floats, `core` lacks.
        let source =
            [("std::", "core::"), ("f64::$std(", "Float::$std("), ("Self::exp(", "<Self as Real>::exp(")]
                .into_iter()
                .fold(source.to_owned(), |source, (from, to)| source.replace(from, to));
        format!("//! Scalar mathematics.\n{ALLOW}\nuse super::kernels::float::Float;\n{source}")
    }
}

/// Returns the modules of kernels that are needed, with their texts.
fn kernel_files(used: &BTreeSet<String>, baked: bool) -> Vec<(&'static str, String)> {
    let mut needed: BTreeSet<&str> = used.iter().map(String::as_str).collect();
    loop {
        let more: Vec<&str> =
            KERNELS.iter().filter(|row| needed.contains(row.0)).flat_map(|row| row.2).copied().collect();
        let before = needed.len();
        needed.extend(more);
        if needed.len() == before {
            break;
        }
    }
    let text = |(name, text, _): &(&'static str, &str, &[&str])| match *name {
        "simd" if baked => (*name, PLAIN.to_owned()),
        "threads" if baked => (*name, ALONE.to_owned()),
        _ => (*name, (*text).to_owned()),
    };
    KERNELS.iter().filter(|row| needed.contains(row.0)).map(text).collect()
}

fn kernels_module(used: &BTreeSet<String>, baked: bool) -> String {
    let mut text = format!("//! Kernels: loops over slices.\n{ALLOW}\n");
    for (name, _) in kernel_files(used, baked) {
        let _ = writeln!(text, "pub mod {name};");
    }
    text.push_str("\nuse super::math;\n");
    text
}

/// Writes the modules of a crate as one file.
pub(super) fn single_file(package: &Package) -> String {
    let read = |file: &str| {
        package.files.get(file).map_or_else(String::new, |bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    let mut text = String::from("// Written by fx from a graph.\n");
    let kernels: Vec<&(String, String)> =
        package.modules.iter().filter(|(name, _)| name.starts_with("kernels::")).collect();
    for (name, file) in &package.modules {
        if name.contains("::") {
            continue;
        }
        let mut body = read(file);
        if name == "kernels" {
            for (kernel, file) in &kernels {
                let kernel = kernel.trim_start_matches("kernels::");
                body = body.replace(&format!("pub mod {kernel};\n"), &nested(kernel, &read(file)));
            }
        }
        text.push_str(&nested(name, &body));
    }
    let library = read("src/lib.rs");
    library.lines().filter(|line| line.starts_with("pub use ")).for_each(|line| {
        let _ = writeln!(text, "#[allow(unused_imports)]\n{line}");
    });
    text
}

/// Writes a file as a module.
fn nested(name: &str, body: &str) -> String {
    format!("#[allow(dead_code)]\npub mod {name} {{\n{body}}}\n")
}
