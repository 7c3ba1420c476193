//! [`ModuleExt`]: what every module can do with its parameters and buffers; moving weights in and out.
//!
//! Loading first compares all names, shapes and dtypes and reads all tensors, then sets them: a module is
//! loaded or, with an error, as it was.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::Path;

use fx_core::module::load::{FromWeights, join};
use fx_core::module::{
    Buffer, Named, NamedModule, Parameter, VisitorMut, collect_buffers, collect_modules, collect_parameters,
};
use fx_core::{DType, Forward, GraphModule, Module, Result, Tensor, err};

use super::Weights;

/// What every module can do with its parameters, buffers and sub-modules.
pub trait ModuleExt: Module {
    #[doc(hidden)]
    fn root(&self) -> &dyn Module;

    #[doc(hidden)]
    fn root_mut(&mut self) -> &mut dyn Module;

    /// Returns every parameter with its dotted path, depth first. A tied parameter comes under each of its names.
    fn named_parameters(&self) -> Vec<Named<'_, Parameter>> {
        collect_parameters(self.root())
    }

    /// Returns every buffer with its dotted path, depth first.
    fn named_buffers(&self) -> Vec<Named<'_, Buffer>> {
        collect_buffers(self.root())
    }

    /// Returns this module, whose path is empty, and every module below it, outermost first.
    fn named_modules(&self) -> Vec<NamedModule<'_>> {
        collect_modules(self.root())
    }

    /// Returns the number of elements of all parameters; tied ones count once.
    fn parameters_count(&self) -> u64 {
        let parameters = self.named_parameters();
        let arrays = parameters.iter().filter_map(|(_, parameter)| parameter.array().ok());
        let distinct: BTreeMap<usize, usize> = arrays.map(|array| (identity(array), array.numel())).collect();
        distinct.values().map(|&numel| numel as u64).sum()
    }

    /// Returns parameters and persistent buffers with their dotted paths, in the order of the fields.
    fn state_dict(&self) -> Vec<(String, Tensor)> {
        slots(self.root()).into_iter().map(|slot| (slot.name, slot.tensor)).collect()
    }

    /// Sets every parameter and persistent buffer from weights of the same names, shapes and dtypes.
    ///
    /// If anything does not fit, nothing is changed, and the error lists all of it.
    fn load_state_dict(&mut self, weights: &Weights) -> Result<()> {
        self.load_state_dict_with(weights, LoadOptions::default()).map(drop)
    }

    /// Sets those parameters and persistent buffers that the weights fit, and returns what did not.
    fn load_state_dict_lax(&mut self, weights: &Weights) -> Result<LoadReport> {
        self.load_state_dict_with(weights, LoadOptions { lax: true, ..LoadOptions::default() })
    }

    /// Sets parameters and persistent buffers as the options say.
    ///
    /// Parameters that share their value before are tied: if only one of their names is in the weights, all
    /// take its value, and they share the new one.
    fn load_state_dict_with(&mut self, weights: &Weights, options: LoadOptions) -> Result<LoadReport> {
        let (report, tensors) = compare(slots(self.root()), weights, options)?;
        if !options.lax && !report.fits() {
            return Err(err!(Load, "{report}").help(report.advice()));
        }
        self.root_mut().visit_mut(&mut Setter { prefix: String::new(), tensors });
        Ok(report)
    }

    /// Writes the state dict to a safetensors file.
    fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        super::save(path, &self.state_dict(), &[])
    }

    /// Converts floats among the parameters and buffers to another float dtype, as `module.to(dtype)` does in
    /// PyTorch; tied parameters stay tied. Integers and bools stay.
    ///
    /// Fails if the dtype is no float, or there is a graph module, which has the types of its trace; nothing is
    /// changed then.
    fn to_dtype(&mut self, dtype: DType) -> Result<()> {
        if !dtype.is_float() {
            return Err(err!(DType, "expected a float dtype, got {dtype}").help("one of f32, f64, f16, bf16"));
        }
        for (path, module) in self.named_modules() {
            if module.as_any().is::<GraphModule>() {
                return Err(err!(DType, "a graph keeps the types of its trace")
                    .help("convert the module before you trace it")
                    .in_module(&path));
            }
        }
        self.root_mut().visit_mut(&mut Converter { dtype, converted: HashMap::new() });
        Ok(())
    }

    /// Switches this module and all below it to training.
    fn train(&mut self) {
        set_training(self.root_mut(), true);
    }

    /// Switches this module and all below it to inference.
    fn eval(&mut self) {
        set_training(self.root_mut(), false);
    }
}

impl<M: Module> ModuleExt for M {
    fn root(&self) -> &dyn Module {
        self
    }
    fn root_mut(&mut self) -> &mut dyn Module {
        self
    }
}

impl ModuleExt for dyn Module {
    fn root(&self) -> &dyn Module {
        self
    }
    fn root_mut(&mut self) -> &mut dyn Module {
        self
    }
}

impl ModuleExt for dyn Forward {
    fn root(&self) -> &dyn Module {
        self.as_module()
    }
    fn root_mut(&mut self) -> &mut dyn Module {
        self.as_module_mut()
    }
}

/// Modules that weights alone determine.
pub trait Load: FromWeights<Weights> {
    /// Builds the module from weights whose names are its paths.
    fn load(weights: &Weights) -> Result<Self> {
        Self::from_weights(weights, "")
    }
}
impl<M: FromWeights<Weights>> Load for M {}

/// How [`ModuleExt::load_state_dict_with`] loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadOptions {
    /// Loads what fits; otherwise anything that does not fit is an error.
    pub lax: bool,
    /// Converts tensors to the dtype that the module has; otherwise another dtype does not fit.
    pub convert_dtypes: bool,
}

/// How weights fit a module. `Display` lists everything that does not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadReport {
    /// The names that were found, in the order of the state dict.
    pub loaded: Vec<String>,
    /// Names of the module that the weights do not have.
    pub missing: Vec<String>,
    /// Names of the weights that the module does not have.
    pub unexpected: Vec<String>,
    /// Tensors of another shape than the module's.
    pub mis_shaped: Vec<Misfit>,
    /// Tensors of the right shape, but another dtype.
    pub mis_typed: Vec<Misfit>,
    /// Tied parameters and buffers whose name the weights do not have, with the name whose value they take.
    pub tied: Vec<(String, String)>,
    /// Names of one parameter or buffer that have different values in the weights: the second, and the first.
    pub conflicting: Vec<(String, String)>,
    similar: Vec<(String, String)>,
}

/// A tensor that is not of the module's dtype and shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The name.
    pub name: String,
    /// Dtype and shape in the module, such as `f32[2, 3]`.
    pub expected: String,
    /// Dtype and shape in the weights.
    pub got: String,
}

impl LoadReport {
    /// Returns whether the weights and the module have the same names, shapes and dtypes, and one value for each
    /// parameter and buffer of several names.
    pub fn fits(&self) -> bool {
        self.missing.is_empty()
            && self.unexpected.is_empty()
            && self.mis_shaped.is_empty()
            && self.mis_typed.is_empty()
            && self.conflicting.is_empty()
    }

    fn advice(&self) -> &'static str {
        match self {
            _ if !self.missing.is_empty() && !self.unexpected.is_empty() => {
                "rename the weights with `rename`, select a part with `pp`, or load what fits with `load_state_dict_lax`"
            }
            _ if !self.mis_shaped.is_empty() => "make the module with the sizes that the weights have",
            _ if !self.mis_typed.is_empty() => {
                "convert them: `load_state_dict_with(&weights, LoadOptions { convert_dtypes: true, ..Default::default() })`"
            }
            _ if !self.conflicting.is_empty() => {
                "give each such name the same value, or load the first with `load_state_dict_lax`"
            }
            _ => "load what fits with `load_state_dict_lax`",
        }
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fits() {
            return write!(f, "all {} tensors fit the module", self.loaded.len() + self.tied.len());
        }
        let counts = [
            (self.missing.len(), "missing"),
            (self.unexpected.len(), "unexpected"),
            (self.mis_shaped.len(), "of another shape"),
            (self.mis_typed.len(), "of another dtype"),
            (self.conflicting.len(), "in conflict"),
        ];
        let counts = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
        write!(f, "the weights do not fit the module: {}", counts.collect::<Vec<_>>().join(", "))?;
        let missing = self.missing.iter().map(|name| {
            let similar = self.similar.iter().find(|(missing, _)| missing == name);
            let similar = similar.map_or_else(String::new, |(_, similar)| format!(" ({similar})"));
            format!("missing: {name}{similar}")
        });
        list(f, missing)?;
        list(f, self.unexpected.iter().map(|name| format!("unexpected: {name}")))?;
        for (what, misfits) in [("shape", &self.mis_shaped), ("dtype", &self.mis_typed)] {
            let misfit = |Misfit { name, expected, got }: &Misfit| {
                format!("{what}: {name}: expected {expected}, got {got}")
            };
            list(f, misfits.iter().map(misfit))?;
        }
        list(
            f,
            self.conflicting.iter().map(|(name, first)| {
                format!("conflict: {name} is {first} in the module, and has another value in the weights")
            }),
        )
    }
}

/// Writes a line for each of some problems of one kind; of many, for the first ones.
fn list(f: &mut fmt::Formatter<'_>, mut lines: impl ExactSizeIterator<Item = String>) -> fmt::Result {
    /// Of so many lines all are written.
    const MOST: usize = 16;
    let most = if lines.len() > MOST { MOST - 1 } else { MOST };
    for line in lines.by_ref().take(most) {
        write!(f, "\n  {line}")?;
    }
    match lines.len() {
        0 => Ok(()),
        more => write!(f, "\n  and {more} more like it"),
    }
}

/// A place in a module that a state dict names.
struct Slot {
    name: String,
    tensor: Tensor,
    /// What tied parameters or buffers have in common.
    tie: Option<usize>,
    /// The address of the parameter or the cell of the buffer, of which a shared module has several names.
    place: usize,
}

fn identity<T>(of: &T) -> usize {
    std::ptr::from_ref(of) as usize
}

/// Returns the parameters and persistent buffers below `root`, module by module.
fn slots(root: &dyn Module) -> Vec<Slot> {
    struct Collector {
        prefix: String,
        slots: Vec<Slot>,
    }
    impl<'a> fx_core::module::Visitor<'a> for Collector {
        fn parameter(&mut self, name: &str, parameter: &'a Parameter) {
            let tensor = parameter.tensor().clone();
            let tie = tensor.array().ok().map(identity);
            let place = identity(parameter);
            self.slots.push(Slot { name: join(&self.prefix, name), tensor, tie, place });
        }
        fn buffer(&mut self, name: &str, buffer: &'a Buffer) {
            if buffer.is_persistent() {
                let (name, tensor, place) = (join(&self.prefix, name), buffer.get(), buffer.address());
                self.slots.push(Slot { name, tensor, tie: Some(place), place });
            }
        }
        fn module(&mut self, name: &str, module: &'a dyn Module) {
            let path = join(&self.prefix, name);
            let prefix = std::mem::replace(&mut self.prefix, path);
            module.visit(self);
            self.prefix = prefix;
        }
    }
    let mut collector = Collector { prefix: String::new(), slots: Vec::new() };
    root.visit(&mut collector);
    collector.slots
}

/// Compares a module with weights, and reads the tensors that fit.
fn compare(
    slots: Vec<Slot>,
    weights: &Weights,
    options: LoadOptions,
) -> Result<(LoadReport, HashMap<String, Tensor>)> {
    let mut report = LoadReport::default();
    let mut tensors: HashMap<String, Tensor> = HashMap::new();
    let mut groups: HashMap<usize, String> = HashMap::new();
    let mut places: HashMap<usize, String> = HashMap::new();
    let names: BTreeSet<&str> = slots.iter().map(|slot| slot.name.as_str()).collect();
    report.unexpected = weights.names().filter(|name| !names.contains(name)).map(str::to_owned).collect();

    for Slot { name, tensor: old, tie, place } in &slots {
        let old = old.array().map_err(|error| error.in_context(|| format!("the module's {name:?}")))?;
        let Some(got) = weights.describe(name) else { continue };
        let misfit = || Misfit { name: name.clone(), expected: old.describe(), got: got.clone() };
        let sizes = |ty: &str| ty.find('[').map(|at| ty[at..].to_owned());
        if sizes(&got) != sizes(&old.describe()) {
            report.mis_shaped.push(misfit());
            continue;
        }
        if got != old.describe() && !options.convert_dtypes {
            report.mis_typed.push(misfit());
            continue;
        }
        let mut new = weights.require(name)?;
        if new.array()?.dtype() != old.dtype() {
            new = new.array()?.cast(old.dtype()).into();
        }
        // Tied parameters that are stored twice stay tied if they are stored with the same value.
        if let Some(first) = tie.and_then(|tie| groups.get(&tie)).and_then(|first| tensors.get(first))
            && first.bits_eq(&new)
        {
            new = first.clone();
        }
        let first = places.entry(*place).or_insert_with(|| name.clone());
        if tensors.get(first).is_some_and(|value| !value.bits_eq(&new)) {
            report.conflicting.push((name.clone(), first.clone()));
            continue;
        }
        if let Some(tie) = *tie {
            groups.entry(tie).or_insert_with(|| name.clone());
        }
        report.loaded.push(name.clone());
        tensors.insert(name.clone(), new);
    }
    for Slot { name, tie, place, .. } in &slots {
        if weights.contains(name) {
            // A visitor sees a shared module under its first name only.
            if let Some(value) = places.get(place).and_then(|first| tensors.get(first)).cloned() {
                tensors.entry(name.clone()).or_insert(value);
            }
            continue;
        }
        match tie.and_then(|tie| groups.get(&tie)) {
            Some(first) => {
                tensors.insert(name.clone(), tensors[first].clone());
                report.tied.push((name.clone(), first.clone()));
            }
            None => report.missing.push(name.clone()),
        }
    }
    for name in &report.missing {
        let similar = fx_core::names::suggest(name, report.unexpected.iter().map(String::as_str));
        if similar.starts_with("did you mean") {
            report.similar.push((name.clone(), similar));
        }
    }
    Ok((report, tensors))
}

struct Setter {
    prefix: String,
    tensors: HashMap<String, Tensor>,
}

impl VisitorMut for Setter {
    fn parameter(&mut self, name: &str, parameter: &mut Parameter) {
        if let Some(tensor) = self.tensors.get(&join(&self.prefix, name)) {
            parameter.set(tensor.clone());
        }
    }
    fn buffer(&mut self, name: &str, buffer: &mut Buffer) {
        if buffer.is_persistent()
            && let Some(tensor) = self.tensors.get(&join(&self.prefix, name))
        {
            buffer.store(tensor.clone());
        }
    }
    fn module(&mut self, name: &str, module: &mut dyn Module) {
        let path = join(&self.prefix, name);
        let prefix = std::mem::replace(&mut self.prefix, path);
        module.visit_mut(self);
        self.prefix = prefix;
    }
}

struct Converter {
    dtype: DType,
    /// The tensors that were converted, by address; the old ones are kept, so that no address is used again.
    converted: HashMap<usize, (Tensor, Tensor)>,
}

impl Converter {
    fn convert(&mut self, tensor: &Tensor) -> Option<Tensor> {
        let array = tensor.array().ok().filter(|array| array.dtype().is_float())?;
        let make = || (tensor.clone(), array.cast(self.dtype).into());
        Some(self.converted.entry(identity(array)).or_insert_with(make).1.clone())
    }
}

impl VisitorMut for Converter {
    fn parameter(&mut self, _: &str, parameter: &mut Parameter) {
        if let Some(tensor) = self.convert(parameter.tensor()) {
            parameter.set(tensor);
        }
    }
    fn buffer(&mut self, _: &str, buffer: &mut Buffer) {
        if let Some(tensor) = self.convert(&buffer.get()) {
            buffer.store(tensor);
        }
    }
    fn module(&mut self, _: &str, module: &mut dyn Module) {
        module.visit_mut(self);
    }
}

fn set_training(root: &mut dyn Module, training: bool) {
    struct Switch(bool);
    impl VisitorMut for Switch {
        fn parameter(&mut self, _: &str, _: &mut Parameter) {}
        fn buffer(&mut self, _: &str, _: &mut Buffer) {}
        fn module(&mut self, _: &str, module: &mut dyn Module) {
            module.set_training(self.0);
            module.visit_mut(self);
        }
    }
    root.set_training(training);
    root.visit_mut(&mut Switch(training));
}
