//! Stand-alone crates: a program as Rust that needs neither fx nor any other crate.
//!
//! [`ToCrate`] runs the passes for inference, records the results of the program, and lets
//! [`fx_codegen::standalone`](crate::standalone::generate) write the files.

mod compose;

use std::path::Path;

pub use fx_codegen::standalone::{Options, Package};
use fx_ops::engine::prepare_except;

use crate::weights::Weights;
use crate::{
    Arg, Generator, GraphModule, Op, Passes, Result, Tensor, Type, TypeTree, Value, bail, pass,
    with_generator,
};

/// Writes a graph module as a crate. It must not call modules, and its nodes must have types: `to_crate` sees to
/// both.
///
/// Fails when there are operations without stand-alone code: all are named, with their lines in the program.
pub fn generate(gm: &GraphModule, options: &Options) -> Result<Package> {
    fx_codegen::standalone::generate(&composed(gm, options)?, options)
}

/// Checks that a graph module can be written as a crate, without writing it.
///
/// Fails as [`generate`].
pub fn check(gm: &GraphModule, options: &Options) -> Result<()> {
    fx_codegen::standalone::check(&composed(gm, options)?, options)
}

/// Returns a graph module with operations that are compositions of others written as these.
fn composed(gm: &GraphModule, options: &Options) -> Result<GraphModule> {
    let mut gm = gm.clone();
    Passes::parse(&pass::decompose_except(&written(options)), &pass::all())?.in_place().run(&mut gm)?;
    compose::compose(&mut gm, options)?;
    Ok(gm)
}

/// Returns the compositions for which the user has code.
fn written(options: &Options) -> Vec<Op> {
    pass::decomposed().filter(|op| options.writes(*op)).collect()
}

/// Returns the names of the operations that have stand-alone code besides pointwise operations, sorted.
pub fn operations() -> Vec<&'static str> {
    let mut names = fx_codegen::standalone::operations();
    names.extend(compose::names());
    names.extend(pass::decomposed().map(|op| op.name));
    let has_code = |op: &Op| op.rows.is_some() || op.windows.is_some() || op.gufunc.is_some();
    names.extend(crate::registry().iter().filter(has_code).map(|op| op.name));
    names.sort_unstable();
    names.dedup();
    names
}

/// How a program becomes a crate.
#[derive(Clone, Debug, Default)]
pub struct CrateOptions {
    options: Options,
    fixed: bool,
    sets: Vec<(Vec<Value>, Option<Vec<Tensor>>)>,
}

impl CrateOptions {
    /// Makes the default options: the name of the program, weights in a file, sizes as traced, and a record
    /// of random inputs.
    pub fn new() -> CrateOptions {
        CrateOptions::default()
    }

    /// Names the crate. A name that cargo does not take, or that code cannot import, is an error when the crate
    /// is made.
    pub fn name(mut self, name: &str) -> CrateOptions {
        self.options = self.options.name(name);
        self
    }

    /// Names the crate after a text, such as the name of a file. What a name cannot have is replaced.
    pub fn named_after(mut self, text: &str) -> CrateOptions {
        self.options = self.options.named_after(text);
        self
    }

    /// Puts the weights into the code, which then needs no standard library and allocates nothing. Sizes are
    /// those of the first record.
    pub fn baked(mut self) -> CrateOptions {
        self.options = self.options.baked();
        self.fixed = true;
        self
    }

    /// Makes the crate for the sizes of the first record only.
    pub fn fixed(mut self) -> CrateOptions {
        self.fixed = true;
        self
    }

    /// Writes an operation as a call of a function of yours; see [`Options::operation`].
    pub fn operation(mut self, op: Op, function: &str) -> CrateOptions {
        self.options = self.options.operation(op, function);
        self
    }

    /// Records the results of the program for these arguments, for the test of the crate.
    pub fn record(mut self, args: &[Value]) -> CrateOptions {
        self.sets.push((args.to_vec(), None));
        self
    }

    /// Takes these arguments and expected outputs for the test of the crate.
    pub fn recorded(mut self, args: &[Value], outputs: &[Tensor]) -> CrateOptions {
        self.sets.push((args.to_vec(), Some(outputs.to_vec())));
        self
    }

    /// Takes the sets of a file: inputs `0.in0`, `0.in1`, … and expected outputs `0.out0`, …; `1.in0` begins
    /// the second set.
    ///
    /// Fails when the file has no set, or one that does not fit the program.
    pub fn io(mut self, gm: &GraphModule, io: &Weights) -> Result<CrateOptions> {
        let has = |set: usize, name: &str| io.contains(&format!("{set}.{name}"));
        let before = self.sets.len();
        for set in 0.. {
            if !has(set, "in0") && !has(set, "out0") {
                break;
            }
            let outputs = (0..).map_while(|i| io.get(&format!("{set}.out{i}")).transpose());
            let outputs: Vec<Tensor> = outputs.collect::<Result<_>>()?;
            self.sets.push((crate::check::inputs(gm, io, set)?, (!outputs.is_empty()).then_some(outputs)));
        }
        if self.sets.len() == before {
            bail!(Load, "there is no input set in {}", io.origin());
        }
        Ok(self)
    }
}

/// Programs as crates.
pub trait ToCrate {
    /// Writes a Cargo crate that computes the same as the program, and builds without another crate and
    /// without network.
    ///
    /// Its `Model` is loaded from the safetensors file beside it; `cargo test` compares its results with a
    /// record.
    ///
    /// Fails when the program has operations without stand-alone code, all of which are named; then nothing
    /// is written.
    fn to_crate(&self, dir: impl AsRef<Path>) -> Result<()>;

    /// Makes a crate with options; [`Package::write`] writes it to a folder.
    ///
    /// Fails as [`to_crate`](ToCrate::to_crate).
    fn to_package(&self, options: &CrateOptions) -> Result<Package>;
}

impl ToCrate for GraphModule {
    fn to_crate(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.to_package(&CrateOptions::new())?.write(dir)
    }

    fn to_package(&self, options: &CrateOptions) -> Result<Package> {
        let mut sets = options.sets.clone();
        if sets.is_empty() {
            sets.push((pass::sample_inputs(self, 0)?, None));
        }
        let types = |args: &[Value]| -> Result<Vec<TypeTree>> {
            let ty = |value: &Value| match value {
                Arg::Int(number) => Ok(Arg::Int(*number)),
                value => Ok(Arg::Leaf(Type::Tensor(Tensor::try_from(value.clone())?.ty()?))),
            };
            self.flatten_inputs(args)?.iter().map(ty).collect()
        };
        // The file of records has tensors only.
        let placeholders = |args: &[Value]| -> Result<Vec<Tensor>> {
            let tensor = |value: &Value| match value {
                Arg::Int(number) => Ok(Tensor::new(*number)),
                value => Tensor::try_from(value.clone()),
            };
            self.flatten_inputs(args)?.iter().map(tensor).collect()
        };
        let first = types(&sets[0].0)?;
        let mut gm = if options.fixed { self.specialize(&first)? } else { self.clone() };
        prepare_except(&mut gm, &written(&options.options))?;
        let mut code = options.options.clone();
        compose::compose(&mut gm, &code)?;
        fx_codegen::standalone::check(&gm, &code)?;
        for (args, outputs) in sets {
            let inputs = placeholders(&args)?;
            if options.fixed && types(&args)? != first {
                continue;
            }
            let outputs = match outputs {
                Some(outputs) => outputs,
                // A new model has this seed.
                None => {
                    let result = with_generator(&Generator::seeded(0), || self.clone().evaluate(&args))?;
                    crate::check::tensors(&result)
                }
            };
            code = code.recorded(inputs, outputs);
        }
        fx_codegen::standalone::generate(&gm, &code)
    }
}
