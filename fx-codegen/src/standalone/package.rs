//! The files of a crate.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use fx_core::{Arg, DType, Dim, GraphModule, Result, Symbol, Tensor, TensorType, bail, err};

use super::lower::{self, Lowered};
use super::memory::{self, Memory};
use super::render::{Renderer, length, place_name, signed, size};
use super::value::{Home, Value, View, count};
use super::{Options, Package, safetensors};
use crate::readable::names::{self, Names};

/// How the manifest begins, by which it is known that fx wrote it.
pub(super) const MARK: &str = "# Written by fx.";

/// The modules of kernels, with what they need.
const KERNELS: &[(&str, &str, &[&str])] = &[
    ("attention", include_str!("kernels/attention.rs"), &["gemm", "rows"]),
    ("conv", include_str!("kernels/conv.rs"), &["gemm"]),
    ("copy", include_str!("kernels/copy.rs"), &["walk"]),
    ("float", include_str!("kernels/float.rs"), &[]),
    ("gemm", include_str!("kernels/gemm.rs"), &["simd", "sum"]),
    ("lookup", include_str!("kernels/lookup.rs"), &[]),
    ("pool", include_str!("kernels/pool.rs"), &[]),
    ("recurrent", include_str!("kernels/recurrent.rs"), &["gemm"]),
    ("reduce", include_str!("kernels/reduce.rs"), &["rows"]),
    ("resize", include_str!("kernels/resize.rs"), &[]),
    ("rows", include_str!("kernels/rows.rs"), &["simd", "sum"]),
    ("scan", include_str!("kernels/scan.rs"), &[]),
    ("simd", include_str!("kernels/simd.rs"), &[]),
    ("sort", include_str!("kernels/sort.rs"), &[]),
    ("sum", include_str!("kernels/sum.rs"), &[]),
    ("walk", include_str!("kernels/walk.rs"), &[]),
];

const PLAIN: &str = include_str!("kernels/plain.rs");

/// Lints that a text which is not written by hand does not follow.
const ALLOW: &str = "#![allow(unused, unreachable_pub, clippy::all, clippy::pedantic)]\n";

pub(super) fn generate(gm: &GraphModule, options: &Options) -> Result<Package> {
    let name = package_name(options.name.as_deref().unwrap_or(gm.name()));
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
    lower::lower(gm, options).map(|_| ())
}

/// Returns a text as the name of a crate.
fn package_name(text: &str) -> String {
    let name = names::variable(text).trim_matches('_').replace('_', "-");
    match name.as_str() {
        "" | "test" | "std" | "core" | "alloc" | "proc-macro" => {
            format!("model-{name}").trim_end_matches('-').to_owned()
        }
        name if name.starts_with(|c: char| c.is_ascii_digit()) => format!("model-{name}"),
        _ => name,
    }
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
        let weights =
            lowered.weights.iter().map(|weight| taken.claim(names::variable(&weight.path))).collect();
        let mut taken = Names::default();
        let mut symbols: Vec<(Symbol, String)> = Vec::new();
        for symbol in lowered.inputs.iter().flat_map(|(_, ty)| ty.shape.iter()).flat_map(Dim::symbols) {
            if !symbols.iter().any(|(known, _)| *known == symbol) {
                let name = taken.claim(names::variable(symbol.name()));
                symbols.push((symbol, name));
            }
        }
        if options.baked && !symbols.is_empty() {
            return Err(err!(Unresolved, "the size {} is not known", symbols[0].0.name()).help(
                "a baked crate needs inputs of known sizes: give recorded inputs, or specialise the program",
            ));
        }
        let mut list = Vec::new();
        outputs(&lowered.output, "", &mut Names::default(), &mut list)?;
        Ok(Writer { lowered, memory, options, name, inputs, weights, symbols, outputs: list })
    }

    fn is_symbolic(&self) -> bool {
        !self.symbols.is_empty()
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
            module(&format!("kernels::{name}"), &format!("src/kernels/{name}.rs"), text);
        }
        module("math", "src/math.rs", self.math());
        module("model", "src/model.rs", model);
        if !self.options.baked {
            module("safetensors", "src/safetensors.rs", include_str!("runtime/safetensors.rs").to_owned());
        }
        module("tensor", "src/tensor.rs", include_str!("runtime/tensor.rs").to_owned());
        add("Cargo.toml", self.manifest());
        add("README.md", self.readme()?);
        add("src/lib.rs", self.library()?);
        if !self.options.baked {
            add("src/main.rs", self.main());
        }
        if !self.options.recorded.is_empty() {
            add("tests/recorded.rs", self.test()?);
            if self.options.baked {
                let modules = "//! Reads what was recorded.\n#![allow(dead_code)]\n\npub mod error;\npub mod safetensors;\n";
                add("tests/reader/mod.rs", modules.to_owned());
                add("tests/reader/error.rs", include_str!("runtime/error.rs").to_owned());
                add("tests/reader/safetensors.rs", include_str!("runtime/safetensors.rs").to_owned());
            }
        }
        let tensors: Vec<(String, Tensor)> =
            self.lowered.weights.iter().map(|weight| (weight.path.clone(), weight.tensor.clone())).collect();
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
                bail!(
                    Argument,
                    "the record {set} has {} inputs and {} outputs, the program {} and {}",
                    inputs.len(),
                    outputs.len(),
                    self.inputs.len(),
                    self.outputs.len()
                );
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
        let text = include_str!("runtime/error.rs");
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

    fn manifest(&self) -> String {
        let name = &self.name;
        format!(
            "{MARK}\n\n[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\nrust-version = \"1.88\"\npublish = false\n\n\
             # It is a workspace of its own, wherever it lies.\n[workspace]\n\n[profile.dev]\nopt-level = 2\n\n[profile.release]\nopt-level = 3\n"
        )
    }

    /// Returns the type of a tensor as Rust.
    fn tensor_type(ty: &TensorType, lifetime: &str) -> String {
        format!("Tensor<{lifetime}, {}, {}>", ty.dtype, ty.rank())
    }

    /// Returns the type of the result as Rust.
    fn result_type(&self, lifetime: &str) -> String {
        match &self.outputs[..] {
            [only] if self.is_single() => Self::tensor_type(&only.view.ty(), lifetime),
            _ => format!("Outputs<{lifetime}>"),
        }
    }

    fn is_single(&self) -> bool {
        matches!(self.lowered.output, Arg::Leaf(_))
    }

    /// Writes `src/model.rs`; returns it and the modules of kernels that it uses.
    fn model(&self) -> Result<(String, BTreeSet<String>)> {
        let renderer = Renderer::new(self.memory, &self.inputs, &self.weights, &self.symbols);
        let mut program = renderer.program(&self.lowered.steps)?;
        for place in &self.memory.places {
            for len in &place.lens {
                let text = length(len, &self.symbols)?;
                if let Some((module, _)) = text.split_once("::") {
                    program.modules.insert(module.to_owned());
                }
            }
        }
        let mut used = program.modules.clone();
        if program.has_loops {
            used.insert("simd".to_owned());
        }
        if self.options.baked {
            used.insert("float".to_owned());
        }
        let mut text = String::new();
        let title = names::comment(&self.name);
        let _ = writeln!(
            text,
            "//! The model {title}: its weights, its memory, and what it computes.\n{}",
            ALLOW.trim_end()
        );
        let _ = writeln!(text, "\nuse super::error::Error;");
        let calls: Vec<&str> = program.modules.iter().map(String::as_str).collect();
        if !calls.is_empty() {
            let _ = writeln!(text, "use super::kernels::{{{}}};", calls.join(", "));
        }
        if program.has_loops {
            let _ = writeln!(text, "use super::kernels::simd::simd;\nuse super::math;");
            if self.options.baked {
                let _ = writeln!(text, "use super::kernels::float::Float as _;");
            }
        }
        if !self.options.baked {
            let _ = writeln!(text, "use super::safetensors::File;");
        }
        let _ = writeln!(text, "use super::tensor::Tensor;");
        self.structs(&mut text)?;
        self.methods(&mut text, &program.body)?;
        text.push_str(&program.functions);
        Ok((text, used))
    }

    fn structs(&self, text: &mut String) -> Result<()> {
        let lowered = self.lowered;
        let _ = write!(
            text,
            "\n/// The model: weights and the memory of its calls.\n#[derive(Clone, Debug)]\npub struct Model {{\n    weights: Weights,\n    \
             scratch: Scratch,\n}}\n\n#[derive(Clone, Debug{})]\nstruct Weights {{\n",
            if self.options.baked { "" } else { ", Default" }
        );
        for (name, weight) in self.weights.iter().zip(&lowered.weights) {
            let ty = weight.tensor.ty()?;
            let n = count(&ty.shape).known().unwrap_or_default();
            let ty = match (self.options.baked, weight.update.is_some()) {
                (false, _) => format!("Vec<{}>", ty.dtype),
                (true, true) => format!("[{}; {n}]", ty.dtype),
                (true, false) => format!("&'static [{}; {n}]", ty.dtype),
            };
            let _ = writeln!(text, "    {name}: {ty},");
        }
        text.push_str("}\n\n#[derive(Clone, Debug)]\nstruct Scratch {\n");
        for (i, place) in self.memory.places.iter().enumerate() {
            let ty = match self.options.baked {
                true => format!("[{}; {}]", place.dtype, self.place_length(i)?),
                false => format!("Vec<{}>", place.dtype),
            };
            let _ = writeln!(text, "    {}: {ty},", place_name(i));
        }
        text.push_str("}\n\nstruct Inputs<'a> {\n");
        for (name, (_, ty)) in self.inputs.iter().zip(&lowered.inputs) {
            let _ = writeln!(text, "    {name}: &'a [{}],", ty.dtype);
        }
        if self.inputs.is_empty() {
            text.push_str("    nothing: core::marker::PhantomData<&'a ()>,\n");
        }
        text.push_str("}\n");
        if self.is_symbolic() {
            text.push_str("\n/// The sizes of a call.\n#[derive(Clone, Copy)]\nstruct Sizes {\n");
            for (_, name) in &self.symbols {
                let _ = writeln!(text, "    {name}: i64,");
            }
            text.push_str("}\n");
        }
        if !self.is_single() {
            text.push_str("\n/// What the model returns.\n#[derive(Clone, Copy, Debug, PartialEq)]\npub struct Outputs<'a> {\n");
            for output in &self.outputs {
                let ty = output.view.ty();
                let _ = writeln!(
                    text,
                    "    /// `{}`.\n    pub {}: {},",
                    names::comment(&ty.to_string()),
                    output.name,
                    Self::tensor_type(&ty, "'a")
                );
            }
            if self.outputs.is_empty() {
                text.push_str("    nothing: core::marker::PhantomData<&'a ()>,\n");
            }
            text.push_str("}\n");
        }
        Ok(())
    }

    /// Writes the length of a place whose buffers are of known lengths.
    fn place_length(&self, place: usize) -> Result<String> {
        let lens = &self.memory.places[place].lens;
        let known: Option<Vec<usize>> = lens.iter().map(memory::known).collect();
        if let Some(known) = known {
            return Ok(known.into_iter().max().unwrap_or(0).to_string());
        }
        let lens = lens.iter().map(|len| length(len, &self.symbols)).collect::<Result<Vec<_>>>()?;
        Ok(match &lens[..] {
            [only] => only.clone(),
            [first, rest @ ..] => {
                let rest: String = rest.iter().map(|len| format!(".max({len})")).collect();
                format!("({first}){rest}")
            }
            [] => "0".to_owned(),
        })
    }

    fn methods(&self, text: &mut String, body: &[String]) -> Result<()> {
        text.push_str("\nimpl Model {\n");
        match self.options.baked {
            true => self.constructor(text)?,
            false => self.loader(text)?,
        }
        self.forward(text, body)?;
        text.push_str("}\n");
        if self.options.baked {
            self.statics(text)?;
        } else if self.is_symbolic() {
            text.push_str(
                "\n/// Makes room for so many elements.\nfn grow<T: Clone>(buffer: &mut Vec<T>, len: usize, value: T) {\n    \
                 if buffer.len() < len {\n        buffer.resize(len, value);\n    }\n}\n",
            );
        }
        Ok(())
    }

    fn loader(&self, text: &mut String) -> Result<()> {
        text.push_str(
            "    /// Reads the weights from a safetensors file.\n    ///\n    /// # Errors\n    ///\n    \
             /// When the file is damaged, or lacks a weight, or has one of another type or shape.\n    \
             pub fn load(path: impl AsRef<std::path::Path>) -> Result<Model, Error> {\n        Model::from_file(&File::open(path)?)\n    }\n\n    \
             /// Takes the weights from a safetensors file that has been read.\n    ///\n    /// # Errors\n    ///\n    \
             /// When the file lacks a weight, or has one of another type or shape.\n    \
             pub fn from_file(file: &File) -> Result<Model, Error> {\n        \
             // One by one: rustc takes long for a literal of many fields each of which may fail.\n        let mut weights = Weights::default();\n",
        );
        for (name, weight) in self.weights.iter().zip(&self.lowered.weights) {
            let ty = weight.tensor.ty()?;
            let shape: Vec<usize> = lower::known(&ty.shape)?;
            let path = weight.path.escape_default();
            let _ = writeln!(text, "        weights.{name} = file.elements(\"{path}\", &{shape:?})?;");
        }
        text.push_str("        let scratch = Scratch {\n");
        for (i, place) in self.memory.places.iter().enumerate() {
            let (name, zero) = (place_name(i), zero(place.dtype));
            match self.is_symbolic() {
                true => _ = writeln!(text, "            {name}: Vec::new(),"),
                false => _ = writeln!(text, "            {name}: vec![{zero}; {}],", self.place_length(i)?),
            }
        }
        text.push_str("        };\n        Ok(Model { weights, scratch })\n    }\n\n");
        Ok(())
    }

    fn constructor(&self, text: &mut String) -> Result<()> {
        text.push_str("    /// Makes the model.\n    #[allow(clippy::new_without_default)]\n    pub const fn new() -> Model {\n        let weights = Weights {\n");
        for (name, weight) in self.weights.iter().zip(&self.lowered.weights) {
            let reference = if weight.update.is_some() { "" } else { "&" };
            let _ = writeln!(text, "            {name}: {reference}{},", name.to_ascii_uppercase());
        }
        text.push_str("        };\n        let scratch = Scratch {\n");
        for (i, place) in self.memory.places.iter().enumerate() {
            let _ = writeln!(
                text,
                "            {}: [{}; {}],",
                place_name(i),
                zero(place.dtype),
                self.place_length(i)?
            );
        }
        text.push_str("        };\n        Model { weights, scratch }\n    }\n\n");
        Ok(())
    }

    /// Writes weights as statics that are read from a file when the crate is compiled.
    fn statics(&self, text: &mut String) -> Result<()> {
        let (_, offsets) = self.baked_weights()?;
        text.push_str("\nconst DATA: &[u8] = include_bytes!(\"weights.bin\");\n");
        let mut dtypes = BTreeSet::new();
        for ((name, weight), offset) in self.weights.iter().zip(&self.lowered.weights).zip(offsets) {
            let ty = weight.tensor.ty()?;
            let n = count(&ty.shape).known().unwrap_or_default();
            dtypes.insert(ty.dtype);
            let kind = if weight.update.is_some() { "const" } else { "static" };
            let _ = writeln!(
                text,
                "{kind} {}: [{}; {n}] = {}_at({offset});",
                name.to_ascii_uppercase(),
                ty.dtype,
                ty.dtype
            );
        }
        for dtype in dtypes {
            let (width, value) = match dtype {
                DType::Bool => (1, "DATA[at] != 0".to_owned()),
                DType::F32 | DType::F64 => {
                    let bits = if dtype == DType::F32 { "u32" } else { "u64" };
                    (dtype.size(), format!("{dtype}::from_bits({bits}::from_le_bytes(bytes))"))
                }
                dtype => (dtype.size(), format!("{dtype}::from_le_bytes(bytes)")),
            };
            let _ = write!(
                text,
                "\n/// Reads numbers, when the crate is compiled.\n#[allow(long_running_const_eval)]\nconst fn {dtype}_at<const N: usize>(offset: usize) -> [{dtype}; N] {{\n    \
                 let mut out = [{}; N];\n    let mut i = 0;\n    while i < N {{\n        let at = offset + {width} * i;\n",
                zero(dtype)
            );
            if dtype != DType::Bool {
                let bytes: Vec<String> = (0..width).map(|k| format!("DATA[at + {k}]")).collect();
                let _ = writeln!(text, "        let bytes = [{}];", bytes.join(", "));
            }
            let _ = write!(text, "        out[i] = {value};\n        i += 1;\n    }}\n    out\n}}\n");
        }
        Ok(())
    }

    /// Returns the elements of all weights, and where each begins.
    fn baked_weights(&self) -> Result<(Vec<u8>, Vec<usize>)> {
        let (mut data, mut offsets) = (Vec::new(), Vec::new());
        for weight in &self.lowered.weights {
            offsets.push(data.len());
            data.extend(safetensors::bytes(&weight.tensor)?);
        }
        Ok((data, offsets))
    }

    fn forward(&self, text: &mut String, body: &[String]) -> Result<()> {
        let lowered = self.lowered;
        text.push_str("    /// Runs the model.\n    ///\n");
        for (name, (_, ty)) in self.inputs.iter().zip(&lowered.inputs) {
            let _ = writeln!(text, "    /// - `{name}`: `{}`", names::comment(&ty.to_string()));
        }
        let result: Vec<String> =
            self.outputs.iter().map(|output| names::comment(&output.view.ty().to_string())).collect();
        let _ = writeln!(
            text,
            "    ///\n    /// It returns `{}`, which is overwritten by the next call.",
            result.join("`, `")
        );
        text.push_str("    ///\n    /// # Errors\n    ///\n    /// When an input has other sizes, or a position that does not exist.\n");
        let params: Vec<String> = self
            .inputs
            .iter()
            .zip(&lowered.inputs)
            .map(|(name, (_, ty))| format!("{name}: {}", Self::tensor_type(ty, "'_")))
            .collect();
        let params = if params.is_empty() { String::new() } else { format!(", {}", params.join(", ")) };
        let _ = writeln!(
            text,
            "    #[allow(unused_variables)]\n    pub fn forward(&mut self{params}) -> Result<{}, Error> {{",
            self.result_type("'_")
        );
        self.checks(text)?;
        let fields: Vec<String> = self.inputs.iter().map(|name| format!("{name}: {name}.data")).collect();
        let fields = if fields.is_empty() {
            "nothing: core::marker::PhantomData".to_owned()
        } else {
            fields.join(", ")
        };
        let _ = writeln!(text, "        let inputs = &Inputs {{ {fields} }};");
        if self.is_symbolic() && !self.options.baked {
            text.push_str("        let s = &mut self.scratch;\n");
            for (i, place) in self.memory.places.iter().enumerate() {
                let _ = writeln!(
                    text,
                    "        grow(&mut s.{}, {}, {});",
                    place_name(i),
                    self.place_length(i)?,
                    zero(place.dtype)
                );
            }
        }
        text.push_str("        let (w, s) = (&self.weights, &mut self.scratch);\n");
        for line in body {
            let _ = writeln!(text, "{line}");
        }
        let symbols = &self.symbols;
        let slice = |view: &View, from: &str| -> Result<String> {
            let Home::Buffer(id) = view.home else { bail!(Graph, "a result is no buffer") };
            let place = self.memory.place_of[id].map_or_else(String::new, place_name);
            Ok(format!("&{from}.{place}[..{}]", size(&count(&view.shape), symbols)?))
        };
        if lowered.weights.iter().any(|weight| weight.update.is_some()) {
            text.push_str("        let (w, s) = (&mut self.weights, &self.scratch);\n");
        }
        for (name, weight) in self.weights.iter().zip(&lowered.weights) {
            if let Some(update) = &weight.update {
                let _ = writeln!(text, "        w.{name}.copy_from_slice({});", slice(update, "s")?);
            }
        }
        text.push_str("        let s = &self.scratch;\n");
        let tensor = |output: &Output| -> Result<String> {
            let sizes = output.view.shape.iter().map(|dim| size(dim, symbols)).collect::<Result<Vec<_>>>()?;
            Ok(format!("Tensor::new([{}], {})", sizes.join(", "), slice(&output.view, "s")?))
        };
        if self.is_single() {
            let _ = writeln!(text, "        Ok({})", tensor(&self.outputs[0])?);
        } else {
            text.push_str("        Ok(Outputs {\n");
            for output in &self.outputs {
                let _ = writeln!(text, "            {}: {},", output.name, tensor(output)?);
            }
            if self.outputs.is_empty() {
                text.push_str("            nothing: core::marker::PhantomData,\n");
            }
            text.push_str("        })\n");
        }
        text.push_str("    }\n");
        Ok(())
    }

    /// Writes what checks the inputs and finds out their sizes.
    fn checks(&self, text: &mut String) -> Result<()> {
        let inputs = || self.inputs.iter().zip(&self.lowered.inputs);
        for (name, _) in inputs() {
            let _ = writeln!(text, "        {name}.check_length(\"{name}\")?;");
        }
        if self.is_symbolic() {
            text.push_str("        let d = &Sizes {\n");
            for (symbol, field) in &self.symbols {
                let found = inputs().find_map(|(name, (_, ty))| {
                    let axis = ty.shape.iter().position(|dim| dim.as_symbol() == Some(symbol))?;
                    Some(format!("{name}.shape[{axis}] as i64"))
                });
                let found = found.ok_or_else(|| {
                    err!(Unresolved, "no axis of an input has the size {}", symbol.name())
                        .help("give recorded inputs, so that sizes are known")
                })?;
                let _ = writeln!(text, "            {field}: {found},");
            }
            text.push_str("        };\n");
        }
        for (name, (_, ty)) in inputs() {
            for (axis, dim) in ty.shape.iter().enumerate() {
                if let Some(symbol) = dim.as_symbol() {
                    let least = symbol.min().max(0);
                    // Two sizes are multiplied without overflow.
                    let most = i64::from(i32::MAX);
                    let greatest = symbol.max().map_or(most, |max| max.min(most));
                    let _ = writeln!(
                        text,
                        "        {name}.check_range(\"{name}\", {axis}, {least}, {greatest})?;"
                    );
                }
                let _ = writeln!(
                    text,
                    "        {name}.check_size(\"{name}\", {axis}, {})?;",
                    size(dim, &self.symbols)?
                );
            }
        }
        for dim in &self.lowered.requires {
            let why = format!("{} is negative", names::comment(&dim.to_string()));
            let _ = writeln!(
                text,
                "        if {} < 0 {{\n            return Err(Error::Sizes({why:?}));\n        }}",
                signed(dim, &self.symbols)?
            );
        }
        Ok(())
    }

    fn exports(&self) -> String {
        let outputs = if self.is_single() { "" } else { ", Outputs" };
        format!("pub use error::Error;\npub use model::{{Model{outputs}}};\npub use tensor::Tensor;\n")
    }

    fn library(&self) -> Result<String> {
        let std = if self.options.baked { "#![no_std]\n#![forbid(unsafe_code)]\n" } else { "" };
        let reader = if self.options.baked { "" } else { "pub mod safetensors;\n" };
        let name = names::comment(&self.name);
        Ok(format!(
            "//! The model {name}, written by fx. [`Model`] runs it.\n{std}#![warn(missing_docs)]\n\nmod error;\nmod kernels;\n#[rustfmt::skip]\nmod math;\n\
             #[rustfmt::skip]\nmod model;\n{reader}#[allow(dead_code)]\nmod tensor;\n\n{}",
            self.exports()
        ))
    }

    /// Returns the name by which code knows the crate.
    fn crate_name(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Writes statements that read the inputs of a set, and the arguments of the call.
    fn read_inputs(&self, indent: &str) -> (String, String) {
        let mut text = String::new();
        let mut args = Vec::new();
        for (i, (_, ty)) in self.lowered.inputs.iter().enumerate() {
            let _ = writeln!(
                text,
                "{indent}let (shape_{i}, data_{i}) = file.tensor::<{}>(&format!(\"{{set}}.in{i}\"))?;",
                ty.dtype
            );
            let _ = writeln!(
                text,
                "{indent}let shape_{i} = shape_{i}.try_into().map_err(|_| format!(\"{{set}}.in{i} has another rank\"))?;"
            );
            args.push(format!("Tensor::new(shape_{i}, &data_{i})"));
        }
        (text, args.join(", "))
    }

    fn field(&self, i: usize) -> String {
        if self.is_single() { String::new() } else { format!(".{}", self.outputs[i].name) }
    }

    fn main(&self) -> String {
        let (read, args) = self.read_inputs("        ");
        let mut show = String::new();
        for (i, output) in self.outputs.iter().enumerate() {
            let (field, name) = (self.field(i), &output.name);
            let _ = writeln!(
                show,
                "        println!(\"{{set}} {name}: {{:?}} {{:?}}\", outputs{field}.shape, &outputs{field}.data[..outputs{field}.data.len().min(8)]);"
            );
        }
        let (krate, first) = (self.crate_name(), if self.inputs.is_empty() { "out0" } else { "in0" });
        format!(
            "//! Runs the model on the inputs of a safetensors file, and shows what it returns.\n\nuse std::error::Error;\nuse std::path::PathBuf;\nuse std::time::Instant;\n\n\
             #[allow(unused_imports)]\nuse {krate}::{{Model, Tensor, safetensors::File}};\n\n\
             fn main() -> Result<(), Box<dyn Error>> {{\n    let folder = PathBuf::from(env!(\"CARGO_MANIFEST_DIR\"));\n    \
             let mut args = std::env::args_os().skip(1).map(PathBuf::from);\n    \
             let weights = args.next().unwrap_or_else(|| folder.join(\"model.safetensors\"));\n    \
             let inputs = args.next().unwrap_or_else(|| folder.join(\"tests/recorded.safetensors\"));\n    \
             let file = File::open(inputs)?;\n    let mut model = Model::load(weights)?;\n    let mut set = 0;\n    \
             while file.contains(&format!(\"{{set}}.{first}\")) {{\n{read}        let mut best = f64::INFINITY;\n        let rounds = rounds();\n        for _ in 1..rounds {{\n            \
             let started = Instant::now();\n            model.forward({args})?;\n            best = best.min(started.elapsed().as_secs_f64());\n        }}\n        \
             let outputs = model.forward({args})?;\n{show}        if rounds > 1 {{\n            println!(\"{{set}}: {{:.1}} us\", best * 1e6);\n        }}\n        \
             set += 1;\n    }}\n    Ok(())\n}}\n\n/// Returns how often to run each input, to measure.\nfn rounds() -> usize {{\n    \
             std::env::var(\"ROUNDS\").ok().and_then(|n| n.parse().ok()).unwrap_or(1)\n}}\n"
        )
    }

    fn test(&self) -> Result<String> {
        let krate = self.crate_name();
        let (read, args) = self.read_inputs("        ");
        let mut compare = String::new();
        for (i, output) in self.outputs.iter().enumerate() {
            let (field, dtype) = (self.field(i), output.view.dtype);
            let _ = writeln!(
                compare,
                "        let (shape, data) = file.tensor::<{dtype}>(&format!(\"{{set}}.out{i}\"))?;\n        \
                 assert_eq!(outputs{field}.shape[..], shape[..]);"
            );
            let check = match dtype.is_float() {
                true => format!("near(outputs{field}.data, &data)"),
                false => format!("outputs{field}.data == data"),
            };
            let _ = writeln!(compare, "        assert!({check}, \"output {i} of set {{set}}\");");
        }
        let first = if self.inputs.is_empty() { "out0" } else { "in0" };
        let make = match self.options.baked {
            true => "Model::new()",
            false => "Model::load(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/model.safetensors\"))?",
        };
        let reader = match self.options.baked {
            true => {
                format!(
                    "mod reader;\n\nuse reader::safetensors::File;\n#[allow(unused_imports)]\nuse {krate}::{{Model, Tensor}};"
                )
            }
            false => format!("#[allow(unused_imports)]\nuse {krate}::{{Model, Tensor, safetensors::File}};"),
        };
        Ok(format!(
            "//! Compares what the model returns with what was recorded.\n\n{reader}\n\n\
             /// Returns whether numbers are as near as rounding explains.\n#[allow(dead_code)]\nfn near<T: Copy + Into<f64>>(got: &[T], expected: &[T]) -> bool {{\n    \
             let greatest = expected.iter().map(|&x| x.into().abs()).filter(|x| x.is_finite()).fold(0.0, f64::max);\n    \
             got.len() == expected.len()\n        && got.iter().zip(expected).all(|(&got, &expected)| {{\n            \
             let (got, expected) = (got.into(), expected.into());\n            \
             got == expected\n                || (got.is_nan() && expected.is_nan())\n                \
             || (got - expected).abs() <= 1e-4 * expected.abs() + 1e-5 * greatest\n        }})\n}}\n\n\
             #[test]\nfn recorded_outputs() -> Result<(), Box<dyn std::error::Error>> {{\n    \
             let file = File::open(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/tests/recorded.safetensors\"))?;\n    let mut set = 0;\n    \
             while file.contains(&format!(\"{{set}}.{first}\")) {{\n{read}        let mut model = {make};\n        \
             let outputs = model.forward({args})?;\n{compare}        set += 1;\n    }}\n    assert!(set > 0, \"nothing is recorded\");\n    Ok(())\n}}\n"
        ))
    }

    fn readme(&self) -> Result<String> {
        let krate = self.crate_name();
        let mut text = format!(
            "# {}\n\nWritten by fx from a graph. It needs no other crate and no network.\n\n## Signature\n\n",
            self.name
        );
        text.push_str("| input | type |\n|---|---|\n");
        for (name, (_, ty)) in self.inputs.iter().zip(&self.lowered.inputs) {
            let _ = writeln!(text, "| `{name}` | `{}` |", names::comment(&ty.to_string()));
        }
        text.push_str("\n| output | type |\n|---|---|\n");
        for output in &self.outputs {
            let _ =
                writeln!(text, "| `{}` | `{}` |", output.name, names::comment(&output.view.ty().to_string()));
        }
        for (symbol, name) in &self.symbols {
            let most = symbol.max().map_or("any size".to_owned(), |max| max.to_string());
            let _ = writeln!(text, "\n`{name}` is from {} to {most}.", symbol.min());
        }
        let make = if self.options.baked { "Model::new()" } else { "Model::load(\"model.safetensors\")?" };
        let args: Vec<String> =
            self.inputs.iter().map(|name| format!("Tensor::new(sizes, &{name})")).collect();
        let _ = write!(
            text,
            "\n## Use\n\n```rust,ignore\nuse {krate}::{{Model, Tensor}};\n\nlet mut model = {make};\nlet result = model.forward({})?;\n```\n\n",
            args.join(", ")
        );
        text.push_str(match self.options.baked {
            true => "The weights are in the code. The crate has no `std`, allocates nothing, and has no `unsafe`.\n",
            false => {
                "The weights are in `model.safetensors`; any safetensors file with the same names, types and shapes will do. A call allocates \
                 nothing once the memory for its sizes is there.\n\n`cargo run --release` runs the recorded inputs, `cargo test` compares the result with \
                 what was recorded.\n"
            }
        });
        Ok(text)
    }
}

fn zero(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "false",
        dtype if dtype.is_float() => "0.0",
        _ => "0",
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
        // What `std` has as methods, `core` lacks.
        "gemm" if baked => (*name, text.replacen("\n\n", "\n\nuse super::float::Float as _;\n", 1)),
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
