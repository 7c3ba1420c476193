//! Random programs as crates: they return what the programs do.

use fx::fuzz::Case;
use fx::{CrateOptions, ToCrate};

use super::{Crates, folder};

/// How many programs become crates; `FX_CRATE_PROGRAMS=1000` asks for more.
const N_PROGRAMS: u64 = 30;

/// How many of them are compiled at once.
const AT_ONCE: usize = 30;

#[test]
#[allow(clippy::print_stdout, reason = "whoever asks for the long run reads it")]
fn random_programs_are_their_crates() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let (n, first) =
        (number("FX_CRATE_PROGRAMS").unwrap_or(N_PROGRAMS), number("FX_CRATE_SEED").unwrap_or(0));
    let dir = folder("random");
    let mut crates = Crates::new(&dir);
    let (mut n_written, mut refused) = (0, 0);
    for seed in first..first + n {
        let Case { gm, inputs, is_wild, problem } = Case::new(seed);
        let prints = gm.graph().nodes().any(|(_, node)| node.op() == Some(fx::print::OP));
        if is_wild || prints || problem.is_some() {
            continue;
        }
        let runs = |args: &Vec<fx::Value>| gm.clone().evaluate(args).is_ok();
        let options = CrateOptions::new().name(&format!("seed_{seed}"));
        let options =
            inputs.iter().filter(|args| runs(args)).fold(options, |options, args| options.record(args));
        match gm.to_package(&options) {
            Ok(package) => crates.add(&package),
            Err(error) => {
                refused += 1;
                if std::env::var_os("FX_CRATE_PROGRAMS").is_some() {
                    println!("{seed}: {error}");
                }
            }
        }
        n_written = n_written.max(crates.len());
        if crates.len() == AT_ONCE {
            std::mem::replace(&mut crates, Crates::new(&dir)).run();
        }
    }
    assert!(n_written > 0, "{refused} of {n} programs cannot be written");
    crates.run();
}
