//! Random functions: the script, eagerly and as a graph, computes what the same text does in plain Rust.

use std::fmt::Write;
use std::process::Command;

/// How many functions a program has.
const N_FUNCTIONS: usize = 40;

/// How many functions of a program become crates.
const N_CRATES: usize = 4;

/// How many functions the test makes; `FX_SCRIPTED=10000` asks for more.
fn functions() -> usize {
    std::env::var("FX_SCRIPTED").map_or(N_FUNCTIONS, |text| text.parse().expect("FX_SCRIPTED is a number"))
}

/// A script and the same function in plain Rust differ in the pieces between these marks: a condition on a
/// tensor, the rows of the argument, and its positions.
const MARKS: [(&str, &str, &str); 4] = [
    ("[[", "", "truth(&"),
    ("]]", "", ")"),
    ("@rows", "x", "rows(x)"),
    ("@sizes", "0..x.dim(0)", "sizes(x)"),
];

const PROGRAM: &str = r#"
use fx::prelude::*;

type Function = fn(&Tensor, bool) -> (Tensor, Tensor);

fn truth(x: &Tensor) -> bool {
    x.to_bool().unwrap()
}

fn sizes(x: &Tensor) -> Vec<Tensor> {
    (0..x.dim(0).known().unwrap()).map(Tensor::new).collect()
}

fn rows(x: &Tensor) -> Vec<Tensor> {
    sizes(x).iter().map(|i| x.i(i)).collect()
}

fn check(what: &str, found: (Tensor, Tensor), expected: &(Tensor, Tensor)) {
    for (found, expected) in [(found.0, &expected.0), (found.1, &expected.1)] {
        found.all_close(expected, 1e-4, 1e-4).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
}

/// Writes the graphs of the first functions as crates to a folder, and a program that compares what they return
/// with what the functions do.
fn write_crates(dir: &std::path::Path, n: usize) {
    use std::fmt::Write;
    let (mut program, mut calls) = (String::new(), String::new());
    for (i, (script, plain)) in FUNCTIONS.iter().enumerate().take(n) {
        let flag = i % 2 == 0;
        let gm = fx::trace(move |x: &Tensor| script(x, flag)).input("x", "f32[n]").build().unwrap();
        let folder = dir.join(format!("crate_{i}"));
        let package = match gm.to_package(&fx::CrateOptions::new()) {
            Ok(package) => package,
            Err(error) => {
                println!("script_{i}, {flag}: {error}");
                continue;
            }
        };
        package.write(&folder).unwrap();
        std::fs::write(folder.join("single.rs"), package.single_file()).unwrap();
        writeln!(program, "mod crate_{i} {{ include!({:?}); }}", folder.join("single.rs")).unwrap();
        let file = folder.join("model.safetensors");
        writeln!(calls, "    let mut model = crate_{i}::Model::load({file:?}).unwrap();").unwrap();
        for (n, shift) in [(5, 1), (1, 0), (2, 3)] {
            let element = |j| ((j * 7 + shift * 13 + i * 3) % 11) as f32 * 0.6 - 3.0;
            let x: Vec<f32> = (0..n).map(element).collect();
            let (a, y) = plain(&Tensor::from_vec(x.clone(), &[n]), flag);
            let [a, y] = [a, y].map(|y| y.to_vec::<f32>().unwrap());
            writeln!(calls, "    let out = model.forward(crate_{i}::Tensor::new([{n}], &{x:?})).unwrap();").unwrap();
            writeln!(calls, "    check({i}, {n}, out.output_0.data, &{a:?});").unwrap();
            writeln!(calls, "    check({i}, {n}, out.output_1.data, &{y:?});").unwrap();
        }
    }
    write!(
        program,
        "const NaN: f32 = f32::NAN;\nconst inf: f32 = f32::INFINITY;\n
fn check(i: usize, n: usize, found: &[f32], expected: &[f32]) {{
    let near = |(x, y): (&f32, &f32)| x == y || (x - y).abs() <= 1e-4 + 1e-4 * y.abs() || x.is_nan() && y.is_nan();
    assert!(found.len() == expected.len() && found.iter().zip(expected).all(near), \"crate {{i}}, {{n}}: {{found:?}}, expected {{expected:?}}\");
}}
fn main() {{
{calls}}}
"
    )
    .unwrap();
    std::fs::write(dir.join("crates.rs"), program).unwrap();
}

fn main() {
    if let [_, dir, n] = &std::env::args().collect::<Vec<_>>()[..] {
        return write_crates(dir.as_ref(), n.parse().unwrap());
    }
    for (i, (script, plain)) in FUNCTIONS.iter().enumerate() {
        for flag in [false, true] {
            let gm = fx::trace(move |x: &Tensor| script(x, flag)).input("x", "f32[n]").build();
            let gm = gm.unwrap_or_else(|error| panic!("script_{i}, {flag}: {error}"));
            assert!(gm.lint().is_empty(), "script_{i}, {flag}: {:?}", gm.lint());
            let engine = gm.compile([fx::Engine::Fused, fx::Engine::Eager][i % 2]).unwrap();
            let passes = fx::pass::all();
            let pass = &passes[(i + usize::from(flag) * 7) % passes.len()];
            let mut passed = gm.clone();
            if pass.exact && !pass.retypes && !pass.resigns && pass.name != "outline" {
                pass.apply(&mut passed).unwrap_or_else(|error| panic!("script_{i}, {}: {error}", pass.name));
            }
            for (n, shift) in [(1, 0), (1, 5), (2, 3), (5, 1), (5, 7)] {
                let element = |j| ((j * 7 + shift * 13 + i * 3) % 11) as f32 * 0.6 - 3.0;
                let x = Tensor::from_vec((0..n).map(element).collect(), &[n]);
                let expected = plain(&x, flag);
                check(&format!("script_{i}, {flag}, {n}, {shift}, eagerly"), script(&x, flag), &expected);
                let found = gm.run((x.clone(),)).unwrap();
                check(&format!("script_{i}, {flag}, {n}, {shift}, as a graph"), found, &expected);
                let found = engine.run((x.clone(),)).unwrap();
                check(&format!("script_{i}, {flag}, {n}, {shift}, on {:?}", engine.engine()), found, &expected);
                let found = passed.run((x,)).unwrap();
                check(&format!("script_{i}, {flag}, {n}, {shift}, after {}", pass.name), found, &expected);
            }
        }
    }
}
"#;

/// Writes functions with the variables `a` and `b`, of one element, and `y`, like the argument `x`.
struct Writer {
    state: u64,
    n_names: usize,
    text: String,
    /// The labels of the loops around the next statement.
    loops: Vec<String>,
    /// The rows in scope.
    rows: Vec<String>,
}

impl Writer {
    fn below(&mut self, n: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % n
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn number(&mut self) -> String {
        format!("{:.1}", self.below(41) as f64 / 10.0 - 2.0)
    }

    fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        let i = self.below(items.len() as u64) as usize;
        items[i]
    }

    fn name(&mut self, kind: &str) -> String {
        self.n_names += 1;
        format!("{kind}{}", self.n_names)
    }

    fn condition(&mut self, is_nested: bool) -> String {
        match self.below(100) {
            0..25 if !is_nested => {
                let (first, second) = (self.condition(true), self.condition(true));
                let (not, both) = (self.pick(&["", "!"]), self.pick(&["&&", "||"]));
                format!("{not}({first} {both} {second})")
            }
            25..35 => "flag".into(),
            _ => {
                let tensor = self.pick(&["a", "b", "y.sum((), false)"]);
                let (comparison, number) = (self.pick(&["gt", "lt"]), self.number());
                format!("[[{tensor}.{comparison}({number})]]")
            }
        }
    }

    fn element(&mut self) -> String {
        let (n, c) = (self.rows.len() as u64, self.number());
        match self.below(5 + n) {
            0 => format!("(&a * {c} + &b).tanh() * 3.0"),
            1 => format!("(&b - {c}).tanh() * 2.0"),
            2 => "y.mean((), false)".into(),
            3 => "&a - &b * 0.5".into(),
            4 => format!("(&a + {c}).tanh()"),
            i => format!("&{} * 0.5 + {c}", self.rows[i as usize - 5]),
        }
    }

    fn block(&mut self, depth: u64, most: u64) {
        let n_rows = self.rows.len();
        for _ in 0..=self.below(most) {
            self.statement(depth);
        }
        self.rows.truncate(n_rows);
    }

    fn exit(&mut self) {
        let n = self.loops.len() as u64;
        if n == 0 || self.chance(25) {
            self.text.push_str("return (a.clone(), &y * 2.0);\n");
        } else {
            let i = self.below(n) as usize;
            let label = self.loops[i].clone();
            let exit = self.pick(&["break", "continue"]);
            writeln!(self.text, "{exit} {label};").unwrap();
        }
    }

    fn statement(&mut self, depth: u64) {
        let kind = if depth == 0 { 0 } else { self.below(100) };
        match kind {
            0..30 => {
                let value = self.element();
                let variable = self.pick(&["a", "b"]);
                writeln!(self.text, "{variable} = {value};").unwrap();
            }
            30..36 => {
                let value = self.pick(&["(&y + &a).tanh() * 2.0", "&y * 0.5", "y.relu() - &b"]);
                writeln!(self.text, "y = {value};").unwrap();
            }
            36..60 => {
                let condition = self.condition(false);
                writeln!(self.text, "if {condition} {{").unwrap();
                self.block(depth - 1, 2);
                if self.chance(35) {
                    self.exit();
                }
                if self.chance(50) {
                    self.text.push_str("} else {\n");
                    self.block(depth - 1, 2);
                    if self.chance(20) {
                        self.exit();
                    }
                }
                self.text.push_str("}\n");
            }
            60..66 => {
                let (condition, then, otherwise) = (self.condition(false), self.element(), self.element());
                writeln!(self.text, "a = &a + if {condition} {{ {then} }} else {{ {otherwise} }};").unwrap();
            }
            _ => self.repeat(kind, depth),
        }
    }

    fn repeat(&mut self, kind: u64, depth: u64) {
        let (label, counter) = (self.name("'l"), self.name("k"));
        let head = match kind {
            66..76 => {
                let condition = self.condition(false);
                writeln!(self.text, "let mut {counter} = Tensor::new(0i64);").unwrap();
                format!("while [[{counter}.lt(4i64)]] && {condition} {{\n{counter} = &{counter} + 1;")
            }
            76..84 => {
                writeln!(self.text, "let mut {counter} = Tensor::new(0i64);").unwrap();
                format!("loop {{\n{counter} = &{counter} + 1;\nif [[{counter}.gt(3i64)]] {{ break; }}")
            }
            84..90 => {
                let row = self.name("row");
                self.rows.push(row.clone());
                format!("for {row} in @rows {{")
            }
            90..95 => format!("for {counter} in @sizes {{\nb = (&b + x.i(&{counter})).tanh();"),
            _ => format!("for {counter} in 0..3 {{\na = &a + {counter} as f32;"),
        };
        writeln!(self.text, "{label}: {head}").unwrap();
        self.loops.push(label);
        self.block(depth - 1, 2);
        self.loops.pop();
        if (84..90).contains(&kind) {
            self.rows.pop();
        }
        self.text.push_str("}\n");
    }
}

/// Returns a program that compares `n` functions in both forms.
fn program(seed: u64, n: usize) -> String {
    let mut program = format!("#![allow(unused, unreachable_code)]\n{PROGRAM}");
    for i in 0..n {
        let state = (seed + i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut writer =
            Writer { state, n_names: 0, text: String::new(), loops: Vec::new(), rows: Vec::new() };
        writer.block(4, 4);
        for (form, attribute) in [("script", "#[fx::script]\n"), ("plain", "")] {
            let mut body = writer.text.clone();
            for (mark, script, plain) in MARKS {
                body = body.replace(mark, if form == "script" { script } else { plain });
            }
            write!(
                program,
                "{attribute}fn {form}_{i}(x: &Tensor, flag: bool) -> (Tensor, Tensor) {{
let (mut a, mut b, mut y) = (Tensor::new(0.5f32), x.mean((), false), x * 0.5);
{body}(a + b, y)
}}
"
            )
            .unwrap();
        }
    }
    let pairs: Vec<String> = (0..n).map(|i| format!("(script_{i}, plain_{i})")).collect();
    writeln!(program, "const FUNCTIONS: [(Function, Function); {n}] = [{}];", pairs.join(", ")).unwrap();
    program
}

#[test]
fn scripts_compute_what_plain_rust_does() {
    let seed: u64 = std::env::var("FX_SCRIPT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let folder = std::env::temp_dir().join(format!("fx-scripted-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, binary) = (folder.join("random.rs"), folder.join("random"));
    for first in (0..functions()).step_by(N_FUNCTIONS) {
        let seed = seed + first as u64;
        std::fs::write(&source, program(seed, N_FUNCTIONS)).unwrap();
        let compiled = crate::rustc::rustc().arg(&source).arg("-o").arg(&binary).output().unwrap();
        assert!(compiled.status.success(), "seed {seed}: {}", String::from_utf8_lossy(&compiled.stderr));
        let ran = Command::new(&binary).output().unwrap();
        assert!(ran.status.success(), "seed {seed}: {}", String::from_utf8_lossy(&ran.stderr));

        // The same functions as crates.
        let crates = folder.join("crates");
        let written = Command::new(&binary).arg(&crates).arg(N_CRATES.to_string()).output().unwrap();
        assert!(written.status.success(), "seed {seed}: {}", String::from_utf8_lossy(&written.stderr));
        assert!(written.stdout.is_empty(), "seed {seed}: {}", String::from_utf8_lossy(&written.stdout));
        crate::rustc::run_alone(&crates.join("crates.rs"), &[]);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
