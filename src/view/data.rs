//! What the page shows, as compact JSON: text once, nodes once, graphs once, however many steps have them.
//!
//! Every text that comes from a file passes [`Strings::add`], which cuts it and makes its invisible
//! characters visible.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::Page;
use super::family::{FAMILIES, Families};
use crate::pass::{PassReport, SHAPE_PROP};
use crate::{Arg, Attribute, Graph, GraphModule, ModuleFrame, Node, NodeId, SourceLoc, Target};

/// Longer texts are cut.
const MAX_TEXT: usize = 2_000;
/// Differences of more lines are cut.
const MAX_DIFF: usize = 4_000;
/// The deepest level of modules that is shown.
const MAX_NESTING: usize = 64;
/// The version of the data, which `app.js` checks.
const FORMAT: u32 = 1;

/// Returns the data of the page; see `model.js`, which reads them.
pub(super) fn data(page: &Page<'_>) -> Json {
    let mut writer = Writer::new();
    let given = typed(page.gm);
    let passes = page.report.map_or(&[][..], |report| &report.passes);
    let mut before: &GraphModule = &given;
    let (main, _) = writer.state(before, None);
    let mut states = vec![json!([main, []])];
    let mut steps = Vec::new();
    let typed: Vec<Option<GraphModule>> =
        passes.iter().map(|pass| pass.module.as_ref().filter(|_| pass.changed()).map(typed)).collect();
    for (pass, after) in passes.iter().zip(&typed) {
        if let Some(after) = after {
            let (main, marks) = writer.state(after, Some(before));
            states.push(json!([main, marks]));
            before = after;
        }
        steps.push(writer.step(pass, states.len() - 1));
    }
    writer.finish(page.title, states, steps)
}

/// Returns the module with the types of its nodes, as far as they follow from those of the inputs.
fn typed(gm: &GraphModule) -> GraphModule {
    let mut typed = gm.clone();
    if gm.graph().nodes().any(|(_, node)| node.ty().is_none() && *node.target() != Target::Output) {
        // What cannot be inferred is shown without types, which is all that is lost.
        let _ = SHAPE_PROP.apply(&mut typed);
    }
    typed
}

/// Texts, each once, in the order in which they were met.
#[derive(Default)]
struct Strings {
    list: Vec<String>,
    positions: HashMap<String, usize>,
}

impl Strings {
    fn add(&mut self, text: &str) -> usize {
        let text = visible(text, MAX_TEXT);
        if let Some(position) = self.positions.get(&text) {
            return *position;
        }
        self.list.push(text.clone());
        self.positions.insert(text, self.list.len() - 1);
        self.list.len() - 1
    }
}

/// Returns text of at most `max` characters in which each character that could hide or turn others is written
/// as `\u{..}`.
fn visible(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max));
    for (i, c) in text.chars().enumerate() {
        if i == max {
            let _ = write!(out, "… and {} characters more", text.chars().count() - max);
            break;
        }
        let hides = c.is_control()
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}');
        if hides {
            let _ = write!(out, "\\u{{{:x}}}", c as u32);
        } else {
            out.push(c);
        }
    }
    out
}

/// The tables of the page while they grow.
struct Writer {
    families: Families,
    strings: Strings,
    frames: Table,
    stacks: Table,
    nodes: Table,
    graphs: Table,
    /// The name, the schema and the documentation of each operation that occurs.
    ops: Vec<Json>,
    /// The names of those.
    described: HashSet<usize>,
    /// The graphs of the present state by address; they live as long as the state.
    written: HashMap<*const Graph, usize>,
}

/// Rows, each once.
#[derive(Default)]
struct Table {
    rows: Vec<Json>,
    positions: HashMap<String, usize>,
}

impl Table {
    fn add(&mut self, row: Json) -> usize {
        let next = self.rows.len();
        let position = *self.positions.entry(row.to_string()).or_insert(next);
        if position == next {
            self.rows.push(row);
        }
        position
    }
}

impl Writer {
    fn new() -> Self {
        Writer {
            families: Families::built_in(),
            strings: Strings::default(),
            frames: Table::default(),
            stacks: Table::default(),
            nodes: Table::default(),
            graphs: Table::default(),
            ops: Vec::new(),
            described: HashSet::new(),
            written: HashMap::new(),
        }
    }

    /// Writes a module; returns its graph, and which nodes of which graphs are new or other than before.
    fn state(&mut self, gm: &GraphModule, before: Option<&GraphModule>) -> (usize, Vec<Json>) {
        self.written.clear();
        let main = self.graph(gm.graph(), Some(gm), 0);
        let mut marks = Vec::new();
        if let Some(before) = before {
            self.marks(before.graph(), gm.graph(), &mut marks);
        }
        (main, marks)
    }

    /// Enters the marks of a graph and of the sub-graphs that differ: `[graph, positions of new nodes, of
    /// changed nodes]`.
    fn marks(&self, before: &Graph, after: &Graph, marks: &mut Vec<Json>) {
        let (mut new, mut changed) = (Vec::new(), Vec::new());
        for (i, (id, node)) in after.nodes().enumerate() {
            let Ok(old) = before.node(id) else {
                new.push(i);
                continue;
            };
            let same =
                old.target() == node.target() && old.args() == node.args() && old.kwargs() == node.kwargs();
            if !same {
                changed.push(i);
                for (old, new) in old.subgraphs().into_iter().zip(node.subgraphs()) {
                    if !Arc::ptr_eq(old, new) {
                        self.marks(old, new, marks);
                    }
                }
            }
        }
        if let Some(graph) =
            self.written.get(&std::ptr::from_ref(after)).filter(|_| new.len() + changed.len() > 0)
        {
            marks.push(json!([graph, new, changed]));
        }
    }

    /// Writes a graph after its sub-graphs; `gm` knows what its paths refer to.
    fn graph(&mut self, graph: &Graph, gm: Option<&GraphModule>, depth: usize) -> usize {
        if let Some(position) = self.written.get(&std::ptr::from_ref(graph)) {
            return *position;
        }
        let nodes: Vec<usize> = graph.nodes().map(|(_, node)| self.node(graph, node, gm, depth)).collect();
        let name = self.strings.add(graph.name());
        let position = self.graphs.add(json!([name, nodes]));
        self.written.insert(std::ptr::from_ref(graph), position);
        position
    }

    /// Writes a node: name, opcode, target, family, type, source, stack, inputs, arguments, sub-graphs, what
    /// its path refers to, provenance, tags, facts of users.
    fn node(&mut self, graph: &Graph, node: &Node, gm: Option<&GraphModule>, depth: usize) -> usize {
        let mut subgraphs: Vec<usize> =
            node.subgraphs().into_iter().map(|inner| self.graph(inner, None, depth + 1)).collect();
        let about = gm.and_then(|gm| about(node, gm));
        if let (Target::CallModule(path), Some(gm)) = (node.target(), gm)
            && let Ok(child) = gm.child(path)
            && let Some(child) = child.as_module().as_any().downcast_ref::<GraphModule>()
            && depth < MAX_NESTING
        {
            subgraphs.push(self.graph(child.graph(), Some(child), depth + 1));
        }
        let name_of = |id: NodeId| graph.node(id).map_or("", Node::name);
        let inputs: Vec<usize> = node.inputs().map(|id| self.strings.add(name_of(id))).collect();
        let meta = node.meta();
        let by: Vec<Json> = meta
            .provenance()
            .iter()
            .map(|made| {
                let from: Vec<usize> = made.from.iter().map(|name| self.strings.add(name)).collect();
                json!([self.strings.add(&made.pass), from])
            })
            .collect();
        let ext: Vec<Json> = meta
            .ext()
            .map(|(key, value)| {
                let mut text = String::new();
                let write = value.write(&mut text, &mut |leaf, _| match *leaf {}, &mut |graph, f| {
                    write!(f, "@{}", graph.name())
                });
                write.expect("writing to a string cannot fail");
                json!([self.strings.add(key), self.strings.add(&text)])
            })
            .collect();
        let mut row = vec![
            json!(self.strings.add(node.name())),
            json!(node.opcode() as u8),
            json!(self.target(node)),
            json!(self.families.of(node)),
            json!(node.ty().map(|ty| self.strings.add(&ty.to_string()))),
            json!(meta.source.as_ref().map(|source| self.source(source))),
            json!(meta.stack.as_ref().map(|stack| self.stack(stack))),
            json!(inputs),
            json!(self.args(graph, node)),
            json!(subgraphs),
            json!(about.map(|about| self.strings.add(&about))),
            json!(by),
            json!(meta.tags().iter().map(|tag| self.strings.add(tag)).collect::<Vec<_>>()),
            json!(ext),
        ];
        let is_nothing = |field: &Json| field.is_null() || field.as_array().is_some_and(Vec::is_empty);
        while row.last().is_some_and(is_nothing) {
            row.pop();
        }
        self.nodes.add(Json::Array(row))
    }

    /// Writes the target, with what is known of the operation.
    fn target(&mut self, node: &Node) -> usize {
        let target = self.strings.add(&node.target().to_string());
        if let Some(op) = node.op()
            && self.described.insert(target)
        {
            let paragraph = op.doc.trim().split("\n\n").next().unwrap_or_default();
            let paragraph = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
            let (schema, doc) = (self.strings.add(&op.to_string()), self.strings.add(&paragraph));
            self.ops.push(json!([target, schema, doc]));
        }
        target
    }

    fn source(&mut self, source: &SourceLoc) -> usize {
        self.strings.add(&source.to_string())
    }

    fn stack(&mut self, stack: &[ModuleFrame]) -> usize {
        let frames: Vec<usize> = stack
            .iter()
            .take(MAX_NESTING)
            .map(|frame| {
                let source = frame.source.as_ref().map(|source| self.source(source));
                let row = json!([
                    self.strings.add(&frame.path),
                    self.strings.add(&frame.type_name),
                    frame.call,
                    source
                ]);
                self.frames.add(row)
            })
            .collect();
        self.stacks.add(json!(frames))
    }

    /// Writes the arguments: the name of the parameter, if it has one, and the text.
    fn args(&mut self, graph: &Graph, node: &Node) -> Vec<Json> {
        let params = node.op().map_or(&[][..], |op| op.params);
        let positional = node
            .args()
            .iter()
            .enumerate()
            .map(|(i, arg)| (params.get(i).map_or("", |param| param.name), arg));
        let named = node.kwargs().iter().map(|(key, arg)| (&**key, arg));
        let mut args = Vec::new();
        for (key, arg) in positional.chain(named) {
            let mut text = String::new();
            let leaf = &mut |id: &NodeId, f: &mut dyn std::fmt::Write| {
                write!(f, "%{}", graph.node(*id).map_or("", Node::name))
            };
            arg.write(&mut text, leaf, &mut |graph, f| write!(f, "@{}", graph.name()))
                .expect("writing to a string cannot fail");
            let has_input = u8::from(has_leaf(arg));
            args.push(json!([self.strings.add(key), self.strings.add(&text), has_input]));
        }
        args
    }

    fn step(&mut self, pass: &PassReport, state: usize) -> Json {
        let diff = pass.diff.as_deref().unwrap_or_default();
        let mut lines: Vec<usize> = diff.lines().take(MAX_DIFF).map(|line| self.strings.add(line)).collect();
        let left = diff.lines().count() - lines.len();
        if left > 0 {
            lines.push(self.strings.add(&format!("... and {left} lines more")));
        }
        let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        json!({
            "name": self.strings.add(&pass.name),
            "state": state,
            "changes": pass.changes,
            "created": pass.created,
            "erased": pass.erased,
            "replaced": pass.replaced,
            "moved": pass.moved,
            "nodes": pass.nodes,
            "runs": pass.n_runs,
            "micros": micros(pass.time),
            "checked": micros(pass.verify_time),
            "notes": pass.notes.iter().map(|note| self.strings.add(note)).collect::<Vec<_>>(),
            "diff": lines,
        })
    }

    fn finish(mut self, title: &str, states: Vec<Json>, steps: Vec<Json>) -> Json {
        let title = self.strings.add(title);
        json!({
            "format": FORMAT,
            "title": title,
            "families": FAMILIES.map(|(key, label)| json!([key, label])),
            "strings": self.strings.list,
            "frames": self.frames.rows,
            "stacks": self.stacks.rows,
            "nodes": self.nodes.rows,
            "graphs": self.graphs.rows,
            "ops": self.ops,
            "states": states,
            "steps": steps,
        })
    }
}

fn has_leaf(arg: &Arg) -> bool {
    let mut found = false;
    arg.walk(&mut |arg| found |= matches!(arg, Arg::Leaf(_)));
    found
}

/// Says what the path of a node refers to: `Linear(in=3, out=4)`, `parameter f32[3]`.
fn about(node: &Node, gm: &GraphModule) -> Option<String> {
    match node.target() {
        Target::CallModule(path) => {
            let module = gm.child(path).ok()?.as_module();
            Some(format!("{}({})", module.type_name(), module.extra_repr()))
        }
        Target::GetAttr(path) => {
            let attribute = gm.attribute(path).ok()?;
            let kind = match attribute {
                Attribute::Parameter(_) => "parameter",
                Attribute::Buffer(_) => "buffer",
                Attribute::Constant(_) => "constant",
                Attribute::State(_) => "state",
            };
            Some(format!("{kind} {}", attribute.type_tree().ok()?))
        }
        _ => None,
    }
}
