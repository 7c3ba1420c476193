//! Code that is printed and read again.

use std::fs;
use std::path::Path;

use fx_script::parse;
use fx_script::print::*;
use fx_script::source::Source;
use proptest::prelude::*;

fn round_trip(name: &str, text: &str) {
    let source = Source::new(name, text);
    let tree = parse::file(&source).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(fx_script::print::file(&tree), text, "{name} prints as another text");
}

#[test]
fn code_of_archives_prints_as_it_was() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut files = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        round_trip(&path.display().to_string(), &text);
        files += 1;
    }
    assert!(files >= 10);
}

#[test]
fn numbers_print_with_17_digits() {
    let printed = [0.1, 1.0, -0.0, 1e8, 1e-5, 1e300, 1e17, 1e16, 123456.75, 5e-324].map(float);
    let expected = [
        "0.10000000000000001",
        "1.",
        "-0.",
        "100000000.",
        "1.0000000000000001e-05",
        "1.0000000000000001e+300",
        "1e+17",
        "10000000000000000.",
        "123456.75",
        "4.9406564584124654e-324",
    ];
    assert_eq!(printed.as_slice(), expected);
}

/// Prints, parses and prints again; the second text is the first.
fn settles(text: &str) {
    let once = fx_script::print::file(
        &parse::file(&Source::new("text", text)).unwrap_or_else(|error| panic!("{error}")),
    );
    round_trip("printed", &once);
}

#[test]
fn user_code_settles_after_one_print() {
    for text in [
        "def f(x, *, n: int = 3):\n\tif x: return 1; \n\telif n: pass\n\telse:\n\t\tx += 1\n\treturn x if n else -x ** -2\n",
        "x = [a for b in c if d for e in f]\r\ny = {k: v for k, v in z}\r\n",
        "a, *b = t; a = b = 'it''s' \"\\x41\"\nprint(f'{a!r:>4} {{}} {b[\"k\"]}', *c)\n",
        "while a < b <= c and not (d or e): break\nelse:\n  continue\n",
        "x[..., None, 1:, ::2, :-1] = y[0] = 1.5j + 1.+2.j - -9223372036854775808\n",
        "with a as b, c:\n  del d[0], e\n  assert f, 'g'\n  raise ValueError('h') from None\n",
        "import torch.nn as nn\nfrom typing import (List, Optional)\n@torch.jit.script\nclass A(nn.Module): pass\n",
        "((a, b), [c, d]) = (not a) == b, (a if b else c)(d), (-a) ** b, (a, ), ()\n",
    ] {
        settles(text);
    }
}

fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("a".to_owned()),
        Just("-1".to_owned()),
        Just("2.5".to_owned()),
        Just("'t\\n'".to_owned()),
        Just("None".to_owned()),
        Just("f'{a:>3}'".to_owned()),
    ];
    leaf.prop_recursive(5, 40, 3, |inner| {
        let operator = prop::sample::select(vec![
            "+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>", "<", "==", "is not",
            "not in", "and", "or",
        ]);
        prop_oneof![
            (inner.clone(), operator, inner.clone()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("{a} if {b} else {c}")),
            inner.clone().prop_map(|a| format!("({a})")),
            inner.clone().prop_map(|a| format!("not {a}")),
            inner.clone().prop_map(|a| format!("-({a})")),
            inner.clone().prop_map(|a| format!("({a}).m({a}, )[{a}:, 1]")),
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(", "))),
            inner.prop_map(|a| format!("[q for q in ({a}) if ({a})]")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn printed_expressions_parse_to_the_same_text(text in expressions()) {
        // Python's grammar refuses some of the texts, such as `a == not b`.
        if let Ok(tree) = parse::expression(&Source::new("text", text)) {
            let once = expression(&tree);
            let again = parse::expression(&Source::new("printed", once.clone())).unwrap();
            prop_assert_eq!(expression(&again), once);
        }
    }

    #[test]
    fn mutated_code_parses_or_errs(at in 0usize..4000, byte in any::<u8>(), length in 0usize..40) {
        let text = include_str!("../../tests/data/sc_constants.py");
        let start = at.min(text.len());
        let mut bytes = text.as_bytes().to_vec();
        bytes.splice(start..(start + length).min(text.len()), [byte]);
        if let Ok(text) = String::from_utf8(bytes)
            && let Ok(tree) = parse::file(&Source::new("mutated", text))
        {
            settles(&fx_script::print::file(&tree));
        }
    }
}
