//! `src/model.rs` of a crate: weights, memory, and what is computed.

use std::collections::BTreeSet;
use std::fmt::Write;

use fx_core::{Arg, DType, Result, TensorType, bail, err};

use super::{ALLOW, Output, Writer, number_range, size_range};
use crate::readable::names;
use crate::standalone::lower::{self, Form, Input, PackedWeight};
use crate::standalone::render::{Renderer, called_modules, length, place_name, signed, size, zero};
use crate::standalone::step::Length;
use crate::standalone::value::{Home, View, count};
use crate::standalone::{memory, safetensors};

/// The generator of a new model.
const SEEDED: &str = "            generator: Generator::seeded(0),\n";

impl Writer<'_> {
    /// Returns the type of a tensor as Rust.
    pub(super) fn tensor_type(ty: &TensorType, lifetime: &str) -> String {
        format!("Tensor<{lifetime}, {}, {}>", ty.dtype, ty.rank())
    }

    /// Returns the type of the result as Rust.
    fn result_type(&self, lifetime: &str) -> String {
        match &self.outputs[..] {
            [only] if self.is_single() => Self::tensor_type(&only.view.ty(), lifetime),
            _ => format!("Outputs<{lifetime}>"),
        }
    }

    pub(super) fn is_single(&self) -> bool {
        matches!(self.lowered.output, Arg::Leaf(_))
    }

    /// Writes `src/model.rs`; returns it and the modules of kernels that it uses.
    pub(super) fn model(&self) -> Result<(String, BTreeSet<String>)> {
        let renderer =
            Renderer::new(self.memory, &self.lowered.buffers, &self.inputs, &self.weights, &self.symbols);
        let mut program = renderer.program(&self.lowered.steps)?;
        for place in &self.memory.places {
            for len in &place.lens {
                program.modules.extend(called_modules(&length(len, &self.symbols)?).map(str::to_owned));
            }
        }
        if self
            .lowered
            .weights
            .iter()
            .filter_map(|weight| weight.packed.as_ref())
            .any(PackedWeight::is_panels)
        {
            program.modules.insert("pack".to_owned());
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
        if self.draws() {
            let _ = writeln!(text, "use super::kernels::random::Generator;");
        }
        if program.has_loops {
            let _ = writeln!(text, "use super::kernels::simd::simd;\nuse super::math;");
        }
        if self.options.baked {
            let _ = writeln!(text, "use super::kernels::float::Float as _;");
        }
        if !self.options.baked {
            let _ = writeln!(text, "use super::safetensors::File;");
        }
        let _ = writeln!(text, "use super::tensor::{{Tensor, part, part_mut}};");
        // Values between the steps of a loop are in no buffer.
        let names_halves = |text: &str| text.contains("f16");
        let has_inner =
            names_halves(&program.functions) || program.body.iter().any(|line| names_halves(line));
        if has_inner || self.has_halves() {
            used.insert("half".to_owned());
            let _ = writeln!(text, "use super::kernels::half::{{bf16, f16}};");
        }
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
        for ((name, weight), is_kept) in self.weights.iter().zip(&lowered.weights).zip(&self.is_kept) {
            if !self.options.baked && !is_kept {
                continue;
            }
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
        if self.draws() {
            text.push_str("    generator: Generator,\n");
        }
        text.push_str("}\n\nstruct Inputs<'a> {\n");
        for (name, ty) in self.tensors() {
            let _ = writeln!(text, "    {name}: &'a [{}],", ty.dtype);
        }
        if self.tensors().next().is_none() {
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

    /// Writes the length of a place from what is known before the program runs.
    fn place_length(&self, place: usize) -> Result<String> {
        let lens = self.memory.places[place].lens.iter().filter(|len| !self.is_local(len));
        let lens: Vec<&Length> = lens.collect();
        let known: Option<Vec<usize>> = lens.iter().map(|len| memory::known(len)).collect();
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
        if self.draws() {
            text.push_str(
                "    /// Seeds the random numbers, which begin again. Those of a new model have the seed 0.\n    \
                 pub fn seed(&mut self, seed: u64) {\n        self.scratch.generator = Generator::seeded(seed);\n    }\n\n",
            );
        }
        self.forward(text, body)?;
        text.push_str("}\n");
        if self.options.baked {
            self.statics(text)?;
        } else if self.is_symbolic() {
            // What grows from round to round is given more than it needs now.
            let reserve = if self.lowered.locals.is_empty() { "try_reserve_exact" } else { "try_reserve" };
            let _ = write!(
                text,
                "\n/// Makes room for so many elements.\nfn grow<T: Clone>(buffer: &mut Vec<T>, len: usize, value: T) -> Result<(), Error> {{\n    \
                 if buffer.len() < len {{\n        \
                 buffer.{reserve}(len - buffer.len()).map_err(|_| Error::Sizes(\"there is not enough memory\"))?;\n        \
                 buffer.resize(len, value);\n    }}\n    Ok(())\n}}\n"
            );
        }
        if !self.lowered.locals.is_empty() {
            text.push_str(
                "\n/// Checks a size that data decide: two of them are multiplied without overflow.\nfn bounded(size: i64) -> Result<i64, Error> {\n    \
                 match i32::try_from(size) {\n        Ok(_) => Ok(size),\n        \
                 Err(_) => Err(Error::Sizes(\"a size that the data decides is too large\")),\n    }\n}\n",
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
             // One by one: rustc takes long for a literal of many fields each of which may fail.\n        \
             let mut weights = Weights::default();\n",
        );
        for (i, weight) in
            self.lowered.weights.iter().enumerate().filter(|(_, weight)| weight.packed.is_none())
        {
            let ty = weight.tensor.ty()?;
            let (shape, path) = (lower::known(&ty.shape)?, weight.path.escape_default());
            let packed = self.lowered.weights.iter().zip(&self.weights).filter_map(|(weight, name)| {
                weight.packed.as_ref().filter(|packed| packed.of == i).map(|packed| (packed, name))
            });
            let packed: Vec<(&PackedWeight, &String)> = packed.collect();
            let source =
                if self.is_kept[i] { format!("weights.{}", self.weights[i]) } else { "data".to_owned() };
            let (start, element) = match (self.is_kept[i], packed.is_empty()) {
                (true, _) => (&*source, String::new()),
                (false, false) => ("let data", format!("::<{}>", ty.dtype)),
                // A file that lacks it is refused all the same.
                (false, true) => ("_", format!("::<{}>", ty.dtype)),
            };
            let _ = writeln!(text, "        {start} = file.elements{element}(\"{path}\", &{shape:?})?;");
            for (PackedWeight { form, .. }, name) in packed {
                let made = match form {
                    Form::Panels { sizes: [n, k], offset, strides: [row, column] } => {
                        let part =
                            if *offset == 0 { source.clone() } else { format!("{source}[{offset}..]") };
                        format!(
                            "pack::packed({n}, {k}, gemm::Matrix {{ data: &{part}, row: {row}, column: {column} }})"
                        )
                    }
                    Form::SideBySide(n) => format!("depthwise::side_by_side({n}, &{source})"),
                    Form::Winograd(n) => format!("winograd::parted({n}, &{source})"),
                };
                let _ = writeln!(text, "        weights.{name} = {made};");
            }
        }
        text.push_str("        let scratch = Scratch {\n");
        for (i, place) in self.memory.places.iter().enumerate() {
            let (name, zero) = (place_name(i), zero(place.dtype));
            match self.is_symbolic() {
                true => _ = writeln!(text, "            {name}: Vec::new(),"),
                false => _ = writeln!(text, "            {name}: vec![{zero}; {}],", self.place_length(i)?),
            }
        }
        if self.draws() {
            text.push_str(SEEDED);
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
        if self.draws() {
            text.push_str(SEEDED);
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
                // Halves too.
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
    pub(super) fn baked_weights(&self) -> Result<(Vec<u8>, Vec<usize>)> {
        let (mut data, mut offsets) = (Vec::new(), Vec::new());
        for weight in &self.lowered.weights {
            offsets.push(data.len());
            data.extend(safetensors::bytes(&weight.tensor)?);
        }
        Ok((data, offsets))
    }

    /// Returns the inputs that are tensors, by name.
    fn tensors(&self) -> impl Iterator<Item = (&String, &TensorType)> {
        self.inputs
            .iter()
            .zip(&self.lowered.inputs)
            .filter_map(|(name, (_, input))| Some((name, input.tensor()?)))
    }

    fn forward(&self, text: &mut String, body: &[String]) -> Result<()> {
        let lowered = self.lowered;
        text.push_str("    /// Runs the model.\n    ///\n");
        for (name, (_, input)) in self.inputs.iter().zip(&lowered.inputs) {
            let ty = names::comment(&input.to_string());
            let _ = match input {
                Input::Tensor(_) => writeln!(text, "    /// - `{name}`: `{ty}`"),
                Input::Integer(_) => writeln!(text, "    /// - `{name}`: the integer `{ty}`"),
            };
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
            .map(|(name, (_, input))| match input {
                Input::Tensor(ty) => format!("{name}: {}", Self::tensor_type(ty, "'_")),
                Input::Integer(_) => format!("{name}: i64"),
            })
            .collect();
        let params = if params.is_empty() { String::new() } else { format!(", {}", params.join(", ")) };
        let _ = writeln!(
            text,
            "    #[allow(unused_variables)]\n    pub fn forward(&mut self{params}) -> Result<{}, Error> {{",
            self.result_type("'_")
        );
        self.checks(text)?;
        let fields: Vec<String> = self.tensors().map(|(name, _)| format!("{name}: {name}.data")).collect();
        let fields = if fields.is_empty() {
            "nothing: core::marker::PhantomData".to_owned()
        } else {
            fields.join(", ")
        };
        let _ = writeln!(text, "        let inputs = &Inputs {{ {fields} }};");
        if self.is_symbolic() && !self.options.baked {
            text.push_str("        let s = &mut self.scratch;\n");
            for (i, place) in self.memory.places.iter().enumerate() {
                if place.lens.iter().all(|len| self.is_local(len)) {
                    continue;
                }
                let _ = writeln!(
                    text,
                    "        grow(&mut s.{}, {}, {})?;",
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
        // First what is computed with later: no size overflows an expression of sizes.
        for (name, (_, input)) in self.inputs.iter().zip(&self.lowered.inputs) {
            let Input::Integer(number) = input else { continue };
            let (least, greatest) = match (number.as_symbol(), number.known()) {
                (Some(symbol), _) => number_range(symbol),
                (None, Some(number)) => (number, number),
                (None, None) => continue,
            };
            let why = match least == greatest {
                true => format!("{name} is not {least}"),
                false => format!("{name} is not from {least} to {greatest}"),
            };
            let _ = writeln!(
                text,
                "        if !({least}..={greatest}).contains(&{name}) {{\n            return Err(Error::Sizes({why:?}));\n        }}"
            );
        }
        for (name, ty) in self.tensors() {
            for (axis, symbol) in ty.shape.iter().map(|dim| dim.as_symbol()).enumerate() {
                if let Some(symbol) = symbol {
                    let (least, greatest) = size_range(symbol);
                    let _ = writeln!(
                        text,
                        "        {name}.check_range(\"{name}\", {axis}, {least}, {greatest})?;"
                    );
                }
            }
        }
        if self.is_symbolic() {
            let mutable = if self.lowered.locals.is_empty() { "" } else { "mut " };
            let _ = writeln!(text, "        let d = &{mutable}Sizes {{");
            for (symbol, field) in &self.symbols {
                if self.lowered.locals.contains(symbol) {
                    let _ = writeln!(text, "            {field}: 0,");
                    continue;
                }
                let all = || self.inputs.iter().zip(&self.lowered.inputs);
                let found = all().find_map(|(name, (_, input))| match input {
                    Input::Tensor(ty) => {
                        let axis = ty.shape.iter().position(|dim| dim.as_symbol() == Some(symbol))?;
                        Some(format!("{name}.shape[{axis}] as i64"))
                    }
                    Input::Integer(number) => (number.as_symbol() == Some(symbol)).then(|| name.clone()),
                });
                let found = found.ok_or_else(|| {
                    err!(Unresolved, "no axis of an input has the size {}", symbol.name())
                        .help("give recorded inputs, so that sizes are known")
                })?;
                let _ = writeln!(text, "            {field}: {found},");
            }
            text.push_str("        };\n");
        }
        // Sizes and integers of the same name are equal.
        for (name, (_, input)) in self.inputs.iter().zip(&self.lowered.inputs) {
            let Input::Integer(number) = input else { continue };
            if number.as_symbol().is_some() {
                let why = format!("{name} is not {}", names::comment(&number.to_string()));
                let _ = writeln!(
                    text,
                    "        if {name} != {} {{\n            return Err(Error::Sizes({why:?}));\n        }}",
                    signed(number, &self.symbols)?
                );
            }
        }
        for (name, ty) in self.tensors() {
            for (axis, dim) in ty.shape.iter().enumerate() {
                let _ = writeln!(
                    text,
                    "        {name}.check_size(\"{name}\", {axis}, {})?;",
                    size(dim, &self.symbols)?
                );
            }
            let _ = writeln!(text, "        {name}.check_length(\"{name}\")?;");
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
}
