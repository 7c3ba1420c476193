//! Checks the row of an operation: shape rule, dtype rule and kernel must agree.
//!
//! [`check`] takes any operation, a built-in one or a user's own, guesses sample arguments from its schema
//! and returns a [`Report`]; [`check_on`] takes samples. Each sample is run, then with other sizes (0, 1,
//! primes, rank 0, large), every dtype and other layouts in memory. What is checked:
//!
//! - the shape rule gives the type of the kernel's result, on sizes and on symbols in their place;
//! - a dtype or size that the rule refuses the kernel refuses, and the other way round, with a typed error
//!   and no panic;
//! - two runs, on one thread and on several, give the same bits; operands are left as they were;
//! - strided, flipped and expanded operands give the values of contiguous ones, pointwise rows and views the bits;
//! - the elements of a view lie where its [`windows`](crate::OpDef::windows) say, for sizes and for symbols;
//! - a trace records one node, which prints, parses and runs to the bits of the eager call;
//! - a pointwise row has the text of its body for every dtype that it is computed in.
//!
//! Random operations run from the same seed each time. Operations that act on the host or on buffers are not
//! run: their nodes are only printed and parsed.
//!
//! ```
//! fx::pointwise! {
//!     /// Operations of my own.
//!     pub trait Own; pub static OWN;
//!
//!     /// `x * x + y`, broadcast; any number.
//!     square_add(x, y) -> Same { real: x * x + y, int: x.wrapping_mul(x).wrapping_add(y) }
//! }
//! # fn main() -> fx::Result<()> {
//! fx::opcheck::check(square_add::OP)?.ok()?;
//!
//! let sample = fx::opcheck::Sample::parse("f32[7, 1], f32[5]")?;
//! let report = fx::opcheck::check_on(square_add::OP, &[sample])?;
//! assert!(report.findings.is_empty(), "{report}");
//! # Ok(())
//! # }
//! ```

pub(crate) mod call;
mod examples;
pub(crate) mod rule;
mod sample;
mod windows;

use std::fmt;
use std::sync::OnceLock;

use rayon::{ThreadPool, ThreadPoolBuilder};

pub(crate) use self::call::guarded;
pub use self::sample::{Sample, samples};
use crate::{
    Arg, Class, DType, ErrorKind, GraphModule, Op, Registry, Result, Tensor, Type, Value, err, with_generator,
};

/// The result of checking an operation.
#[derive(Clone, Debug)]
pub struct Report {
    /// The operation.
    pub op: &'static str,
    /// How many samples there were.
    pub samples: usize,
    /// How often the kernel ran.
    pub runs: usize,
    /// The findings.
    pub findings: Vec<Finding>,
}

/// Something that is wrong with a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The property that was checked.
    pub what: &'static str,
    /// The arguments, with types for tensors.
    pub arguments: String,
    /// The expected result.
    pub expected: String,
    /// The actual result.
    pub got: String,
}

impl Report {
    /// Returns nothing. Fails if there are findings, which the error lists.
    pub fn ok(&self) -> Result<()> {
        if self.findings.is_empty() {
            return Ok(());
        }
        Err(err!(Check, "{self}"))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ({}): expected {}, got {}", self.what, self.arguments, self.expected, self.got)
    }
}

/// A line for each finding under a line that counts them.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (samples, runs, found) = (self.samples, self.runs, self.findings.len());
        write!(f, "{}: {samples} samples, {runs} runs, {found} findings", self.op)?;
        self.findings.iter().try_for_each(|finding| write!(f, "\n  {finding}"))
    }
}

/// Checks an operation on samples that its schema suggests.
///
/// Fails if no sample could be guessed. Findings about the row are in the report.
pub fn check(op: Op) -> Result<Report> {
    check_on(op, &samples(op)?)
}

/// Checks an operation on sample arguments.
///
/// Fails if a sample does not fit the schema. Findings about the row are in the report.
pub fn check_on(op: Op, samples: &[Sample]) -> Result<Report> {
    let mut check =
        Check { op, report: Report { op: op.name, samples: samples.len(), runs: 0, findings: Vec::new() } };
    if op.doc.trim().is_empty() {
        check.find("doc", &[], "what the operation computes", "nothing");
    }
    check.sources();
    for sample in samples {
        let args = op.bind(&sample.args, &sample.kwargs)?;
        if op.effects.host || op.effects.state {
            check.traced(&args, None);
        } else {
            check.sample(&args);
        }
    }
    Ok(check.report)
}

/// The dtypes that an operation takes for the tensors of a sample, by the names of the parameters that share
/// one dtype.
pub(crate) fn accepted_dtypes(op: Op, sample: &Sample) -> Result<Vec<(Vec<&'static str>, Vec<DType>)>> {
    let args = op.bind(&sample.args, &sample.kwargs)?;
    let mut groups = Vec::new();
    for from in dtypes(&args) {
        let has = |arg: &Value| call::arrays(std::slice::from_ref(arg)).iter().any(|x| x.dtype() == from);
        let names =
            op.params.iter().zip(&args).filter(|(_, arg)| has(arg)).map(|(param, _)| param.name).collect();
        let takes = |to: DType| -> Result<bool> {
            let args = call::cast(&args, from, to)?;
            let types = rule::types(&args)?;
            Ok(match op.infer(&types) {
                Ok(Some(_)) => true,
                Ok(None) => call::eval(op, &args).is_ok(),
                Err(_) => false,
            })
        };
        let mut taken = Vec::new();
        for to in DType::ALL.iter().copied() {
            if takes(to)? {
                taken.push(to);
            }
        }
        groups.push((names, taken));
    }
    Ok(groups)
}

/// Returns arguments in schema order that are like those of a sample and that the kernel takes: the sample's
/// own, then with other dtypes, then with other sizes, among them 0, 1 and a prime. Sub-graphs are for the dtypes
/// and sizes of the sample alone, so that there are no others with them.
///
/// Fails if the sample does not fit the schema.
pub fn variants(op: Op, sample: &Sample) -> Result<Vec<Vec<Value>>> {
    let args = op.bind(&sample.args, &sample.kwargs)?;
    if args.iter().any(|arg| matches!(arg, Arg::Graph(_))) {
        return Ok(vec![args]);
    }
    let mut all = vec![args.clone()];
    for from in dtypes(&args) {
        let others = DType::ALL.iter().copied().filter(|to| *to != from);
        all.extend(others.filter_map(|to| call::cast(&args, from, to).ok()));
    }
    for from in sizes(&args) {
        let others = OTHER_SIZES[..3].iter().copied().filter(|to| *to != from);
        all.extend(others.filter_map(|to| call::resized(&args, from, to).ok()));
    }
    all.retain(|args| call::eval(op, args).is_ok());
    Ok(all)
}

/// Returns the dtypes of the tensors, each once, in order.
fn dtypes(args: &[Value]) -> Vec<DType> {
    let mut found = Vec::new();
    for array in call::arrays(args) {
        if !found.contains(&array.dtype()) {
            found.push(array.dtype());
        }
    }
    found
}

/// Returns the sizes of the tensors but 1, each once, in order.
fn sizes(args: &[Value]) -> Vec<usize> {
    let mut found = Vec::new();
    for &size in call::arrays(args).iter().flat_map(|array| array.shape()) {
        if size > 1 && !found.contains(&size) {
            found.push(size);
        }
    }
    found
}

/// Sizes that are tried in place of those of a sample: none, one, and primes.
const OTHER_SIZES: [usize; 4] = [0, 1, 7, 13];
/// How many elements a tensor has at most when a sample is made large, so that several threads have work.
const LARGE: usize = 1 << 15;
/// How far another order of summation may change a result.
const SUMMED: f64 = 1e-5;
/// On how many threads an operation is run.
const THREADS: usize = 3;

struct Check {
    op: Op,
    report: Report,
}

impl Check {
    fn find(
        &mut self,
        what: &'static str,
        args: &[Value],
        expected: impl fmt::Display,
        got: impl fmt::Display,
    ) {
        let arguments = Sample::new(args.to_vec()).to_string();
        let finding = Finding { what, arguments, expected: expected.to_string(), got: got.to_string() };
        if !self.report.findings.contains(&finding) {
            self.report.findings.push(finding);
        }
    }

    fn eval(&mut self, args: &[Value]) -> Result<Value> {
        self.report.runs += 1;
        call::eval(self.op, args)
    }

    fn sample(&mut self, args: &[Value]) {
        let before: Vec<_> = call::arrays(args).iter().map(|array| array.to_le_bytes().ok()).collect();
        let value = match self.eval(args) {
            Ok(value) => value,
            Err(error) => return self.find("kernel", args, "a result", error.message()),
        };
        self.rule(args, &value);
        let after: Vec<_> = call::arrays(args).iter().map(|array| array.to_le_bytes().ok()).collect();
        if before != after {
            self.find("operands", args, "operands as they were", "other elements");
        }
        self.repeated(args, &value);
        self.layouts(args, &value);
        self.traced(args, Some(&value));
        self.other_dtypes(args);
        self.other_sizes(args);
        self.large(args);
    }

    /// The shape rule gives the type of a result, also on symbols.
    fn rule(&mut self, args: &[Value], value: &Value) {
        let outcome = rule::types(args).and_then(|types| {
            call::guarded(|| rule::check(&self.op, &types, value))?;
            rule::Naming::ALL
                .into_iter()
                .try_for_each(|naming| call::guarded(|| rule::check_symbolic(self.op, &types, value, naming)))
        });
        if let Err(error) = outcome {
            self.find("shape rule", args, rule::describe(value), error.message());
        }
        let op = self.op;
        if let Err(error) = call::guarded(|| windows::check(op, args, value)) {
            self.find("windows", args, "elements where the rule of the view says", error.message());
        }
    }

    /// Rule and kernel agree on arguments of which it is not known whether the operation takes them.
    fn agreed(&mut self, what: &'static str, args: &[Value]) {
        let (op, Ok(types)) = (self.op, rule::types(args)) else { return };
        let ruled = call::guarded(|| op.infer(&types));
        match (self.eval(args), ruled) {
            (Ok(value), Ok(_)) => self.rule(args, &value),
            (Ok(value), Err(error)) => {
                let got = format!("the rule's error: {}", error.message());
                self.find(what, args, rule::describe(&value), got);
            }
            (Err(error), ruled) if error.message().contains(call::PANICKED) => {
                self.find(what, args, if ruled.is_ok() { "a result" } else { "an error" }, error.message());
            }
            // What a rule cannot see is what elements and host numbers say.
            (Err(error), Ok(Some(_))) if !depends_on_values(error.kind()) => {
                self.find(
                    what,
                    args,
                    "an error of the rule too",
                    format!("the kernel's: {}", error.message()),
                );
            }
            (Err(_), Err(error)) if error.message().contains(call::PANICKED) => {
                self.find(what, args, "an error", error.message());
            }
            (Err(_), _) => {}
        }
    }

    fn repeated(&mut self, args: &[Value], value: &Value) {
        let op = self.op;
        match self.eval(args) {
            Ok(again) if call::same(value, &again) => {}
            Ok(_) => self.find("determinism", args, "the same bits in a second run", "others"),
            Err(error) => self.find("determinism", args, "the same in a second run", error.message()),
        }
        for pool in pools() {
            self.report.runs += 1;
            match pool.install(|| call::eval(op, args)) {
                Ok(again) if call::same(value, &again) => {}
                outcome => {
                    let n = pool.current_num_threads();
                    let got =
                        outcome.map_or_else(|error| error.message().to_owned(), |_| "others".to_owned());
                    self.find("determinism", args, format_args!("the same bits on {n} threads"), got);
                }
            }
        }
    }

    fn layouts(&mut self, args: &[Value], value: &Value) {
        for (name, layout) in call::LAYOUTS {
            if let Ok(args) = call::with_arrays(args, layout) {
                self.as_contiguous(name, &args, Ok(value.clone()));
            }
        }
        let Ok(expanded) = call::with_arrays(args, call::expanded) else { return };
        if let Ok(dense) = call::with_arrays(&expanded, crate::Array::contiguous) {
            let expected = self.eval(&dense);
            self.as_contiguous("expanded", &expanded, expected);
        }
    }

    /// Returns whether a result is that of contiguous operands: in bits, but for kernels that may sum in
    /// another order.
    fn as_good(&self, expected: &Value, got: &Value) -> bool {
        let close = |a: &Tensor, b: &Tensor| b.all_close(a, SUMMED, SUMMED).is_ok();
        match self.op.class {
            Class::Pointwise(_) | Class::View => call::same(expected, got),
            _ => expected.eq_by(got, &close),
        }
    }

    fn as_contiguous(&mut self, name: &str, args: &[Value], expected: Result<Value>) {
        let got = self.eval(args);
        let text = match (&expected, &got) {
            (Ok(expected), Ok(got)) if self.as_good(expected, got) => return,
            (Err(_), Err(error)) if !error.message().contains(call::PANICKED) => return,
            (_, Ok(got)) => short(got),
            (_, Err(error)) => error.message().to_owned(),
        };
        let expected = match expected {
            Ok(value) => short(&value),
            Err(error) => error.message().to_owned(),
        };
        self.find("layout", args, format_args!("{expected} for {name} operands too"), text);
    }

    /// A trace records the call; the node prints, parses, and gives the bits of the eager call.
    fn traced(&mut self, args: &[Value], value: Option<&Value>) {
        let op = self.op;
        let outcome = call::guarded(|| {
            let registry = match crate::registry().get(op.name) {
                Some(other) if other == op => crate::registry(),
                Some(_) => Registry::core().with(&[op])?,
                None => crate::registry().with(&[op])?,
            };
            let (gm, tensors) = call::traced(op, args)?;
            if !gm.graph().nodes().any(|(_, node)| node.target().to_string() == op.name) {
                return Err(err!(Check, "no node in\n{}", gm.graph()));
            }
            let text = gm.graph().to_text();
            let parsed = crate::Graph::parse(&text, &registry)?;
            if parsed != *gm.graph() {
                return Err(err!(Check, "another graph after printing and parsing:\n{text}"));
            }
            let Some(value) = value else { return Ok(()) };
            for gm in [gm, GraphModule::new("parsed", parsed)] {
                let generator = crate::Generator::seeded(call::SEED);
                let got = with_generator(&generator, || gm.evaluate(std::slice::from_ref(&tensors)))?;
                if !call::same(value, &got) {
                    return Err(err!(Check, "{} from\n{text}", short(&got)));
                }
            }
            Ok(())
        });
        if let Err(error) = outcome {
            self.find("trace", args, "a node that runs as the eager call", error);
        }
    }

    fn other_dtypes(&mut self, args: &[Value]) {
        for from in dtypes(args) {
            for to in DType::ALL.iter().copied().filter(|to| *to != from) {
                if let Ok(args) = call::cast(args, from, to) {
                    self.agreed("dtypes", &args);
                }
            }
        }
    }

    fn other_sizes(&mut self, args: &[Value]) {
        for from in sizes(args) {
            for to in OTHER_SIZES.into_iter().filter(|to| *to != from) {
                if let Ok(args) = call::resized(args, from, to) {
                    self.agreed("sizes", &args);
                }
            }
        }
        let scalars = call::with_arrays(args, |array| call::cycled(array, &[]));
        if let Ok(args) = scalars {
            self.agreed("rank 0", &args);
        }
    }

    /// Several threads have work, and the bits are still the same.
    fn large(&mut self, args: &[Value]) {
        for from in sizes(args) {
            let numel = call::arrays(args).iter().map(|array| array.numel()).max().unwrap_or(0);
            let repeated = |shape: &[usize]| shape.iter().filter(|n| **n == from).count();
            let power = call::arrays(args).iter().map(|array| repeated(array.shape())).max().unwrap_or(1);
            let factor = ((LARGE / numel.max(1)) as f64).powf(1.0 / power.max(1) as f64) as usize;
            let Ok(args) = call::resized(args, from, from * factor.max(2) + 1) else { continue };
            if self.result_numel(&args).is_none_or(|numel| numel > 4 * LARGE as i64) {
                continue;
            }
            if let Ok(value) = self.eval(&args) {
                self.repeated(&args, &value);
                return;
            }
        }
    }

    /// Returns how many elements the result will have, as far as the rule knows.
    fn result_numel(&self, args: &[Value]) -> Option<i64> {
        let ty = call::guarded(|| self.op.infer(&rule::types(args)?)).ok()?;
        let Some(ty) = ty else { return Some(0) };
        let numel = |leaf: &&Type| leaf.tensor().map_or(0, |ty| ty.shape.numel().known().unwrap_or(0));
        ty.leaves().iter().map(numel).max()
    }

    /// A pointwise row has a body as text for each dtype that it is computed in.
    fn sources(&mut self) {
        let Class::Pointwise(def) = self.op.class else { return };
        for dtype in def.dtypes().filter(|dtype| !matches!(dtype, DType::F16 | DType::BF16)) {
            if let Err(error) = fx_codegen::kernel::pointwise(self.op, dtype) {
                self.find("text kernel", &[], format_args!("a body for {dtype}"), error.message());
            }
        }
    }
}

fn short(value: &Value) -> String {
    let mut text = value.to_string().replace('\n', " ");
    if let Some((end, _)) = text.char_indices().nth(200) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Returns whether an error may be about elements, which shape rules do not see.
fn depends_on_values(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Index | ErrorKind::Check)
}

/// One thread, and several.
fn pools() -> &'static [ThreadPool] {
    static POOLS: OnceLock<Vec<ThreadPool>> = OnceLock::new();
    POOLS.get_or_init(|| {
        let pool = |n| ThreadPoolBuilder::new().num_threads(n).build().ok();
        [1, THREADS].into_iter().filter_map(pool).collect()
    })
}
