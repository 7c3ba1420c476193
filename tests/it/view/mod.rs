//! The page of a program: what it holds, that files cannot put markup or script into it, and that a browser
//! draws it.

use std::collections::HashSet;

use fx::view::Page;
use fx::{GraphModule, Passes};
use serde_json::Value as Json;

mod browser;

fn program(name: &str) -> GraphModule {
    fx::import::pt2(format!("{}/tests/data/zoo/{name}.pt2", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn parse(text: &str) -> GraphModule {
    GraphModule::new("main", fx::parse(text).unwrap())
}

/// Runs passes on a program and returns its page, with times that are the same each time.
fn with_passes(gm: &GraphModule, passes: &str) -> (String, Json) {
    let passes = Passes::parse(passes, &fx::pass::all()).unwrap().keep_modules().keep_diffs();
    let mut report = passes.run(&mut gm.clone()).unwrap();
    for pass in &mut report.passes {
        (pass.time, pass.verify_time) = Default::default();
    }
    let page = Page::new(gm).report(&report);
    (page.html(), page.json())
}

/// Returns what stands between two marks.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(start).unwrap();
    rest.split_once(end).unwrap().0
}

fn data_of(page: &str) -> &str {
    between(page, "<script type=\"application/json\" id=\"data\">", "</script>")
}

/// Checks that every position in the data has its row, and every input its node.
fn check(data: &Json) {
    let list = |key: &str| data[key].as_array().unwrap();
    let index = |x: &Json| usize::try_from(x.as_u64().unwrap()).unwrap();
    let text = |x: &Json| list("strings")[index(x)].as_str().unwrap();
    for graph in list("graphs") {
        let nodes: Vec<&Json> =
            graph[1].as_array().unwrap().iter().map(|node| &list("nodes")[index(node)]).collect();
        let mut known = HashSet::new();
        for node in &nodes {
            for input in node[7].as_array().into_iter().flatten() {
                assert!(known.contains(text(input)), "{node} uses what does not come before it");
            }
            assert!(known.insert(text(&node[0])));
            assert!(index(&node[3]) < list("families").len());
            for inner in node[9].as_array().into_iter().flatten() {
                assert!(index(inner) < list("graphs").len());
            }
            if let Some(stack) = node[6].as_u64() {
                for frame in list("stacks")[stack as usize].as_array().unwrap() {
                    assert!(!text(&list("frames")[index(frame)][0]).is_empty());
                }
            }
        }
    }
    for state in list("states") {
        assert!(index(&state[0]) < list("graphs").len());
    }
    for step in list("steps") {
        assert!(index(&step["state"]) < list("states").len());
    }
}

#[test]
fn the_data_hold_every_node_once() {
    let gm = program("chain");
    let data = Page::new(&gm).json();
    check(&data);
    assert_eq!(data["graphs"][0][1].as_array().unwrap().len(), gm.graph().len());
    let page = fx::view::html(&gm);
    assert_eq!(serde_json::from_str::<Json>(data_of(&page)).unwrap(), data);
    for name in ["cond_nested", "while_l", "recurrent", "tied", "odd_names", "regions"] {
        check(&Page::new(&program(name)).json());
    }
}

#[test]
fn equal_programs_give_equal_pages() {
    for name in ["composed", "data_dep", "while_l", "loops"] {
        assert_eq!(fx::view::html(&program(name)), fx::view::html(&program(name)), "{name}");
    }
    let passes = "normalize, shape_prop, simplify, cse, dead_code";
    assert_eq!(with_passes(&program("composed"), passes).0, with_passes(&program("composed"), passes).0);
}

#[test]
fn types_that_follow_from_the_inputs_are_shown() {
    let data =
        Page::new(&parse("graph main(%x: f32[2, n]) {\n  %y = sum(%x, dim=0)\n  return %y\n}\n")).json();
    assert!(data["strings"].as_array().unwrap().contains(&Json::from("f32[n]")), "{data}");
}

#[test]
fn steps_have_graphs_marks_and_differences() {
    let text = "\
graph main(%p: bool[], %x: f32[3]) -> f32[3] {
  %a: f32[3] = mul(%x, 1.0)
  %r: f32[3] = cond(%p, @yes, @no, [%a])
  return %r
}

graph yes(%x: f32[3]) -> f32[3] {
  %a = relu(%x)
  %b = relu(%x)
  %c = add(%a, %b)
  return %c
}

graph no(%x: f32[3]) -> f32[3] {
  return %x
}
";
    let (_, data) = with_passes(&parse(text), "sink, simplify, cse");
    check(&data);
    let states = data["states"].as_array().unwrap();
    let steps = data["steps"].as_array().unwrap();
    let names: Vec<&str> = steps
        .iter()
        .map(|step| data["strings"][step["name"].as_u64().unwrap() as usize].as_str().unwrap())
        .collect();
    assert_eq!(names, ["sink", "simplify", "cse"]);
    assert_eq!(steps[0]["state"], 0, "a pass that changes nothing has the state before it");
    assert_eq!((steps[1]["erased"].as_u64(), steps[1]["state"].as_u64()), (Some(1), Some(1)));
    // After cse, the sub-graph has a node whose arguments changed, and so has the program.
    let marks = states[2][1].as_array().unwrap();
    assert_eq!(marks.len(), 2, "{marks:?}");
    assert!(
        marks.iter().all(|mark| mark[1] == serde_json::json!([]) && mark[2].as_array().unwrap().len() == 1)
    );
    let diff: Vec<&str> = steps[2]["diff"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| data["strings"][line.as_u64().unwrap() as usize].as_str().unwrap())
        .collect();
    assert!(diff.contains(&"-  %b = relu(%x)"), "{diff:?}");
}

#[test]
fn graphs_that_steps_share_are_stored_once() {
    let gm = program("composed");
    let (short, _) = with_passes(&gm, "cse");
    let (long, data) = with_passes(&gm, "cse, sink, hoist, dead_code, cse, normalize, cse");
    assert_eq!(data["steps"].as_array().unwrap().len(), 7);
    assert!(long.len() < short.len() + 2 * data_of(&short).len(), "{} {}", long.len(), short.len());
}

/// Text that would be markup or script if it were not escaped, or would hide or turn other text.
const HOSTILE: &str = "</script><script>document.documentElement.dataset.owned=1</script><img src=x onerror=\\\"document.documentElement.dataset.owned=1\\\">\
<!--{{data}}<!--script-->&lt;\u{202e}\u{2028}\u{0}'`${owned=1}";

/// A program with hostile text wherever a file can put text.
fn hostile() -> GraphModule {
    let evil = HOSTILE.replace('\u{0}', "\\u{0}");
    let text = format!(
        "graph main(%__proto__: f32[3], %constructor: f32[3]) -> f32[3] {{\n  \
         %hasOwnProperty = self.\"{evil}\"\n  \
         %y = add(%__proto__, %constructor) #{{src: \"{evil}:1:1\", stack: [(\"{evil}\", \"{evil}\", 0), (\"{evil}.a\", \"javascript:owned\", 0, \
         \"{evil}:2:2\")], by: [(\"{evil}\", [\"{evil}\"])], tags: [\"{evil}\", \"__proto__\"], ext: {{\"{evil}\": \"{evil}\"}}}}\n  \
         %z = mul(%y, %hasOwnProperty) #{{stack: [(\"{evil}\", \"{evil}\", 0)]}}\n  \
         %toString = einsum(\"{evil}\", [%z])\n  return %toString\n}}\n"
    );
    let graph = fx::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    GraphModule::new("</title><script>document.documentElement.dataset.owned=1</script><!--style-->", graph)
}

#[test]
fn text_of_files_never_becomes_markup() {
    let page = fx::view::html(&hostile());
    let harmless = fx::view::html(&parse("graph main(%x) {\n  return %x\n}\n"));
    for tag in ["<script", "</script", "<title", "</title", "<style", "<img", "<!--"] {
        assert_eq!(page.matches(tag).count(), harmless.matches(tag).count(), "{tag}");
    }
    let data = data_of(&page);
    assert!(
        data.contains("\\u003cscript\\u003e")
            && !data.contains(['<', '>', '&', '\u{202e}', '\u{2028}', '\0'])
    );
    assert!(data.contains("\\\\u{202e}"), "characters that turn text are shown as what they are");
    check(&serde_json::from_str(data).unwrap());
    assert!(between(&page, "<title>", "</title>").starts_with("&lt;/title&gt;&lt;script&gt;"));
    assert_eq!(page.replace(data, "").replace(between(&page, "<title>", "</title>"), ""), {
        harmless.replace(data_of(&harmless), "").replace(between(&harmless, "<title>", "</title>"), "")
    });
}

#[test]
fn the_page_asks_nothing_of_the_network_and_makes_no_markup_of_text() {
    let page = fx::view::html(&parse("graph main(%x) {\n  return %x\n}\n"));
    assert!(page.contains("Content-Security-Policy") && page.contains("default-src 'none'"));
    let addresses: HashSet<&str> =
        page.match_indices("http").map(|(i, _)| page[i..].split(['"', '\'', ' ']).next().unwrap()).collect();
    assert_eq!(addresses, HashSet::from(["http://www.w3.org/2000/svg", "http-equiv="]));
    for word in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "DOMParser",
        "srcdoc",
        "fetch(",
        "@import",
        "url(",
    ] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn long_text_is_cut() {
    let numbers = vec!["1"; 100_000].join(", ");
    let text = format!("graph main(%x: f32[3]) {{\n  %y = view(%x, [{numbers}])\n  return %y\n}}\n");
    assert!(data_of(&fx::view::html(&parse(&text))).len() < 10_000);
}
