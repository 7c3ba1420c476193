use proptest::prelude::*;

use crate::testing::{Rng, random_graph, random_text_graph};
use crate::{Arg, ErrorKind, Graph, Registry, Result};

fn parse(text: &str) -> Result<Graph> {
    Graph::parse(text, &Registry::core())
}

fn lines(error: &crate::Error) -> Vec<String> {
    let each = if error.related().is_empty() { std::slice::from_ref(error) } else { error.related() };
    each.iter().map(|e| e.to_string().lines().next().unwrap_or_default().to_owned()).collect()
}

fn round_trip(graph: &Graph) {
    let text = graph.to_text();
    let back = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(back == *graph, "\n{text}\n{}", back.to_text());
    assert_eq!(back.to_text(), text);
    let clean = graph.to_string();
    let back = parse(&clean).unwrap_or_else(|error| panic!("{error}\n{clean}"));
    assert_eq!(back.to_string(), clean);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parsing_restores_what_was_printed(seed: u64, size in 0usize..30) {
        round_trip(&random_graph(seed, size));
        round_trip(&random_text_graph(seed, size));
    }

    #[test]
    fn damaged_text_never_panics(seed: u64, size in 0usize..12) {
        let mut rng = Rng::new(seed);
        let text = random_text_graph(seed, size).to_text();
        let mut bytes = text.into_bytes();
        for _ in 0..1 + rng.below(4) {
            let at = rng.below(bytes.len());
            match rng.below(4) {
                0 => { bytes.remove(at); }
                1 => bytes[at] = rng.pick(b"%@<>()[]{}#\"\\.:,=-/ \n09enax_r\xff"),
                2 => bytes.insert(at, rng.pick(b"%@<>()[]{}#\"\\.:,=-/ \n09enax_r\xc3")),
                _ => {
                    let end = at + rng.below(bytes.len() - at).min(40);
                    let part = bytes[at..end].to_vec();
                    let to = rng.below(bytes.len());
                    bytes.splice(to..to, part);
                }
            }
            if bytes.is_empty() { break; }
        }
        if let Ok(graph) = parse(&String::from_utf8_lossy(&bytes)) {
            round_trip(&graph);
        }
    }
}

const EXAMPLE: &str = r#"graph main<batch: 1..=64>(%x: f32[batch, 4], pair: (%pair_0: f32[4], %pair_1), opts: {"a": %opts_a, "flag": true}, train = false) -> (f32[batch, 4], [any], {"k": none}) {
  %fc1: f32[batch, 4] = self.fc1(%x)
  %neg: f32[batch, 4] = %fc1.neg()
  %scale: f32[4] = self.layers.0.scale
  %mul: f32[batch, 4] = mul(%neg, %scale)
  %size = size(%mul, dim=-1)
  %item = getitem(%pair_0, (.., slice(none, <2*batch>, none), -0.0, nan(0x7ff8000000000001), f32, "a\n"))
  %cond = cond(true, @then, @then_1, [%mul])
  return (%mul, [%cond], {"k": none})
}

graph then(%a) {
  return %a
}

graph then_1 as then(%a) {
  %neg = neg(%a)
  return %neg
}
"#;

#[test]
fn prints_the_form_of_each_opcode() {
    let graph = parse(EXAMPLE).unwrap();
    assert_eq!(graph.to_string(), EXAMPLE);
    assert_eq!(graph.to_text(), EXAMPLE);
    assert_eq!(graph.format_node(graph.find("item").unwrap()).unwrap().matches("slice").count(), 1);
    let free = "graph f ( %x , ) // comment\n{ // another\n %y = add(\n  %x, // one\n  alpha = 2,\n 1 )\n\n return [ ] }";
    let mistake = lines(&parse(free).unwrap_err());
    assert_eq!(mistake, ["expected no positional argument after a keyword  at <text>:6:2"]);
    assert_eq!(
        parse(&free.replace(",\n 1 )", "\n)")).unwrap().to_string(),
        "graph f(%x) {\n  %y = add(%x, alpha=2)\n  return []\n}\n"
    );
}

#[test]
fn reports_every_mistake_with_its_place() {
    let text = "graph main(%x: f32[2]) -> i64[2] {
  %a = reluu(%x)
  %b = ad(%a, %nope)
  %c add(%x)
  %d = add(%x, %e)
  %e = add(%c, 99999999999999999999)
  %x = neg(%x)
  %f = cond(%x, @g, @h)
  %for = neg(%x)
  %k: f33[2] = neg(%x)
  %l = neg(%x) neg(%x)
  return %x
  %z = neg(%x)
}

graph g(%a) { return @g }
graph u() { }
";
    expect_test::expect![[r#"
        expected the result i64[2], got f32[2]  at <text>:1:27
        unknown operation "reluu"  at <text>:2:8
        unknown operation "ad"  at <text>:3:8
        expected `=`, got `add`  at <text>:4:6
        %e is used before it is defined  at <text>:5:16
        expected a number within i64 or f64, got `99999999999999999999`  at <text>:6:16
        %x is defined twice  at <text>:7:3
        no sub-graph is called "h"  at <text>:8:22
        expected the name of a node, got `for`  at <text>:9:4
        expected a value, got `f33`  at <text>:10:7
        expected the end of the line, got `neg`  at <text>:11:16
        expected `}` after the return, got `%z`  at <text>:13:3
        the graph "g" contains itself  at <text>:16:1
        the graph "u" is never used  at <text>:17:1
        expected `return` as the last line of the graph, got `}`  at <text>:17:13"#]]
    .assert_eq(&lines(&parse(text).unwrap_err()).join("\n"));
    for (text, expected) in [
        ("", "expected `graph` and a name, got the end of the text  at <text>:1:1"),
        ("x\ngraph main() {\n return none\n}", "expected `graph` and a name, got `x`  at <text>:1:1"),
        ("graph main() {\n return none\n", "expected `}`, got the end of the text  at <text>:3:1"),
        ("graph main(%x, %x) {\n return none\n}", "the argument \"x\" is declared twice  at <text>:1:16"),
        (
            "graph main() {\n return (none)\n}",
            "expected `,` after the only item of a tuple, got `)`  at <text>:2:10",
        ),
        (
            "graph main() {\n return {\"a\": 1, \"a\": 2}\n}",
            "repeated key \"a\" in a dictionary  at <text>:2:9",
        ),
        (
            "graph main() {\n return \"abc\n}",
            "expected `\"` on the same line, got an unfinished string  at <text>:2:9",
        ),
        (
            "graph main(%x: f32[99999999999999999999]) {\n return none\n}",
            "expected a number that fits in i64 in a size, got `999999999999` at column 1  at <text>:1:20",
        ),
        ("graph main<n: 5..=4>() {\n return none\n}", "the symbol n has an empty range  at <text>:1:12"),
        ("graph self() {\n return none\n}", "\"self\" is not a name for a graph  at <text>:1:7"),
        ("graph m() {\n %x = \"no op\"()\n return none\n}", "unknown operation \"no op\"  at <text>:2:7"),
    ] {
        assert_eq!(lines(&parse(text).unwrap_err()), [expected]);
    }
    let many = format!("graph main() {{\n{}}}", " %a = x()\n".repeat(100_000));
    assert_eq!(lines(&parse(&many).unwrap_err()).len(), 21);
}

#[test]
fn output_may_be_renamed_and_a_node_called_output() {
    let text = "graph f(%output) {\n  %_return = neg(%output)\n  return %_return #{name: \"_return_1\", type: f32[]}\n}\n";
    assert_eq!(parse(text).unwrap().to_text(), text);
    let mut graph = parse(&text.replace(" #{name: \"_return_1\", type: f32[]}", "")).unwrap();
    assert_eq!(graph.node(graph.output_node()).unwrap().name(), "output_1");
    let long = "a".repeat(100);
    for _ in 0..3 {
        let op = Registry::core().get("neg").unwrap();
        graph.create(crate::Target::CallFunction(op), [Arg::None], [], Some(&long)).unwrap();
    }
    round_trip(&graph);
}

#[test]
fn deep_nesting_is_an_error() {
    for (open, close) in
        [("(", ",)"), ("[", "]"), ("{\"a\": ", "}"), ("slice(1, ", ", 2)"), ("<(", ")>"), ("f32[(", "]")]
    {
        let nest = |n: usize| {
            let value = open.repeat(n) + "1" + &close.repeat(n);
            format!(
                "graph main(%x: {value}, y: {value}) -> {value} {{\n %a: {value} = {value}.neg(%x, {value}) #{{ext: {value}}}\n return {value}\n}}"
            )
        };
        let error = parse(&nest(100_000)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Parse | ErrorKind::Many), "{error}");
        let deepest = open.repeat(64) + "1" + &close.repeat(64);
        let is_container = open.len() == 1 || open.starts_with(['{', 's']);
        assert_eq!(parse(&format!("graph main() {{\n return {deepest}\n}}")).is_ok(), is_container, "{open}");
    }
    let chain = |n: usize| {
        let mut text = String::from("graph main(%x) {\n  return @g0\n}\n");
        for i in 0..n {
            text += &format!("graph g{i}(%x) {{\n  return @g{}\n}}\n", i + 1);
        }
        text + &format!("graph g{n}() {{\n  return none\n}}\n")
    };
    round_trip(&parse(&chain(60)).unwrap());
    assert!(lines(&parse(&chain(100_000)).unwrap_err())[0].contains("within at most 64 levels"));
}

#[test]
fn long_chains_are_linear() {
    let mut text = String::from("graph main(%x) {\n  %n0 = neg(%x)\n");
    for i in 1..200_000 {
        text += &format!("  %n{i} = add(%n{}, 1.5)\n", i - 1);
    }
    text += "  return %n199999\n}\n";
    let graph = parse(&text).unwrap();
    assert_eq!(graph.len(), 200_002);
    assert!(graph.to_string() == text);
    let inputs: Vec<String> = (0..50_000).map(|i| format!("%x{i}: f32[2]")).collect();
    let kwargs: Vec<String> = (0..50_000).map(|i| format!("k{i}={i}")).collect();
    let text = format!(
        "graph main({}) {{\n  %y = self.m({})\n  return %y\n}}\n",
        inputs.join(", "),
        kwargs.join(", ")
    );
    assert!(parse(&text).unwrap().to_text() == text);
}

#[test]
fn comments_and_divisions_are_told_apart() {
    let text = "graph main<n: 2..>(%x: f32[n//2]) {\n  %y: f32[(n//2) + 1] = cond(<n//2>, @g, @g) // @h is a comment\n  return %y\n}\ngraph g() { // @g\n  return \"//\"\n}\n";
    let graph = parse(text).unwrap();
    round_trip(&graph);
    assert_eq!(graph.node(graph.find("y").unwrap()).unwrap().subgraphs().len(), 2);
}
