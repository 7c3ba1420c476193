//! The other texts of a crate: manifest, `src/lib.rs`, `src/main.rs`, the test and the README.

use std::fmt::Write;

use fx_core::{DType, Dim, Result, Symbol};

use super::{MARK, Writer, number_range, size_range};
use crate::readable::names;
use crate::standalone::lower::{Input, is_half};

impl Writer<'_> {
    pub(super) fn manifest(&self) -> String {
        let name = &self.name;
        format!(
            "{MARK}\n\n[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\nrust-version = \"1.89\"\npublish = false\n\n\
             # It is a workspace of its own, wherever it lies.\n[workspace]\n\n[profile.dev]\nopt-level = 2\n\n[profile.release]\nopt-level = 3\n"
        )
    }

    pub(super) fn library(&self, has_threads: bool) -> String {
        let std = if self.options.baked { "#![no_std]\n#![forbid(unsafe_code)]\n" } else { "" };
        let reader = if self.options.baked { "" } else { "pub mod safetensors;\n" };
        let name = names::comment(&self.name);
        let threads = if has_threads { "pub use kernels::threads::{set_threads, threads};\n" } else { "" };
        format!(
            "//! The model {name}, written by fx. [`Model`] runs it.\n{std}#![warn(missing_docs)]\n\nmod error;\nmod kernels;\n#[rustfmt::skip]\nmod math;\n\
             #[rustfmt::skip]\nmod model;\n{reader}#[allow(dead_code)]\nmod tensor;\n\n{}{threads}",
            self.exports()
        )
    }

    fn exports(&self) -> String {
        let outputs = if self.is_single() { "" } else { ", Outputs" };
        let halves = if self.has_halves() { "pub use kernels::half::{bf16, f16};\n" } else { "" };
        format!(
            "pub use error::Error;\n{halves}pub use model::{{Model{outputs}}};\npub use tensor::Tensor;\n"
        )
    }

    /// Returns the name by which code knows the crate.
    pub(super) fn crate_name(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Writes statements that read the inputs of a set, and the arguments of the call.
    fn read_inputs(&self, indent: &str) -> (String, String) {
        let mut text = String::new();
        let mut args = Vec::new();
        for (i, (_, input)) in self.lowered.inputs.iter().enumerate() {
            let Some(ty) = input.tensor() else {
                let _ = writeln!(
                    text,
                    "{indent}let (_, data_{i}) = file.tensor::<i64>(&format!(\"{{set}}.in{i}\"))?;"
                );
                args.push(format!("data_{i}[0]"));
                continue;
            };
            let _ = writeln!(
                text,
                "{indent}let (shape_{i}, data_{i}) = file.tensor::<{}>(&format!(\"{{set}}.in{i}\"))?;",
                self.element(ty.dtype)
            );
            let _ = writeln!(
                text,
                "{indent}let shape_{i} = shape_{i}.try_into().map_err(|_| format!(\"{{set}}.in{i} has another rank\"))?;"
            );
            args.push(format!("Tensor::new(shape_{i}, &data_{i})"));
        }
        (text, args.join(", "))
    }

    /// Returns the type of elements as code beside the crate names it.
    fn element(&self, dtype: DType) -> String {
        if is_half(dtype) { format!("{}::{dtype}", self.crate_name()) } else { dtype.to_string() }
    }

    fn field(&self, i: usize) -> String {
        if self.is_single() { String::new() } else { format!(".{}", self.outputs[i].name) }
    }

    pub(super) fn main(&self, has_threads: bool) -> String {
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
        let threads = match has_threads {
            true => format!(
                "    if let Some(n) = number(\"THREADS\") {{\n        {krate}::set_threads(n);\n    }}\n"
            ),
            false => String::new(),
        };
        format!(
            "//! Runs the model on the inputs of a safetensors file, and shows what it returns.\n\nuse std::error::Error;\nuse std::path::PathBuf;\nuse std::time::Instant;\n\n\
             #[allow(unused_imports)]\nuse {krate}::{{Model, Tensor, safetensors::File}};\n\n\
             fn main() -> Result<(), Box<dyn Error>> {{\n    let folder = PathBuf::from(env!(\"CARGO_MANIFEST_DIR\"));\n    \
             let mut args = std::env::args_os().skip(1).map(PathBuf::from);\n    \
             let weights = args.next().unwrap_or_else(|| folder.join(\"model.safetensors\"));\n    \
             let inputs = args.next().unwrap_or_else(|| folder.join(\"tests/recorded.safetensors\"));\n    \
             let file = File::open(inputs)?;\n    let mut model = Model::load(weights)?;\n    let mut set = 0;\n    \
             let rounds = number(\"ROUNDS\").unwrap_or(1);\n{threads}    \
             while file.contains(&format!(\"{{set}}.{first}\")) {{\n{read}        let mut times = Vec::new();\n        for _ in 1..rounds {{\n            \
             let started = Instant::now();\n            model.forward({args})?;\n            times.push(started.elapsed().as_secs_f64() * 1e6);\n        }}\n        \
             let outputs = model.forward({args})?;\n{show}        times.sort_by(f64::total_cmp);\n        \
             if let Some(least) = times.first() {{\n            \
             println!(\"{{set}}: median {{:.3}} us, least {{least:.3}} us\", times[times.len() / 2]);\n        }}\n        \
             set += 1;\n    }}\n    Ok(())\n}}\n\n/// Returns a number of the environment: `ROUNDS` says how often to run each input, to measure.\n\
             fn number(name: &str) -> Option<usize> {{\n    std::env::var(name).ok()?.parse().ok()\n}}\n"
        )
    }

    pub(super) fn test(&self) -> Result<String> {
        let krate = self.crate_name();
        let (read, args) = self.read_inputs("        ");
        let mut compare = String::new();
        for (i, output) in self.outputs.iter().enumerate() {
            let (field, dtype) = (self.field(i), output.view.dtype);
            let rust = self.element(dtype);
            // A rounding of a half is far coarser than what is allowed for `f32`.
            let unit = match dtype {
                DType::F16 => 1.0 / 1024.0,
                DType::BF16 => 1.0 / 128.0,
                _ => 0.0,
            };
            let _ = writeln!(
                compare,
                "        let (shape, data) = file.tensor::<{rust}>(&format!(\"{{set}}.out{i}\"))?;\n        \
                 assert_eq!(outputs{field}.shape[..], shape[..]);"
            );
            let check = match dtype.is_float() {
                true => format!("near(outputs{field}.data, &data, {unit:?})"),
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
             /// Returns whether numbers are as near as rounding explains.\n#[allow(dead_code)]\n\
             fn near<T: Copy + Into<f64>>(got: &[T], expected: &[T], unit: f64) -> bool {{\n    \
             let greatest = expected.iter().map(|&x| x.into().abs()).filter(|x| x.is_finite()).fold(0.0, f64::max);\n    \
             got.len() == expected.len()\n        && got.iter().zip(expected).all(|(&got, &expected)| {{\n            \
             let (got, expected) = (got.into(), expected.into());\n            \
             got == expected\n                || (got.is_nan() && expected.is_nan())\n                \
             || (got - expected).abs() <= unit.max(1e-4) * expected.abs() + unit.max(1e-5) * greatest\n        }})\n}}\n\n\
             #[test]\nfn recorded_outputs() -> Result<(), Box<dyn std::error::Error>> {{\n    \
             let file = File::open(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/tests/recorded.safetensors\"))?;\n    let mut set = 0;\n    \
             while file.contains(&format!(\"{{set}}.{first}\")) {{\n{read}        let mut model = {make};\n        \
             let outputs = model.forward({args})?;\n{compare}        set += 1;\n    }}\n    assert!(set > 0, \"nothing is recorded\");\n    Ok(())\n}}\n"
        ))
    }

    pub(super) fn readme(&self, has_threads: bool) -> Result<String> {
        let krate = self.crate_name();
        let mut text = format!(
            "# {}\n\nWritten by fx from a graph. It needs no other crate and no network.\n\n## Signature\n\n",
            self.name
        );
        text.push_str("| input | type |\n|---|---|\n");
        for (name, (_, input)) in self.inputs.iter().zip(&self.lowered.inputs) {
            let ty = names::comment(&input.to_string());
            let _ = match input {
                Input::Tensor(_) => writeln!(text, "| `{name}` | `{ty}` |"),
                Input::Integer(_) => writeln!(text, "| `{name}` | the integer `{ty}` |"),
            };
        }
        text.push_str("\n| output | type |\n|---|---|\n");
        for output in &self.outputs {
            let _ =
                writeln!(text, "| `{}` | `{}` |", output.name, names::comment(&output.view.ty().to_string()));
        }
        let returned: Vec<Symbol> =
            self.outputs.iter().flat_map(|output| &output.view.shape).flat_map(Dim::symbols).collect();
        for (symbol, name) in &self.symbols {
            if !self.lowered.locals.contains(symbol) {
                let is_it = |(_, input): &(String, Input)| match input {
                    Input::Integer(number) => number.as_symbol() == Some(symbol),
                    Input::Tensor(_) => false,
                };
                let is_number = self.lowered.inputs.iter().any(is_it);
                let (least, most) = if is_number { number_range(symbol) } else { size_range(symbol) };
                let _ = writeln!(text, "\n`{name}` is from {least} to {most}.");
            } else if returned.contains(symbol) {
                let _ = writeln!(text, "\n`{name}` depends on the data.");
            }
        }
        let make = if self.options.baked { "Model::new()" } else { "Model::load(\"model.safetensors\")?" };
        let args = self.inputs.iter().zip(&self.lowered.inputs).map(|(name, (_, input))| match input {
            Input::Tensor(_) => format!("Tensor::new(sizes, &{name})"),
            Input::Integer(_) => name.clone(),
        });
        let args: Vec<String> = args.collect();
        let _ = write!(
            text,
            "\n## Use\n\n```rust,ignore\nuse {krate}::{{Model, Tensor}};\n\nlet mut model = {make};\nlet result = model.forward({})?;\n```\n\nA `Tensor` has the fields `shape` and `data`. ",
            args.join(", ")
        );
        text.push_str(match self.options.baked {
            true => "The weights are in the code. The crate has no `std`, allocates nothing, and has no `unsafe`.\n",
            false => {
                "The weights are in `model.safetensors`; any safetensors file with the same names, types and shapes will do. A call allocates \
                 nothing once the memory for its sizes is there.\n\n`cargo run --release` runs the recorded inputs, with `ROUNDS=100` it measures calls, too; `cargo test` compares the \
                 result with what was recorded.\n"
            }
        });
        let updated = self.lowered.weights.iter().filter(|weight| weight.update.is_some());
        let updated: Vec<String> =
            updated.map(|weight| format!("`{}`", names::comment(&weight.path))).collect();
        if !updated.is_empty() {
            let _ = writeln!(
                text,
                "\nThe model has state: a call changes {}, which the next call reads. A new `Model` begins with the values that were written with it.",
                updated.join(", ")
            );
        }
        if self.draws() {
            text.push_str(
                "\nThe model draws random numbers, those of fx with the same seed: `model.seed(7)` draws what fx does after `fx::manual_seed(7)`. \
                 A new `Model` has the seed 0.\n",
            );
        }
        if has_threads {
            text.push_str(
                "\nLarge operations start threads, which allocates, up to the number of processors; `set_threads(1)` keeps to one. They change no result.\n",
            );
        }
        Ok(text)
    }
}
