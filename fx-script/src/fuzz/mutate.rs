//! Damaged texts and archives: none may panic, run for ever or need much memory.

use fx_core::testing::Rng;
use fx_core::{ErrorKind, Result};

use super::{Case, MODULE};
use crate::archive::{Archive, MemoryMembers};
use crate::ir;
use crate::load::{Program, Session};
use crate::vm::{Environment, Executable, Limits, Machine, NoOperators, Operators};

/// What a call of a damaged program may use up.
const LIMITS: Limits = Limits { steps: 200_000, memory: 64 << 20, depth: 64, output: 1 << 20 };

/// Text that parsers stumble over.
const HOSTILE: &[&str] = &[
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ":",
    ",",
    ".",
    "\"",
    "'",
    "\\",
    "\n",
    "\t",
    "    ",
    "\0",
    "\u{feff}",
    "é",
    "🙂",
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999999",
    "1e999",
    "0x",
    "1_000",
    "not ",
    "lambda x: x",
    "if True:\n",
    "while True:\n",
    "return ",
    "None",
    "self",
    "CONSTANTS.c99999999",
    "List[List[List[int]]]",
    "torch.zeros([1000000, 1000000])",
    "[0] * 1000000000",
    "\"a\" * 1000000000",
    "range(9223372036854775807)",
    "f\"{x}\"",
    "f\"{{{\"",
    "$",
    "%0",
    "constant",
    "yield",
    "loop(",
];

/// Returns damaged bytes: cut, flipped, repeated, nested, or with parts of `donor`. Their size stays within
/// a megabyte more.
pub fn bytes(rng: &mut Rng, original: &[u8], donor: &[u8]) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..1 + rng.below(3) {
        let at = rng.below(bytes.len() + 1);
        let end = at + rng.below((bytes.len() - at).min(64) + 1);
        match rng.below(12) {
            0 => bytes.truncate(at),
            1 | 2 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            3 if at < bytes.len() => bytes[at] = rng.pick(&[0, 1, 0x7f, 0x80, 0xff, b'.', b'(', b'\n']),
            4 => drop(bytes.drain(at..end)),
            5 => {
                let piece = bytes[at..end].to_vec();
                let times = rng.pick(&[1, 2, 100, 1000]);
                bytes.splice(at..at, piece.repeat(times));
            }
            6 => {
                let from = rng.below(donor.len() + 1);
                let to = from + rng.below((donor.len() - from).min(200) + 1);
                bytes.splice(at..end, donor[from..to].iter().copied());
            }
            7 => {
                let word = rng.pick(&["(", "[", "{", "-", "not ", "((", "x[", "f(", "a if b else "]);
                let times = rng.pick(&[10, 300, 100_000]);
                bytes.splice(at..at, word.repeat(times).into_bytes());
            }
            8 => {
                // A number of four or eight bytes that lies.
                let number = rng.pick(&[u64::MAX, 1 << 63, 1 << 31, 1 << 40, 0xffff_ffff, 0]);
                let width = rng.pick(&[4, 8]);
                let end = (at + width).min(bytes.len());
                bytes.splice(at..end, number.to_le_bytes()[..width].iter().copied());
            }
            9 => {
                let from = rng.below(bytes.len() + 1);
                let to = from + rng.below((bytes.len() - from).min(64) + 1);
                let piece = bytes[from..to].to_vec();
                bytes.splice(at..end, piece);
            }
            _ => {
                let word = rng.pick(HOSTILE);
                bytes.splice(at..end, word.bytes());
            }
        }
    }
    bytes
}

/// Damages a line of a text: deletes it, doubles it, indents it, or brings one of another text.
fn lines(rng: &mut Rng, original: &str, donor: &str) -> String {
    let mut lines: Vec<&str> = original.lines().collect();
    let others: Vec<&str> = donor.lines().collect();
    let indented: String;
    let at = rng.below(lines.len().max(1));
    if lines.is_empty() || others.is_empty() {
        return original.to_owned();
    }
    match rng.below(4) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[rng.below(lines.len())]),
        2 => {
            indented = format!("{}{}", " ".repeat(rng.below(12)), lines[at].trim_start());
            lines[at] = &indented;
        }
        _ => lines.insert(at, others[rng.below(others.len())]),
    }
    lines.join("\n") + "\n"
}

/// Returns a damaged text.
pub fn text(rng: &mut Rng, original: &str, donor: &str) -> String {
    let mut text = original.to_owned();
    for _ in 0..rng.below(3) {
        text = lines(rng, &text, donor);
    }
    if rng.one_in(3) {
        return text;
    }
    String::from_utf8_lossy(&bytes(rng, text.as_bytes(), donor.as_bytes())).into_owned()
}

/// Compiles a text and runs its function `run`, within narrow limits. Fails as these do; only a panic is wrong.
pub fn run_text(text: &str) -> Result<()> {
    let (program, environment) = Case::compile(text)?;
    run_program(&program, &environment)
}

/// Reads an intermediate representation and runs its function `run`. Fails as these do; only a panic is wrong.
pub fn run_ir(text: &str) -> Result<()> {
    run_program(&ir::parse(text)?, &Environment::default())
}

fn run_program(program: &ir::Program, environment: &Environment) -> Result<()> {
    let executable = Executable::new(program, environment, &NoOperators)?;
    Machine::new(&executable, LIMITS).call(&format!("{MODULE}.run"), Vec::new()).map(|_| ())
}

/// Returns members of which one is damaged, by itself or with parts of the same member of `donor`.
pub fn members(rng: &mut Rng, original: &MemoryMembers, donor: &MemoryMembers) -> MemoryMembers {
    let mut members = original.clone();
    let names: Vec<String> = members.0.keys().cloned().collect();
    // Tensors are many bytes and little structure.
    let plain: Vec<String> = names.iter().filter(|name| !name.contains("/data/")).cloned().collect();
    let name = if plain.is_empty() || rng.one_in(10) { rng.pick(&names) } else { rng.pick(&plain) };
    let donors: Vec<&Vec<u8>> = donor.0.values().collect();
    let other = rng.pick(&donors);
    match rng.below(24) {
        0 => drop(members.0.remove(&name)),
        1 => drop(members.0.insert(name, other.clone())),
        _ => {
            let member = members.0.get_mut(&name).expect("the name is of a member");
            *member = match std::str::from_utf8(member) {
                Ok(code) if name.ends_with(".py") && rng.one_in(2) => {
                    text(rng, code, &String::from_utf8_lossy(other)).into_bytes()
                }
                _ => bytes(rng, member, other),
            };
        }
    }
    members
}

/// Reads a program from members, compiles it and calls its method `forward` without arguments. Fails as these do;
/// only a panic is wrong.
pub fn run_members(members: MemoryMembers, operators: &dyn Operators) -> Result<()> {
    let program = Program::load(&Archive::open(members)?)?;
    run_loaded(program, operators)
}

/// Compiles a loaded program and calls its method `forward` without arguments. Fails as these do; only a panic is
/// wrong.
pub fn run_loaded(program: Program, operators: &dyn Operators) -> Result<()> {
    let mut session = Session::with_limits(program, operators, LIMITS)?;
    match session.call("forward", Vec::new(), Vec::new()) {
        Err(error) if error.kind() == ErrorKind::Argument => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}
