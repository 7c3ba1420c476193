//! Errors of syntax.

use expect_test::{Expect, expect};
use fx_core::ErrorKind;
use fx_script::parse::*;
use fx_script::source::Source;

fn check(text: &str, expected: Expect) {
    let error = match file(&Source::new("net.py", text)) {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&error);
}

#[test]
fn errors_show_the_line_and_the_place() {
    check(
        "def f(x):\n    return x +\n",
        expect![[r#"
        expected an expression, got the end of the line
                return x +
                          ^
           at net.py:2:15"#]],
    );
    check(
        "def f(x:\n    return (x\n",
        expect![[r#"
        '(' is never closed
                return (x
                       ^
           at net.py:2:12"#]],
    );
    check(
        "x = lambda y: y\n",
        expect![[r#"
        'lambda' is not part of TorchScript
            x = lambda y: y
                ^^^^^^
           at net.py:1:5
          help: write a function with a name"#]],
    );
    check(
        "def f(x):\nreturn x\n",
        expect![[r#"
        expected an indented block, got 'return'
            return x
            ^^^^^^
           at net.py:2:1
          help: a block without statements is 'pass'"#]],
    );
    check(
        "def f(x):\n    if x:\n        pass\n      y = 1\n",
        expect![[r#"
        the indentation fits no block that is open
                  y = 1
            ^^^^^^
           at net.py:4:1
          help: every line of a block begins in the same column"#]],
    );
    check(
        "f(x) = 3\n",
        expect![[r#"
        cannot assign to this expression
            f(x) = 3
            ^^^^
           at net.py:1:1
          help: a target is a name, an attribute, an item, or several of them"#]],
    );
    check(
        "try:\n  pass\n",
        expect![[r#"
        'try' here is not part of TorchScript
            try:
            ^^^
           at net.py:1:1"#]],
    );
    check(
        "x = 99999999999999999999\n",
        expect![[r#"
        99999999999999999999 is no int of 64 bits
            x = 99999999999999999999
                ^^^^^^^^^^^^^^^^^^^^
           at net.py:1:5"#]],
    );
    check(
        "x = 'abc\n",
        expect![[r#"
        a text in single quotes ends on its line
            x = 'abc
                ^^^^
           at net.py:1:5"#]],
    );
    check(
        "x = {1, 2}\n",
        expect![[r#"
        sets are not part of TorchScript
            x = {1, 2}
                ^
           at net.py:1:5
          help: use a list or a dictionary"#]],
    );
    check(
        "x = f'{a'\n",
        expect![[r#"
        a '{' of an f-string is never closed
            x = f'{a'
                ^^^^^
           at net.py:1:5"#]],
    );
    check(
        "def f(*args): pass\n",
        expect![[r#"
        '*args' is not part of TorchScript
            def f(*args): pass
                  ^
           at net.py:1:7
          help: a list takes any number of values"#]],
    );
}

#[test]
fn deep_texts_are_errors() {
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("{1: ", "}"),
        ("f(", ")"),
        ("-", ""),
        ("not ", ""),
        ("a ** ", ""),
        ("a if b else ", ""),
    ] {
        let text = format!("x = {}1{}\n", open.repeat(100_000), close.repeat(100_000));
        let error = file(&Source::new("deep.py", text)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{open}: {error}");
    }
    for link in [".a", "[0]", "()", " + 1", " < 1", " ** 1"] {
        let text = format!("x = a{}\n", link.repeat(100_000));
        match file(&Source::new("deep.py", text)) {
            Ok(tree) => drop(tree),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Limit, "{link}: {error}"),
        }
    }
    let blocks: String = (0..5000).map(|level| format!("{}if x:\n", " ".repeat(level))).collect();
    assert_eq!(file(&Source::new("deep.py", blocks)).unwrap_err().kind(), ErrorKind::Limit);
    let branches = format!("if x: pass\n{}", "elif x: pass\n".repeat(100_000));
    assert_eq!(file(&Source::new("deep.py", branches)).unwrap_err().kind(), ErrorKind::Limit);
}

#[test]
fn type_comments_are_annotations() {
    let text = "def f(x, n):\n    # type: (Tensor, int) -> List[int]\n    xs = []  # type: List[int]\n    return xs\n";
    let tree = file(&Source::new("net.py", text)).unwrap();
    expect![[r#"
        def f(x: Tensor,
            n: int) -> List[int]:
          xs : List[int] = []
          return xs
    "#]]
    .assert_eq(&fx_script::print::file(&tree));
}
