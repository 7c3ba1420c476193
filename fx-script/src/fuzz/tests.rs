use super::*;
use crate::vm::NoOperators;

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
