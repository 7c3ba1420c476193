//! Damages texts and archives, and reports each that panics or takes more than a second.
//!
//! `mutations COUNT [SEED] [FOLDER]`; a folder has unpacked archives, one folder each. Run it under `ulimit -v` to
//! bound memory. A line on standard error says which seed is about to run whenever the last one took long.
#![allow(missing_docs, clippy::print_stdout, reason = "a tool that prints what it finds")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use fx_core::testing::Rng;
use fx_script::archive::MemoryMembers;
use fx_script::fuzz::{Case, Dialect, mutate};
use fx_script::vm::NoOperators;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| args.get(at).and_then(|x| x.parse().ok()).unwrap_or(default);
    let (count, first) = (number(0, 10_000), number(1, 0));
    let archives = args.get(2).map_or_else(Vec::new, |folder| read_archives(Path::new(folder)));
    let texts: Vec<String> = (0..60).map(|seed| Case::new(seed, Dialect::Torch).text()).collect();
    let texts: Vec<String> =
        texts.into_iter().chain((0..60).map(|seed| Case::new(seed, Dialect::Python).text())).collect();
    let compiled = texts.iter().filter_map(|text| Case::compile(text).ok());
    let irs: Vec<String> = compiled.map(|(program, _)| program.to_string()).collect();
    let (mut failures, mut slowest) = (0, (0.0, 0));
    for seed in first..first + count {
        let started = Instant::now();
        let outcome = std::panic::catch_unwind(|| {
            let mut rng = Rng::new(seed);
            match rng.below(if archives.is_empty() { 2 } else { 3 }) {
                0 => {
                    let (text, donor) = (rng.pick(&texts), rng.pick(&irs));
                    let _ = mutate::run_text(&mutate::text(&mut rng, &text, &donor));
                }
                1 => {
                    let (text, donor) = (rng.pick(&irs), rng.pick(&texts));
                    let _ = mutate::run_ir(&mutate::text(&mut rng, &text, &donor));
                }
                _ => {
                    let (one, other) = (rng.below(archives.len()), rng.below(archives.len()));
                    let members = mutate::members(&mut rng, &archives[one], &archives[other]);
                    let _ = mutate::run_members(members, &NoOperators);
                }
            }
        });
        let seconds = started.elapsed().as_secs_f64();
        if seconds > slowest.0 {
            slowest = (seconds, seed);
        }
        if outcome.is_err() || seconds > 1.0 {
            failures += 1;
            println!("seed {seed}: {}", if outcome.is_err() { "panicked" } else { "too slow" });
        }
        if seed % 10_000 == 0 {
            eprintln!("{seed}: {failures} failures, the slowest was {} with {:.3} s", slowest.1, slowest.0);
        }
    }
    println!(
        "{count} mutations, {failures} failures, the slowest was seed {} with {:.3} s",
        slowest.1, slowest.0
    );
    std::process::exit(i32::from(failures > 0));
}

fn read_archives(folder: &Path) -> Vec<MemoryMembers> {
    let folders = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders: Vec<_> = folders.collect();
    folders.sort();
    folders.iter().map(|folder| MemoryMembers(read_members(folder, ""))).collect()
}

fn read_members(folder: &Path, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    let mut members = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        match entry.path() {
            path if path.is_dir() => members.extend(read_members(&path, &format!("{name}/"))),
            path => drop(members.insert(name, std::fs::read(path).unwrap_or_default())),
        }
    }
    members
}
