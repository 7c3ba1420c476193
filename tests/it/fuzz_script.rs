//! Random programs as graphs.

use fx::fuzz::script::*;

/// `FX_FUZZ_SEED` is the first seed, `FX_FUZZ_COUNT` the number of programs of each language.
#[test]
fn graphs_of_random_programs_do_what_the_machine_does() {
    let number =
        |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (seed, count) = (number("FX_FUZZ_SEED", 0), number("FX_FUZZ_COUNT", 40));
    for dialect in [Dialect::Torch, Dialect::Python] {
        let config = Config { seed, count, dialect, python: None };
        let (summary, n_graphs) = run(&config, &|_| {}).unwrap();
        assert!(summary.failures.is_empty(), "{summary}");
        assert!(n_graphs > 0, "no program of {count} is a graph");
    }
}
