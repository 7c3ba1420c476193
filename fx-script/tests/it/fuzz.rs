//! Random programs beside Python.

use fx_script::fuzz::*;
use fx_script::vm::NoOperators;

/// `FX_FUZZ_SEED` is the first seed, `FX_FUZZ_COUNT` the number of programs.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn random_programs_do_the_same_in_python() {
    // Without Python, programs are still compared with their printed texts.
    let python = Reference::start("python3", Dialect::Python).is_ok().then(|| "python3".to_owned());
    let (seed, count) = (number("FX_FUZZ_SEED", 0), number("FX_FUZZ_COUNT", 100));
    let config = Config { seed, count, dialect: Dialect::Python, python };
    let summary = run(&config, &NoOperators, &mut |_, _| Ok(()), &|_| {}).unwrap();
    assert!(summary.failures.is_empty(), "{summary}");
}

#[test]
fn outcomes_of_seeds_stay() {
    let text = Case::new(7, Dialect::Python).text();
    assert_eq!(text, Case::new(7, Dialect::Python).text());
    assert!(text.contains("def run() -> "), "{text}");
}

#[test]
fn program_that_takes_too_long_is_refused() {
    let Ok(mut reference) = Reference::start("python3", Dialect::Python) else {
        eprintln!("skipped: there is no python3");
        return;
    };
    let endless = "def run() -> int:\n    while True:\n        pass\n";
    reference.limit = std::time::Duration::from_millis(50);
    assert_eq!(reference.run(endless).unwrap(), "refused it does not end within 50 ms");
    // Another process runs the programs after it.
    reference.limit = std::time::Duration::from_secs(600);
    assert_eq!(reference.run("def run() -> int:\n    return 7\n").unwrap(), "7 printed ");
}
