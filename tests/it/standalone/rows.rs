//! Every row of [`fx::standalone::operations`] in one crate, compared with the eager operations.
//!
//! A row is a model: each variant of its samples, with other dtypes and sizes, is a node. Each model runs on
//! several sets of elements, among them infinities, NaNs, zeros of both signs, and masks that are nowhere true.
//! `refused.txt` lists the variants that crates refuse, one for each reason.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use fx::opcheck::{Sample, samples, variants};
use fx::prelude::*;
use fx::standalone::{Options, check, generate, operations};
use fx::{Arg, Array, Generator, GraphModule, InputSpec, Op, Result, Value, trace, with_generator};

use super::{cargo, folder};

/// What is put in the place of some floats of a tensor, and of all bools.
struct Elements {
    floats: &'static [f64],
    bools: Option<bool>,
}

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

/// The sets of elements; where there is none, those of the sample stay.
const SETS: [Elements; 6] = [
    Elements { floats: &[], bools: None },
    Elements { floats: &[0.0, -0.0, -1.5, 1e-40, 2.5, -3.0, 0.5], bools: Some(true) },
    Elements { floats: &[NAN, 1.0, -2.0, NAN, 0.25], bools: None },
    Elements { floats: &[INF, 1.0, -2.0, 0.5], bools: None },
    Elements { floats: &[-INF, -INF, 1.0, INF, NAN, -0.0], bools: None },
    Elements { floats: &[-INF], bools: Some(false) },
];

/// Fourier transforms and factors of matrices: what sums of infinities and NaNs give depends on the order of the
/// sums.
const SPREADS: [&str; 12] = [
    "_fft_c2c",
    "_fft_c2r",
    "_fft_r2c",
    "fft_irfft",
    "geqrf",
    "linalg_householder_product",
    "linalg_lu",
    "linalg_lu_factor",
    "linalg_lu_solve",
    "linalg_qr",
    "linalg_pinv",
    "stft",
];

/// Returns arguments with other elements; what is no float and no bool stays.
fn with_elements(args: &[Value], elements: &Elements) -> Result<Vec<Value>> {
    let replaced = |tensor: &Tensor| -> Result<Tensor> {
        let array = tensor.array()?;
        let n = array.numel();
        Ok(match elements.bools {
            Some(x) if array.dtype() == DType::Bool => Tensor::from_vec(vec![x; n], array.shape()),
            _ if array.dtype().is_float() && !elements.floats.is_empty() => {
                let floats = elements.floats.iter().copied().cycle().take(n).collect::<Vec<f64>>();
                Tensor::new(Array::from_vec(floats, array.shape())?.cast(array.dtype()))
            }
            _ => tensor.clone(),
        })
    };
    args.iter().map(|arg| arg.try_flat_map(&mut |tensor| replaced(tensor).map(Arg::Leaf))).collect()
}

/// Runs the kernel; `None` if it refuses the arguments.
fn eager(op: Op, args: &[Value]) -> Option<Vec<Tensor>> {
    let value = (op.eval)(args).ok()?;
    let tensors: Vec<Tensor> = value.leaves().into_iter().cloned().collect();
    tensors.iter().all(|tensor| tensor.error().is_none()).then_some(tensors)
}

/// Returns the names that the crate gives to the tensors of a result.
fn fields(value: &Value, name: &str) -> Vec<String> {
    let items = |items: &[Value]| {
        items.iter().enumerate().flat_map(|(i, item)| fields(item, &format!("{name}_{i}"))).collect()
    };
    match value {
        Arg::Leaf(_) => vec![name.to_owned()],
        Arg::List(list) => items(list),
        Arg::Tuple(tuple) => items(tuple),
        _ => Vec::new(),
    }
}

/// Traces a call for each list of arguments; the program takes one list of tensors and returns one.
fn traced(op: Op, calls: &[Vec<Value>]) -> Result<GraphModule> {
    let tensors: Vec<Tensor> = calls.iter().flatten().flat_map(Arg::leaves).cloned().collect();
    trace(|tensors: Vec<Tensor>| -> Value {
        let mut tensors = tensors.into_iter();
        let mut results = Vec::new();
        for args in calls {
            let args: Result<Vec<Value>> = args
                .iter()
                .map(|arg| arg.try_flat_map(&mut |_| Ok(tensors.next().map_or(Arg::None, Arg::Leaf))))
                .collect();
            let value = args.and_then(|args| {
                let (args, kwargs) = op.spell(&args);
                let kwargs: Vec<(&str, Value)> =
                    kwargs.iter().map(|(key, arg)| (&**key, arg.clone())).collect();
                trace::apply(op, false, &args, &kwargs)
            });
            match value {
                Ok(value) => results.push(value),
                Err(error) => return Arg::Failed(error),
            }
        }
        Arg::list(results)
    })
    .input("x", InputSpec::list(tensors.iter()))
    .without_sources()
    .build()
}

/// An operation as a model of the crate.
struct Model {
    /// The name of its module.
    name: String,
    op: Op,
    /// The arguments of each call, for each set of elements.
    sets: Vec<Vec<Vec<Value>>>,
}

/// Returns calls of an operation with all variants of its samples that can be written, and a line for each
/// reason that others cannot.
fn calls(op: Op, refused: &mut Vec<String>) -> Result<Vec<Vec<Value>>> {
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut reasons: BTreeMap<String, String> = BTreeMap::new();
    for sample in samples(op)? {
        for args in variants(op, &sample)? {
            let text = Sample::new(args.clone()).to_string();
            if found.contains_key(&text) {
                continue;
            }
            match traced(op, std::slice::from_ref(&args)).and_then(|gm| check(&gm, &Options::new())) {
                Ok(()) => _ = found.insert(text, args),
                Err(error) => _ = reasons.entry(reason(&error)).or_insert(text),
            }
        }
    }
    refused.extend(reasons.into_iter().map(|(why, args)| format!("{}({args}): {why}", op.name)));
    Ok(found.into_values().collect())
}

/// Returns why a node cannot be written, without its name and its operands.
fn reason(error: &fx::Error) -> String {
    let text = error.message();
    let why = text.split_once(" = ").and_then(|(_, rest)| rest.split_once(": "));
    let why = why.map_or(text, |(_, why)| why);
    why.split("\n    operands:").next().unwrap_or(why).replace('\n', " ")
}

impl Model {
    /// Makes the model of calls.
    fn new(op: Op, calls: &[Vec<Value>]) -> Result<Model> {
        let set = |elements: &Elements| -> Result<Vec<Vec<Value>>> {
            let replaced = |args: &Vec<Value>| {
                let replaced = with_elements(args, elements)?;
                Ok(if eager(op, &replaced).is_some() { replaced } else { args.clone() })
            };
            calls.iter().map(replaced).collect()
        };
        let is_finite = |elements: &&Elements| elements.floats.iter().all(|x| x.is_finite());
        let sets = SETS.iter().filter(|elements| !SPREADS.contains(&op.name) || is_finite(elements));
        let sets = sets.map(set).collect::<Result<Vec<_>>>()?;
        Ok(Model { name: format!("row_{}", op.name.replace('.', "_")), op, sets })
    }

    /// Writes the function that runs the model on each set.
    fn function(&self) -> String {
        let name = &self.name;
        let mut text = format!(
            "fn run_{name}(folder: &Path, out: &mut Vec<u8>) -> Result<(), Box<dyn Error>> {{\n    \
             let file = File::open(folder.join(\"{name}.io\"))?;\n    \
             let mut model = {name}::Model::from_file(&File::open(folder.join(\"{name}.weights\"))?)?;\n    \
             for set in 0..{} {{\n",
            self.sets.len()
        );
        let mut given = Vec::new();
        let tensors = self.sets[0].iter().flatten().flat_map(Arg::leaves);
        for (i, tensor) in tensors.enumerate() {
            let dtype = tensor.dtype().unwrap();
            let _ = writeln!(
                text,
                "        let (shape_{i}, data_{i}) = file.tensor::<{dtype}>(&format!(\"{{set}}.{i}\"))?;"
            );
            given.push(format!("Tensor::new(shape_{i}.try_into().unwrap(), &data_{i})"));
        }
        let _ = writeln!(text, "        let results = model.forward({})?;", given.join(", "));
        for (i, args) in self.sets[0].iter().enumerate() {
            for field in fields(&(self.op.eval)(args).unwrap(), &format!("output_{i}")) {
                let _ = writeln!(text, "        write(out, results.{field}.data);");
            }
        }
        text.push_str("    }\n    Ok(())\n}\n\n");
        text
    }

    /// Compares what the function wrote with the eager results; adds the calls that differ.
    fn compare(&self, folder: &Path, failures: &mut Vec<String>) -> Result<()> {
        let bytes = std::fs::read(folder.join(format!("{}.out", self.name))).unwrap();
        let mut rest = &bytes[..];
        let mut next = || {
            let (length, tail) = rest.split_first_chunk::<8>()?;
            let (data, tail) = tail.split_at_checked(u64::from_le_bytes(*length) as usize)?;
            rest = tail;
            Some(data)
        };
        for (set, calls) in self.sets.iter().enumerate() {
            for args in calls {
                let call = || format!("{} set {set}: ({})", self.name, Sample::new(args.to_vec()));
                let expected = eager(self.op, args).unwrap();
                let mut got = Vec::new();
                for expected in &expected {
                    let array = expected.array()?;
                    let Some(data) = next() else {
                        failures.push(format!("{}: nothing was written", call()));
                        return Ok(());
                    };
                    got.push(Tensor::new(Array::from_le_bytes(array.dtype(), array.shape(), data)?));
                }
                let (got, expected) = (unique(self.op, &got), unique(self.op, &expected));
                for (got, expected) in got.iter().zip(&expected) {
                    if let Err(error) = close(got, expected) {
                        failures.push(format!("{}: {}", call(), error.message()));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns what is the same for all results that an operation may have: of vectors, which may have another sign
/// or be others of the same space, the matrices of which they are factors, and all products of two.
fn unique(op: Op, results: &[Tensor]) -> Vec<Tensor> {
    let squares = |x: &Tensor| x.matmul(x.transpose(-1, -2));
    match (op.name, results) {
        ("linalg_svd", [left, values, right]) => {
            let k = values.dim(-1);
            let scaled = left.narrow(-1, 0, k.clone()) * values.unsqueeze(-2);
            let whole = scaled.matmul(right.narrow(-2, 0, k));
            vec![values.clone(), whole, squares(&left.transpose(-1, -2)), squares(right)]
        }
        ("linalg_eigh", [values, vectors]) => {
            let whole = (vectors * values.unsqueeze(-2)).matmul(vectors.transpose(-1, -2));
            vec![values.clone(), whole, squares(vectors)]
        }
        _ => results.to_vec(),
    }
}

/// Compares as `fx check` does: floats by [`fx::check::RTOL`] and [`fx::check::ATOL`], halves by their last place.
fn close(got: &Tensor, expected: &Tensor) -> Result<()> {
    let unit = match expected.dtype()? {
        DType::F16 => 1.0 / 1024.0,
        DType::BF16 => 1.0 / 128.0,
        dtype if dtype.is_float() => 0.0,
        _ => return got.all_close(expected, 0.0, 0.0),
    };
    let sizes = expected.array()?.iter_scalars().map(|x| x.to_f64().abs()).filter(|x| x.is_finite());
    let scale = sizes.fold(0.0, f64::max);
    got.all_close(expected, fx::check::RTOL.max(unit), fx::check::ATOL.max(unit) * scale)
}

/// Adds the files of a package to those of the crate of all models.
fn add(files: &mut BTreeMap<String, Vec<u8>>, name: &str, package: &fx::standalone::Package) {
    for (path, bytes) in package.files() {
        let to = match path {
            "src/model.rs" => format!("src/{name}.rs"),
            "model.safetensors" => format!("{name}.weights"),
            path if path.starts_with("src/") && path != "src/lib.rs" && path != "src/main.rs" => {
                path.to_owned()
            }
            _ => continue,
        };
        let kept = files.entry(to).or_default();
        if path == "src/kernels/mod.rs" {
            let new = String::from_utf8_lossy(bytes).into_owned();
            let mut lines: Vec<String> = String::from_utf8_lossy(kept).lines().map(str::to_owned).collect();
            lines.extend(
                new.lines()
                    .filter(|line| !lines.iter().any(|known| known == line))
                    .map(str::to_owned)
                    .collect::<Vec<_>>(),
            );
            *kept = format!("{}\n", lines.join("\n")).into_bytes();
        } else if path == "src/kernels/rowwise.rs" && !kept.is_empty() {
            // Each has the functions of its own operations.
            let (old, new) = (String::from_utf8_lossy(kept), String::from_utf8_lossy(bytes));
            let function = |text: &&str| !old.contains(text.trim_end());
            let new: Vec<&str> = new.split("\n/// Computes").skip(1).filter(function).collect();
            *kept = new
                .iter()
                .fold(old.into_owned(), |old, new| format!("{old}\n/// Computes{new}"))
                .into_bytes();
        } else if kept.len() < bytes.len() {
            // Where there are halves, the reader of files knows them too.
            *kept = bytes.to_vec();
        }
    }
}

#[test]
fn every_row_on_its_samples() {
    let registry = fx::registry();
    let (mut files, mut models, mut refused, mut failures) =
        (BTreeMap::new(), Vec::new(), Vec::new(), Vec::new());
    for name in operations() {
        let op = registry.get(name).unwrap_or_else(|| panic!("there is no operation {name}"));
        let calls = calls(op, &mut refused).unwrap_or_else(|error| panic!("{name}: {error}"));
        if calls.is_empty() {
            failures.push(format!("{name}: no sample can be written"));
            continue;
        }
        let package = traced(op, &calls).and_then(|gm| generate(&gm, &Options::new()));
        match package.and_then(|package| Ok((package, Model::new(op, &calls)?))) {
            Ok((package, model)) => {
                add(&mut files, &model.name, &package);
                models.push(model);
            }
            Err(error) => failures.push(format!("{name}: {error}")),
        }
    }
    expect_test::expect_file!["refused.txt"].assert_eq(&format!("{}\n", refused.join("\n")));
    let dir = folder("rows");
    write_crate(&dir, &mut files, &models);
    cargo(&dir, &["run", "--quiet"]);
    for model in &models {
        let why = std::fs::read_to_string(dir.join(format!("{}.error", model.name)));
        match why {
            Ok(why) => failures.push(format!("{}: {why}", model.name)),
            // A new model draws random numbers with this seed.
            Err(_) => {
                with_generator(&Generator::seeded(0), || model.compare(&dir, &mut failures)).unwrap();
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// Writes the crate: a module and a function for each model, and the elements of all sets.
fn write_crate(dir: &Path, files: &mut BTreeMap<String, Vec<u8>>, models: &[Model]) {
    let mut main = String::from(
        "#![allow(unused, non_snake_case, clippy::all)]\nmod error;\nmod kernels;\nmod math;\nmod safetensors;\nmod tensor;\n",
    );
    models.iter().for_each(|model| _ = writeln!(main, "mod {};", model.name));
    main.push_str(
        "\nuse std::error::Error;\nuse std::panic::{AssertUnwindSafe, catch_unwind};\nuse std::path::Path;\n\
         use kernels::half::{bf16, f16};\nuse safetensors::File;\nuse tensor::Tensor;\n\n\
         fn write<T: Copy>(out: &mut Vec<u8>, data: &[T]) {\n    let n = std::mem::size_of_val(data);\n    \
         out.extend((n as u64).to_le_bytes());\n    \
         // SAFETY: elements are numbers, of which every byte is one.\n    \
         out.extend(unsafe { std::slice::from_raw_parts(data.as_ptr().cast::<u8>(), n) });\n}\n\n",
    );
    models.iter().for_each(|model| main.push_str(&model.function()));
    main.push_str(
        "fn main() {\n    let folder = Path::new(env!(\"CARGO_MANIFEST_DIR\"));\n    \
         let run = |name: &str, f: fn(&Path, &mut Vec<u8>) -> Result<(), Box<dyn Error>>| {\n        \
         let mut out = Vec::new();\n        \
         let result = catch_unwind(AssertUnwindSafe(|| f(folder, &mut out)));\n        \
         let why = match result {\n            Ok(Ok(())) => None,\n            \
         Ok(Err(error)) => Some(error.to_string()),\n            \
         Err(panic) => Some(format!(\"panics: {:?}\", panic.downcast_ref::<String>().map(String::as_str)\
         .or(panic.downcast_ref::<&str>().copied()))),\n        };\n        \
         if let Some(why) = why {\n            \
         std::fs::write(folder.join(format!(\"{name}.error\")), why).unwrap();\n        }\n        \
         std::fs::write(folder.join(format!(\"{name}.out\")), out).unwrap();\n    };\n",
    );
    models.iter().for_each(|model| _ = writeln!(main, "    run(\"{0}\", run_{0});", model.name));
    main.push_str("}\n");
    files.insert("src/main.rs".to_owned(), main.into_bytes());
    let manifest = "[package]\nname = \"rows\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
                    [profile.dev]\nopt-level = 0\ndebug = false\nincremental = false\n";
    files.insert("Cargo.toml".to_owned(), manifest.as_bytes().to_vec());
    for (path, bytes) in files.iter() {
        let path = dir.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    for model in models {
        let mut tensors = Vec::new();
        for (set, calls) in model.sets.iter().enumerate() {
            for (i, tensor) in calls.iter().flatten().flat_map(Arg::leaves).enumerate() {
                tensors.push((format!("{set}.{i}"), tensor.clone()));
            }
        }
        let path = dir.join(format!("{}.io", model.name));
        fx::weights::save(path, &tensors, &[]).unwrap();
    }
}
