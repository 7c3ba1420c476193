//! Every operation at a million elements, beside PyTorch where there is one.
//!
//! `FX_PYTHON=python cargo bench --bench ops -- FILTER...` runs the cases of `ops.cases` whose line contains
//! a filter, or all. Both sides take turns on the same shapes with the same number of threads
//! (`RAYON_NUM_THREADS`, 2 if it is not set); every call makes its result anew, and `FX_SAMPLES` samples (15)
//! are taken. `ratio` compares the fastest samples, `median` the median ones. The worst comes first.
//! `FX_TABLE=PATH` writes a Markdown table too.
#![allow(missing_docs, clippy::print_stdout)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use fx::{Arg, Array, Class, DType, Op, Tensor, Value};
use serde_json::{Value as Json, json};

const CASES: &str = include_str!("ops.cases");
/// How long one sample takes at least.
const SAMPLE: Duration = Duration::from_millis(2);
/// How long a side works before its samples of a turn: its threads are awake then, and those of the other
/// side, which OpenMP keeps spinning for milliseconds, sleep.
const WARM: Duration = Duration::from_millis(20);
/// The samples that a side takes in a turn.
const TURN: usize = 5;

struct Case {
    op: Op,
    args: Vec<Json>,
    kwargs: Json,
    torch: String,
    limit: f64,
    text: String,
}

fn cases() -> Vec<Case> {
    let registry = fx::registry();
    let mut limit = f64::INFINITY;
    let mut cases = Vec::new();
    for line in CASES.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(number) = line.strip_prefix("limit ") {
            limit = number.parse().expect("a limit is a number");
            continue;
        }
        let mut parts = line.splitn(3, '|').map(str::trim);
        let rows = parts.next().expect("a line has a first part");
        let text = parts.next().unwrap_or_else(|| panic!("no arguments in {line:?}"));
        let torch = parts.next().unwrap_or("");
        for row in rows.split_whitespace() {
            let Some(op) = registry.get(row) else {
                eprintln!("no operation called {row}");
                continue;
            };
            let full = text.replace("[N", "[1000000").replace("[K", "[1000").replace(",K", ",1000");
            let mut args: Vec<Json> = serde_json::from_str(&full).unwrap_or_else(|e| panic!("{line:?}: {e}"));
            let kwargs = args.pop_if(|last| last.is_object()).unwrap_or(json!({}));
            let torch = if torch.starts_with('{') { format!("{torch}[{row:?}]") } else { torch.to_owned() };
            cases.push(Case {
                op,
                args,
                kwargs,
                torch,
                limit,
                text: format!("{row} {}", &text[1..text.len() - 1]),
            });
        }
    }
    cases
}

fn dtype(name: &str) -> Option<DType> {
    DType::ALL.iter().copied().find(|dtype| dtype.name() == name)
}

/// Reads an argument; `random` gives numbers from 0 to 1.
fn value(arg: &Json, random: &mut impl FnMut() -> f64) -> Value {
    match arg {
        Json::Null => Arg::None,
        Json::Bool(x) => Arg::Bool(*x),
        Json::Number(x) => x.as_i64().map_or_else(|| Arg::Float(x.as_f64().expect("a number")), Arg::Int),
        Json::Array(items) => Arg::list(items.iter().map(|item| value(item, random)).collect::<Vec<_>>()),
        Json::String(text) => match (dtype(text), text.split_once('[')) {
            (Some(dtype), _) => Arg::DType(dtype),
            (None, Some((name, spec))) => tensor(dtype(name).expect("a dtype"), spec, random),
            (None, None) => Arg::str(text.as_str()),
        },
        Json::Object(_) => panic!("an object is not an argument"),
    }
}

fn tensor(dtype: DType, spec: &str, random: &mut impl FnMut() -> f64) -> Value {
    let (shape, rest) = spec.split_once(']').expect("a shape ends in ]");
    let mut shape: Vec<usize> =
        shape.split(',').filter(|size| !size.is_empty()).map(|size| size.parse().expect("a size")).collect();
    let (transposed, how) = match rest.strip_prefix(".T") {
        Some(rest) => (true, rest.trim()),
        None => (false, rest.trim()),
    };
    let rank = shape.len();
    if transposed {
        shape.swap(rank - 1, rank - 2);
    }
    let n: usize = shape.iter().product();
    let (low, high) = match how.split_once("..") {
        Some((low, high)) => (low.parse().expect("a number"), high.parse().expect("a number")),
        None if dtype.is_float() => (-2.0, 2.0),
        None if dtype == DType::Bool => (0.0, 2.0),
        None => (0.0, 100.0),
    };
    let mut data: Vec<f64> = (0..n).map(|_| low + (high - low) * random()).collect();
    if !dtype.is_float() {
        data.iter_mut().for_each(|x| *x = x.floor());
    }
    match how {
        "spd" => {
            let side = shape[rank - 1];
            for matrix in data.chunks_mut(side * side) {
                for i in 0..side {
                    for j in 0..i {
                        matrix[i * side + j] = matrix[j * side + i];
                    }
                    matrix[i * side + i] += 4.0 * side as f64;
                }
            }
        }
        "sorted" => data.sort_by(f64::total_cmp),
        "perm" => {
            data.iter_mut().enumerate().for_each(|(i, x)| *x = i as f64);
            (1..n).rev().for_each(|i| data.swap(i, (random() * (i + 1) as f64) as usize));
        }
        _ => {}
    }
    let mut array = Array::from_vec(data, &shape).expect("as many elements as the shape has").cast(dtype);
    if transposed {
        array = array.transpose(rank - 1, rank - 2).expect("the axes exist");
    }
    Arg::Leaf(Tensor::new(array))
}

/// PyTorch in a process of its own.
struct Torch {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Torch {
    fn start(threads: usize) -> Option<Torch> {
        let python = std::env::var_os("FX_PYTHON")?;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/bench_ops.py");
        let mut child = Command::new(python)
            .arg(script)
            .env("OMP_NUM_THREADS", threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("FX_PYTHON is a Python that starts");
        let to = child.stdin.take().expect("it was asked for");
        let from = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut torch = Torch { child, to, from };
        torch.ask(&format!("threads {threads}"));
        Some(torch)
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.to, "{line}").expect("the worker reads");
        let mut answer = String::new();
        self.from.read_line(&mut answer).expect("the worker answers");
        answer.trim().to_owned()
    }

    fn run(&mut self, n: usize) -> Duration {
        Duration::from_nanos(self.ask(&format!("run {n}")).parse().expect("the worker answers with a number"))
    }
}

/// The name of the processor, where the system tells.
fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    line.map_or("an unknown processor", |(_, name)| name.trim()).to_owned()
}

/// How many samples are taken of each side: `FX_SAMPLES`, or 15.
fn samples() -> usize {
    std::env::var("FX_SAMPLES").ok().and_then(|n| n.parse().ok()).unwrap_or(15)
}

/// How many calls take about `time`, when one takes `once`.
fn calls(time: Duration, once: Duration) -> usize {
    (time.as_secs_f64() / once.as_secs_f64().max(1e-9)).ceil().clamp(1.0, 1e4) as usize
}

/// Median and least time of a call in microseconds.
#[derive(Clone, Copy)]
struct Times(f64, f64);

impl Times {
    fn of(mut samples: Vec<f64>) -> Times {
        samples.sort_by(f64::total_cmp);
        Times(samples[samples.len() / 2] * 1e6, samples[0] * 1e6)
    }
}

fn measure(case: &Case, torch: Option<&mut Torch>) -> Result<(Times, Option<Times>), String> {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let args: Vec<Value> = case.args.iter().map(|arg| value(arg, &mut random)).collect();
    let kwargs: Vec<(String, Value)> = case
        .kwargs
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, arg)| (key.clone(), value(arg, &mut random)))
        .collect();
    let bound = case.op.bind(&args, &kwargs).map_err(|error| error.message().to_owned())?;
    let run = |n: usize| {
        let start = Instant::now();
        for _ in 0..n {
            std::hint::black_box((case.op.eval)(&bound)).map_err(|error| error.message().to_owned())?;
        }
        Ok::<_, String>(start.elapsed())
    };
    let mut once = run(1)?;
    once = once.min(run(calls(WARM, once).min(3))?);
    let (n, warm) = (calls(SAMPLE, once), calls(WARM, once));

    let mut torch = match torch {
        Some(torch) => {
            let line =
                json!({"row": case.op.name, "torch": case.torch, "args": case.args, "kwargs": case.kwargs});
            match torch.ask(&format!("case {line}")).strip_prefix("error ") {
                Some(error) => return Err(format!("PyTorch: {error}")),
                None => {
                    let once = torch.run(1).min(torch.run(2));
                    Some((calls(SAMPLE, once), calls(WARM, once), torch))
                }
            }
        }
        None => None,
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..samples().div_ceil(TURN) {
        run(warm)?;
        for _ in 0..TURN {
            ours.push(run(n)?.as_secs_f64() / n as f64);
        }
        if let Some((n, warm, torch)) = &mut torch {
            torch.run(*warm);
            for _ in 0..TURN {
                theirs.push(torch.run(*n).as_secs_f64() / *n as f64);
            }
        }
    }
    Ok((Times::of(ours), torch.map(|_| Times::of(theirs))))
}

fn main() {
    let filters: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let threads = std::env::var("RAYON_NUM_THREADS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().expect("the pool is not yet made");
    let cases = cases();
    let mut torch = Torch::start(threads);
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for case in &cases {
        if !filters.is_empty() && !filters.iter().any(|filter| case.text.contains(filter.as_str())) {
            continue;
        }
        match measure(case, torch.as_mut()) {
            Ok((ours, theirs)) => rows.push((case, ours, theirs)),
            Err(error) => failed.push(format!("{}: {error}", case.text)),
        }
    }
    let ratio = |ours: Times, theirs: Option<Times>| theirs.map_or(f64::NAN, |theirs| ours.1 / theirs.1);
    let over = |(case, ours, theirs): &&(&Case, Times, Option<Times>)| ratio(*ours, *theirs) > case.limit;
    rows.sort_by(|a, b| ratio(b.1, b.2).total_cmp(&ratio(a.1, a.2)));
    println!("{:>11} {:>11} {:>7} {:>7} {:>5}  case", "fx us", "torch us", "ratio", "median", "limit");
    for (case, ours, theirs) in &rows {
        println!(
            "{:11.2} {:11.2} {:7.2} {:7.2} {:5}  {}",
            ours.1,
            theirs.map_or(f64::NAN, |theirs| theirs.1),
            ratio(*ours, *theirs),
            theirs.map_or(f64::NAN, |theirs| ours.0 / theirs.0),
            case.limit,
            case.text
        );
    }
    let measured: BTreeSet<&str> = cases.iter().map(|case| case.op.name).collect();
    let registry = fx::registry();
    let without: Vec<&str> = registry
        .iter()
        .filter(|op| !matches!(op.class, Class::Control) && !op.effects.host && !op.effects.state)
        .map(|op| op.name)
        .filter(|name| !measured.contains(name))
        .collect();
    println!("not measured: {}", if without.is_empty() { "none".to_owned() } else { without.join(" ") });
    if !failed.is_empty() {
        println!("failed:\n  {}", failed.join("\n  "));
    }
    let n_over = rows.iter().filter(over).count();
    println!("{} within their limits, {n_over} over, {threads} threads", rows.len() - n_over);
    if let (Some(path), Some(torch)) = (std::env::var_os("FX_TABLE"), torch.as_mut()) {
        let mut text = format!(
            "# Operations beside PyTorch\n\n\
             Generated by `FX_TABLE=BENCH_OPS.md FX_PYTHON=python cargo bench --bench ops`; do not edit.\n\n\
             fx {}, PyTorch {} in eager mode, {threads} threads each, {}, {}-{}. Times are those of the fastest of {} samples in\n\
             microseconds; both sides took turns on the same shapes, and every call made its result anew. A ratio above 1 means that\n\
             PyTorch is faster. The notation of the cases is explained in `benches/ops.cases`.\n\n\
             {} cases within their limits, {n_over} over. Operations without a case: {}.\n\n\
             | operation | fx | PyTorch | ratio | limit |\n|---|---:|---:|---:|---:|\n",
            env!("CARGO_PKG_VERSION"),
            torch.ask("version"),
            processor(),
            std::env::consts::ARCH,
            std::env::consts::OS,
            samples(),
            rows.len() - n_over,
            if without.is_empty() { "none".to_owned() } else { without.join(", ") },
        );
        for (case, ours, theirs) in rows.iter().filter(|row| row.2.is_some()) {
            let theirs = theirs.map_or(f64::NAN, |theirs| theirs.1);
            let (name, rest) = case.text.split_once(' ').unwrap_or((&case.text, ""));
            let ratio = ours.1 / theirs;
            let bold = if ratio > case.limit { "**" } else { "" };
            text += &format!(
                "| {name} `{rest}` | {:.1} | {theirs:.1} | {bold}{ratio:.2}{bold} | {} |\n",
                ours.1, case.limit
            );
        }
        std::fs::write(path, text).expect("the table can be written");
    }
    if let Some(mut torch) = torch {
        drop(torch.to);
        torch.child.wait().expect("the worker ends");
    }
}
