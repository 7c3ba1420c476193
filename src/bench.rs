//! Timing of programs: [`measure`] for anyone, and [`serve`], the worker of a benchmark beside other engines.

use std::env::consts::EXE_EXTENSION;
use std::fmt;
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::weights::Weights;
use crate::{
    Arg, Compile, CrateOptions, Engine, GraphModule, Native, Program, Result, Tensor, ToCrate, Value, bail,
    check, err, program,
};
use fx_codegen::native::Made;

/// The time of a program on an engine.
#[derive(Clone, Debug)]
pub struct Timing {
    /// The engine that ran; `Best` is resolved.
    pub engine: Engine,
    /// How long it took to make the program ready.
    pub compile: Duration,
    /// The first call.
    pub first: Duration,
    /// Nanoseconds a call, a number a sample, in order of size.
    pub samples: Vec<f64>,
}

impl Timing {
    /// Returns the median of the samples, in nanoseconds a call.
    pub fn median(&self) -> f64 {
        self.samples.get(self.samples.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = self.samples.first().copied().unwrap_or(f64::NAN);
        let (median, least) = (time(self.median()), time(least));
        write!(
            f,
            "{:8} {median:>10} a call, least {least}, compiled in {:.1?}",
            self.engine.name(),
            self.compile
        )
    }
}

/// Writes nanoseconds with a unit.
fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// The time of a program as a crate.
#[derive(Clone, Copy, Debug)]
pub struct CrateTiming {
    /// How long it took cargo to build it for release.
    pub build: Duration,
    /// The median of the calls, in nanoseconds.
    pub median: f64,
    /// The shortest call, in nanoseconds.
    pub least: f64,
}

impl fmt::Display for CrateTiming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (median, least) = (time(self.median), time(self.least));
        write!(f, "{:8} {median:>10} a call, least {least}, built in {:.1?}", "crate", self.build)
    }
}

/// Writes a program as a crate for these arguments, builds it with cargo, and measures calls of it for as long as
/// [`measure`] does, on as many threads as this process uses.
///
/// Fails if there is an operation without stand-alone code or no cargo, or if a call fails.
pub fn measure_crate(gm: &GraphModule, args: &[Value], samples: usize) -> Result<CrateTiming> {
    let dir = std::env::temp_dir().join(format!("fx-bench-crate-{}", std::process::id()));
    let timing = CrateTiming::measure(gm, args, samples, &dir);
    let _ = std::fs::remove_dir_all(&dir);
    timing
}

impl CrateTiming {
    fn measure(gm: &GraphModule, args: &[Value], samples: usize, dir: &Path) -> Result<CrateTiming> {
        gm.to_package(&CrateOptions::new().name("model").record(args))?.write(dir)?;
        let started = Instant::now();
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--release", "--offline", "--quiet"]).current_dir(dir);
        run(cargo.env("CARGO_TARGET_DIR", dir.join("target")))?;
        let build = started.elapsed();
        let call = |rounds: usize| -> Result<(f64, f64)> {
            let mut model = Command::new(dir.join("target/release/model").with_extension(EXE_EXTENSION));
            let (rounds, threads) = (rounds.saturating_add(1), rayon::current_num_threads());
            model.current_dir(dir).env("ROUNDS", rounds.to_string()).env("THREADS", threads.to_string());
            let text = run(&mut model)?;
            let measured = text.lines().find_map(|line| {
                let (median, least) = line.strip_prefix("0: median ")?.split_once(" us, least ")?;
                Some((median.parse().ok()?, least.strip_suffix(" us")?.parse().ok()?))
            });
            measured.ok_or_else(|| err!(Parse, "the crate did not say how long it takes"))
        };
        // A first run tells how many calls fill the samples.
        let (median, _) = call(3)?;
        let calls = samples.max(1) as f64 * SAMPLE.as_secs_f64() * 1e6 / median.max(1e-3);
        let (median, least) = call((calls as usize).clamp(samples.clamp(1, 1 << 20), 1 << 20))?;
        Ok(CrateTiming { build, median: median * 1e3, least: least * 1e3 })
    }
}

/// Runs a program to its end, and returns what it writes.
fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| err!(Io, "cannot run {name}: {error}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!(Io, "{name} failed, {}:\n{}", output.status, text.trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Sets the number of threads of all programs of this process; only the first call counts. Fails if it is not
/// the first call, or the threads cannot be started.
pub fn threads(n: usize) -> Result<()> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build_global();
    pool.map_err(|error| err!(Argument, "cannot use {n} threads: {error}"))
}

/// How long a program takes to be made ready for the native engine.
#[derive(Clone, Copy, Debug)]
pub struct Compiling {
    /// The work without a cache: tapes, functions, bytes of text, time in rustc.
    pub cold: Made,
    /// The work of a later start, with the cache.
    pub warm: Made,
    /// The time in all without a cache, passes and plan too, until the first result.
    pub first: Duration,
    /// The time in all with it.
    pub next: Duration,
}

impl fmt::Display for Compiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Compiling { cold, warm, first, next } = self;
        write!(
            f,
            "{} tapes, {} functions, {} bytes of Rust; rustc {:.2} s, loading {:.1} ms; ready in {:.2} s, then in {:.2} s",
            cold.bodies,
            cold.functions,
            cold.source,
            cold.compiling.as_secs_f64(),
            warm.loading.as_secs_f64() * 1e3,
            first.as_secs_f64(),
            next.as_secs_f64(),
        )
    }
}

/// Makes a program ready for the native engine twice, with a cache that is empty at first, and calls it.
/// Fails if there is no compiler, or the program fails.
pub fn compiling(gm: &GraphModule, args: &[Value]) -> Result<Compiling> {
    let dir = std::env::temp_dir().join(format!("fx-bench-{}", std::process::id()));
    let start = || -> Result<(Made, Duration)> {
        let native = Native::new().with_cache(&dir);
        let started = Instant::now();
        Program::native(gm, &native)?.evaluate(args)?;
        Ok((native.made(), started.elapsed()))
    };
    let both = start().and_then(|cold| Ok((cold, start()?)));
    let _ = std::fs::remove_dir_all(&dir);
    let ((cold, first), (warm, next)) = both?;
    Ok(Compiling { cold, warm, first, next })
}

/// The duration of a sample.
const SAMPLE: Duration = Duration::from_millis(8);

/// Measures a program on several engines in turns, so that other load on the machine affects all alike. Fails
/// if an engine cannot compile the program, or the program fails.
pub fn measure(gm: &GraphModule, args: &[Value], engines: &[Engine], samples: usize) -> Result<Vec<Timing>> {
    let mut programs = Vec::new();
    let mut timings = Vec::new();
    for &engine in engines {
        let started = Instant::now();
        let ready = gm.compile(engine)?;
        let compile = started.elapsed();
        let started = Instant::now();
        ready.evaluate(args)?;
        timings.push(Timing {
            engine: ready.engine(),
            compile,
            first: started.elapsed(),
            samples: Vec::new(),
        });
        programs.push(ready);
    }
    for _ in 0..samples.max(1) {
        for (ready, timing) in programs.iter().zip(&mut timings) {
            let mut call = || ready.evaluate(args).map(drop);
            repeat(&mut call, SAMPLE / 4)?;
            timing.samples.push(sample(&mut call, SAMPLE)?);
        }
    }
    for timing in &mut timings {
        timing.samples.sort_by(f64::total_cmp);
    }
    Ok(timings)
}

/// Calls for a while.
fn repeat(call: &mut dyn FnMut() -> Result<()>, duration: Duration) -> Result<()> {
    let started = Instant::now();
    loop {
        call()?;
        if started.elapsed() >= duration {
            return Ok(());
        }
    }
}

/// Returns the nanoseconds of a call, of as many calls as take about as long as wanted.
fn sample(call: &mut dyn FnMut() -> Result<()>, duration: Duration) -> Result<f64> {
    let mut n = 1u64;
    loop {
        let started = Instant::now();
        for _ in 0..n {
            call()?;
        }
        let spent = started.elapsed();
        if spent >= duration / 2 || n > 1 << 30 {
            return Ok(spent.as_nanos() as f64 / n as f64);
        }
        n = (n as f64 * (duration.as_secs_f64() / spent.as_secs_f64().max(1e-9)).min(64.0)).ceil() as u64;
    }
}

/// Answers the lines of a driver that measures several engines side by side:
///
/// | line | answer |
/// |---|---|
/// | `load CASE DIR` | `ok BUILD_MS FIRST_MS MAX_ABS_ERROR MAX_ABS_EXPECTED`, or `no REASON` |
/// | `time N NS WARM` | `t` and N times in ns per call, each of a batch of about NS ns, after calls for WARM ns |
/// | `rss` | `rss KIB`, the most memory that was resident |
/// | `quit` | the end |
///
/// The folder of a case holds `model.pt2` and `io.safetensors` with `in0`, …, `out0`, … Fails if input or
/// output does, or a line is malformed.
pub fn serve(input: impl BufRead, mut output: impl Write, engine: Engine) -> Result<()> {
    let io_error = |error: std::io::Error| err!(Io, "{error}");
    let mut loaded: Option<(crate::Program, Vec<Value>)> = None;
    for line in input.lines() {
        let line = line.map_err(io_error)?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match &words[..] {
            ["load", _, dir] => {
                loaded = None;
                match load(Path::new(dir), engine) {
                    Ok((program, args, text)) => {
                        loaded = Some((program, args));
                        text
                    }
                    Err(error) => format!("no {}", error.to_string().replace('\n', " ")),
                }
            }
            ["time", n, ns, warm] => match &loaded {
                Some((program, args)) => {
                    let number =
                        |text: &str| text.parse::<u64>().map_err(|_| err!(Parse, "{text:?} is no number"));
                    let mut call = || program.evaluate(args).map(drop);
                    repeat(&mut call, Duration::from_nanos(number(warm)?))?;
                    let mut text = "t".to_owned();
                    for _ in 0..number(n)? {
                        text += &format!(" {}", sample(&mut call, Duration::from_nanos(number(ns)?))?);
                    }
                    text
                }
                None => "no program is loaded".to_owned(),
            },
            ["rss"] => format!("rss {}", resident()),
            ["quit"] => return Ok(()),
            _ => format!("no such line {line:?}"),
        };
        writeln!(output, "{answer}").and_then(|()| output.flush()).map_err(io_error)?;
    }
    Ok(())
}

/// Returns the most memory of this process that was resident, in KiB; 0 where the system does not say.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn load(dir: &Path, engine: Engine) -> Result<(crate::Program, Vec<Value>, String)> {
    let gm = program::open(dir.join("model.pt2"), None)?;
    let io = Weights::open(dir.join("io.safetensors"))?;
    let mut n = 0;
    let mut args = Vec::new();
    for input in gm.graph().inputs() {
        args.push(input.tree.try_flat_map(&mut |_| {
            n += 1;
            Ok(Arg::Leaf(io.require(&format!("in{}", n - 1))?))
        })?);
    }
    let started = Instant::now();
    let ready = gm.into_program(engine)?;
    let build = started.elapsed();
    let started = Instant::now();
    let outputs = check::tensors(&ready.evaluate(&args)?);
    let first = started.elapsed();
    let (mut error, mut greatest) = (0f64, 0f64);
    for (i, output) in outputs.iter().enumerate() {
        let expected = io.require(&format!("out{i}"))?;
        if expected.shape()? != output.shape()? {
            bail!(Shape, "output {i} is {}, expected {}", output.ty()?, expected.ty()?);
        }
        let numbers = |tensor: &Tensor| tensor.array()?.cast(crate::DType::F64).to_vec::<f64>();
        for (got, expected) in numbers(output)?.into_iter().zip(numbers(&expected)?) {
            let off = (got - expected).abs();
            error = if off.is_nan() { f64::INFINITY } else { error.max(off) };
            greatest = greatest.max(expected.abs());
        }
    }
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let text = format!("ok {:.3} {:.3} {error:e} {greatest:e}", ms(build), ms(first));
    Ok((ready, args, text))
}
