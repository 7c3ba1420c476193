//! Graphs as text, DOT and SVG.

use fx_core::testing::{Rng, random_graph, random_text_graph};
use fx_core::{Arg, ErrorKind, Graph, Registry, Result};
use proptest::prelude::*;

fn parse(text: &str) -> Result<Graph> {
    Graph::parse(text, &Registry::core())
}

fn lines(error: &fx_core::Error) -> Vec<String> {
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
        graph.create(fx_core::Target::CallFunction(op), [Arg::None], [], Some(&long)).unwrap();
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

#[test]
fn prints_in_the_wording_of_torch_fx() {
    let graph = parse(EXAMPLE).unwrap();
    expect_test::expect![[r#"
        graph():
            %x : [num_users=1] = placeholder[target=x]
            %pair_0 : [num_users=1] = placeholder[target=pair_0]
            %pair_1 : [num_users=0] = placeholder[target=pair_1]
            %opts_a : [num_users=0] = placeholder[target=opts_a]
            %fc1 : [num_users=1] = call_module[target=fc1](args = (%x,), kwargs = {})
            %neg : [num_users=1] = call_method[target=neg](args = (%fc1,), kwargs = {})
            %scale : [num_users=1] = get_attr[target=layers.0.scale]
            %mul : [num_users=3] = call_function[target=mul](args = (%neg, %scale), kwargs = {})
            %size : [num_users=0] = call_function[target=size](args = (%mul,), kwargs = {dim: -1})
            %item : [num_users=0] = call_function[target=getitem](args = (%pair_0, (Ellipsis, slice(None, 2*batch, None), -0.0, nan(0x7ff8000000000001), torch.float32, a\n)), kwargs = {})
            %cond : [num_users=1] = call_function[target=cond](args = (True, @then, @then_1, [%mul]), kwargs = {})
            return (mul, [cond], {k: None})

        graph @then():
            %a : [num_users=1] = placeholder[target=a]
            return a

        graph @then_1():
            %a : [num_users=1] = placeholder[target=a]
            %neg : [num_users=1] = call_function[target=neg](args = (%a,), kwargs = {})
            return neg
    "#]].assert_eq(&graph.to_torch_string());
    expect_test::expect![[r#"
        opcode         name    target          args                           kwargs
        -------------  ------  --------------  -----------------------------  -----------
        placeholder    x       x               ()                             {}
        placeholder    pair_0  pair_0          ()                             {}
        placeholder    pair_1  pair_1          ()                             {}
        placeholder    opts_a  opts_a          ()                             {}
        call_module    fc1     fc1             (x,)                           {}
        call_method    neg     neg             (fc1,)                         {}
        get_attr       scale   layers.0.scale  ()                             {}
        call_function  mul     mul             (neg, scale)                   {}
        call_function  size    size            (mul,)                         {'dim': -1}
        call_function  item    getitem         (pair_0, (Ellipsis, slice(None, 2*batch, None), -0.0, nan(0x7ff8000000000001), torch.float32, 'a\n'))  {}
        call_function  cond    cond            (True, @then, @then_1, [mul])  {}
        output         output  output          ((mul, [cond], {'k': None}),)  {}

        @then
        opcode       name    target  args  kwargs
        -----------  ------  ------  ----  ------
        placeholder  a       a       ()    {}
        output       output  output  (a,)  {}

        @then_1
        opcode         name    target  args    kwargs
        -------------  ------  ------  ------  ------
        placeholder    a       a       ()      {}
        call_function  neg     neg     (a,)    {}
        output         output  output  (neg,)  {}
    "#]].assert_eq(&graph.tabular());
}

#[test]
fn dot_escapes_whatever_a_record_could_mistake() {
    let text = "graph main(%x: f32[2]) {\n  %y = self.\"a|b<c>{d}\\\"\\\\\\n\\u{202e}\"(%x, @g)\n  return %y\n}\ngraph g(%z) {\n  return %z\n}\n";
    expect_test::expect![[r##"
        digraph fx {
          compound=true;
          node [shape=record, style="filled,rounded", fontname="Helvetica", fontsize=10];
          edge [color="#7a8594", arrowsize=0.7];
          g0n0 [label="{%x|placeholder|f32[2]}", fillcolor="#e8f1fc", color="#2f6fd0"];
          g0n1 [label="{%y|call_module|a\|b\<c\>\{d\}\"\\\\u\{a\}\\u\{202e\}|self.\"a\|b\<c\>\{d\}\\\"\\\\\\n\\u\{202e\}\"(%x, @g)}", fillcolor="#fdebe8", color="#cc4b40"];
          g0n0 -> g0n1;
          g0n2 [label="{%output|output|return %y}", fillcolor="#edf0f4", color="#4b5666"];
          g0n1 -> g0n2;
          subgraph cluster_1 {
          label="@g"; color="#b7c0cc"; style=rounded; fontname="Helvetica";
          g1n0 [label="{%z|placeholder}", fillcolor="#e8f1fc", color="#2f6fd0"];
          g1n1 [label="{%output|output|return %z}", fillcolor="#edf0f4", color="#4b5666"];
          g1n0 -> g1n1;
          }
          g0n1 -> g1n0 [lhead=cluster_1, style=dashed];
        }
    "##]].assert_eq(&parse(text).unwrap().to_dot());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pictures_are_well_formed(seed: u64, size in 0usize..60) {
        let graph = random_text_graph(seed, size);
        let svg = graph.to_svg();
        prop_assert!(svg.chars().all(|c| c == '\n' || !c.is_control()));
        let mut open = Vec::new();
        for tag in svg.split('<').skip(1) {
            let (tag, text) = tag.split_once('>').expect("every tag is closed");
            prop_assert!(!tag.contains("NaN") && !tag.contains("inf"), "{tag}");
            prop_assert!(!text.contains('>') && tag.matches('"').count() % 2 == 0);
            let name = tag.split([' ', '/']).next().unwrap_or_default();
            match tag.strip_prefix('/') {
                Some(name) => prop_assert_eq!(open.pop(), Some(name)),
                None if tag.ends_with('/') => {}
                None => open.push(name),
            }
        }
        prop_assert!(open.is_empty());
        let dot = graph.to_dot();
        prop_assert_eq!(dot.matches("\"").count() % 2, dot.matches("\\\"").count() % 2);
        prop_assert!(graph.tabular().lines().count() >= graph.len() + 2);
        prop_assert!(graph.to_torch_string().lines().count() > graph.len());
    }

    #[test]
    fn boxes_do_not_overlap_and_stand_below_their_inputs(seed: u64, size in 1usize..80) {
        let mut rng = Rng::new(seed);
        let box_size = |rng: &mut Rng| fx_core::__test::layout::Size {
            width: 20.0 + rng.below(200) as f64,
            height: 20.0 + rng.below(40) as f64,
            sinks: rng.one_in(3),
        };
        let sizes: Vec<_> = (0..size).map(|_| box_size(&mut rng)).collect();
        let inputs: Vec<Vec<usize>> = (0..size).map(|i| (0..rng.below(4).min(i)).map(|_| rng.below(i)).collect()).collect();
        let placed = fx_core::__test::layout::layout(&sizes, &inputs).centres;
        for i in 0..size {
            for input in &inputs[i] {
                prop_assert!(placed[*input].1 + sizes[*input].height / 2.0 < placed[i].1 - sizes[i].height / 2.0);
            }
            for j in 0..i {
                let apart = (placed[i].0 - placed[j].0).abs() >= (sizes[i].width + sizes[j].width) / 2.0 + 1.0
                    || (placed[i].1 - placed[j].1).abs() >= (sizes[i].height + sizes[j].height) / 2.0 + 1.0;
                prop_assert!(apart, "{i} and {j} overlap");
            }
        }
    }
}
