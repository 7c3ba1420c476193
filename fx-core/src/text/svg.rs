//! A picture of a graph as SVG, without any tool: boxes with name, call and type, coloured by opcode;
//! sub-graphs beside.

use std::fmt::{self, Write};

use rustc_hash::FxHashMap;

use super::dot::{colours, cut};
use super::layout::{Layout, Size, layout};
use super::print::{SubgraphNames, format_node};
use crate::{Graph, Node, NodeId, OpCode, Target};

const MAX_TEXT: usize = 34;
/// The width of a character at font size 1, in the monospace fonts that are asked for.
const CHARACTER: f64 = 0.605;
const NAME_SIZE: f64 = 13.0;
const TEXT_SIZE: f64 = 11.0;
const LINE: f64 = 16.0;
const PADDING: f64 = 12.0;
const MARGIN: f64 = 28.0;
const TITLE: f64 = 34.0;
const LEGEND: f64 = 40.0;

const OPCODES: [OpCode; 6] = [
    OpCode::Placeholder,
    OpCode::GetAttr,
    OpCode::CallFunction,
    OpCode::CallMethod,
    OpCode::CallModule,
    OpCode::Output,
];

impl Graph {
    /// Returns a picture of the graph as an SVG document; sub-graphs stand beside it under their names.
    pub fn to_svg(&self) -> String {
        let mut names = SubgraphNames::new(self.name());
        let mut panels = vec![Panel::new(self, self.name(), &mut names)];
        while let Some((graph, label)) = names.queue.pop_front() {
            panels.push(Panel::new(&graph, &format!("@{label}"), &mut names));
        }
        let mut out = String::new();
        write_document(&panels, &mut out).expect("writing to a string cannot fail");
        out
    }
}

/// One graph, laid out.
struct Panel {
    title: String,
    boxes: Vec<Box>,
    layout: Layout,
}

struct Box {
    opcode: OpCode,
    /// Name, call, type.
    lines: Vec<String>,
    tooltip: String,
    size: Size,
}

impl Panel {
    fn new(graph: &Graph, title: &str, names: &mut SubgraphNames) -> Self {
        let boxes: Vec<Box> = graph.nodes().map(|(id, node)| Box::new(graph, id, node, names)).collect();
        let positions: FxHashMap<NodeId, usize> =
            graph.nodes().enumerate().map(|(i, (id, _))| (id, i)).collect();
        let inputs: Vec<Vec<usize>> =
            graph.nodes().map(|(_, node)| node.inputs().map(|id| positions[&id]).collect()).collect();
        let sizes: Vec<Size> = boxes.iter().map(|b| b.size).collect();
        Panel { title: title.to_owned(), boxes, layout: layout(&sizes, &inputs) }
    }

    fn width(&self) -> f64 {
        let title = self.title.chars().count() as f64 * NAME_SIZE * CHARACTER;
        self.layout.width.max(title) + 2.0 * MARGIN
    }

    fn height(&self) -> f64 {
        self.layout.height + TITLE + 2.0 * MARGIN
    }
}

impl Box {
    fn new(graph: &Graph, id: NodeId, node: &Node, names: &mut SubgraphNames) -> Self {
        let mut lines = Vec::with_capacity(3);
        lines.push(if node.opcode() == OpCode::Output {
            "return".to_owned()
        } else {
            format!("%{}", node.name())
        });
        lines.extend(call_text(graph, node, names));
        lines.extend(node.ty().map(ToString::to_string));
        let lines: Vec<String> = lines.iter().map(|line| cut(line, MAX_TEXT)).collect();
        let width = |(i, line): (usize, &String)| {
            line.chars().count() as f64 * CHARACTER * if i == 0 { NAME_SIZE } else { TEXT_SIZE }
        };
        let size = Size {
            width: (lines.iter().enumerate().map(width).fold(0.0, f64::max) + 2.0 * PADDING)
                .max(64.0)
                .round(),
            height: lines.len() as f64 * LINE + PADDING,
            sinks: node.opcode() == OpCode::GetAttr
                || node.opcode() != OpCode::Placeholder && node.inputs().len() == 0,
        };
        let source = node.meta().source.as_ref().map_or_else(String::new, |source| format!("\n{source}"));
        let tooltip = cut(&format_node(graph, id), 500) + &source;
        Box { opcode: node.opcode(), lines, tooltip, size }
    }
}

/// Returns the call, with a dot for each argument that an edge shows.
fn call_text(graph: &Graph, node: &Node, names: &mut SubgraphNames) -> Option<String> {
    let mut text = String::new();
    let mut args = node.args();
    let mut write = || -> fmt::Result {
        match node.target() {
            Target::Placeholder => return Ok(()),
            Target::Output => {
                if !matches!(graph.output(), crate::Arg::Leaf(_)) {
                    write_arg(graph.output(), names, &mut text)?;
                }
                return Ok(());
            }
            Target::GetAttr(path) => return write!(text, "self.{path}"),
            Target::CallModule(path) => write!(text, "self.{path}(")?,
            Target::CallFunction(op) => write!(text, "{}(", op.name)?,
            Target::CallMethod(op) => {
                args = args.get(1..).unwrap_or_default();
                write!(text, ".{}(", op.name)?;
            }
        }
        for (i, arg) in args.iter().enumerate() {
            text.write_str(if i > 0 { ", " } else { "" })?;
            write_arg(arg, names, &mut text)?;
        }
        for (i, (key, arg)) in node.kwargs().iter().enumerate() {
            write!(text, "{}{key}=", if i > 0 || !args.is_empty() { ", " } else { "" })?;
            write_arg(arg, names, &mut text)?;
        }
        text.write_char(')')
    };
    write().expect("writing to a string cannot fail");
    (!text.is_empty()).then_some(text)
}

fn write_arg(arg: &crate::Arg, names: &mut SubgraphNames, text: &mut String) -> fmt::Result {
    arg.write(text, &mut |_, f| f.write_char('\u{b7}'), &mut |graph, f| write!(f, "@{}", names.label(graph)))
}

fn write_document(panels: &[Panel], out: &mut String) -> fmt::Result {
    let places = arrange(panels);
    let right = |i: usize| places[i].0 + panels[i].width();
    let bottom = |i: usize| places[i].1 + panels[i].height();
    let width = (0..panels.len()).map(right).fold(720.0, f64::max) + MARGIN;
    let height = (0..panels.len()).map(bottom).fold(0.0, f64::max) + MARGIN;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"ui-monospace, SFMono-Regular, Menlo, 'DejaVu Sans Mono', \
         Consolas, monospace\">"
    )?;
    writeln!(
        out,
        "<style>.n{{font-size:{NAME_SIZE}px;font-weight:600;fill:#1c2430}}.c{{font-size:{TEXT_SIZE}px;fill:#3d4859}}\
         .t{{font-size:{TEXT_SIZE}px;fill:#7b8797}}.e{{fill:none;stroke:#98a3b3;stroke-width:1.3}}\
         .l{{fill:none;stroke:#98a3b3;stroke-width:1;stroke-opacity:.35}}\
         .h{{font-size:14px;font-weight:700;fill:#3d4859}}</style>"
    )?;
    writeln!(
        out,
        "<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6.5\" markerHeight=\"6.5\" \
         orient=\"auto\"><path d=\"M0 .8 7.4 4 0 7.2 1.6 4z\" fill=\"#7f8b9c\"/></marker></defs>"
    )?;
    writeln!(out, "<rect width=\"100%\" height=\"100%\" fill=\"#f6f8fa\"/>")?;
    write_legend(out)?;
    for (panel, (x, y)) in panels.iter().zip(&places) {
        write_panel(panel, *x, *y, out)?;
    }
    out.write_str("</svg>\n")
}

/// Puts the first panel at the left and the others in columns beside it that are about as high.
fn arrange(panels: &[Panel]) -> Vec<(f64, f64)> {
    let top = LEGEND + MARGIN / 2.0;
    let column_height = panels.first().map_or(0.0, Panel::height).max(900.0);
    let (mut x, mut y, mut column_width) = (MARGIN, top, 0.0f64);
    let mut places = Vec::with_capacity(panels.len());
    for (i, panel) in panels.iter().enumerate() {
        if i == 1 || y > top && y + panel.height() > top + column_height {
            (x, y, column_width) = (x + column_width + MARGIN, top, 0.0);
        }
        places.push((x, y));
        y += panel.height() + MARGIN;
        column_width = column_width.max(panel.width());
    }
    places
}

fn write_legend(out: &mut String) -> fmt::Result {
    let mut x = MARGIN;
    for opcode in OPCODES {
        let (fill, line) = colours(opcode);
        let y = 18.0;
        writeln!(
            out,
            "<rect x=\"{x:.0}\" y=\"{y}\" width=\"13\" height=\"13\" rx=\"3\" fill=\"{fill}\" stroke=\"{line}\"/>\
             <text class=\"c\" x=\"{:.0}\" y=\"{}\">{opcode}</text>",
            x + 19.0,
            y + 10.5
        )?;
        x += 19.0 + opcode.name().len() as f64 * TEXT_SIZE * CHARACTER + 22.0;
    }
    Ok(())
}

fn write_panel(panel: &Panel, x: f64, y: f64, out: &mut String) -> fmt::Result {
    writeln!(out, "<g transform=\"translate({x:.1} {y:.1})\">")?;
    writeln!(
        out,
        "<rect width=\"{:.1}\" height=\"{:.1}\" rx=\"12\" fill=\"#fff\" stroke=\"#dde3ea\"/>\
         <text class=\"h\" x=\"{MARGIN}\" y=\"32\">{}</text>",
        panel.width(),
        panel.height(),
        escape(&panel.title)
    )?;
    let left = (panel.width() - panel.layout.width) / 2.0;
    writeln!(out, "<g transform=\"translate({left:.1} {:.1})\">", TITLE + MARGIN)?;
    let layout = &panel.layout;
    for &(from, to) in &layout.direct {
        let ((x1, y1), (x2, y2)) = (layout.centres[from], layout.centres[to]);
        let (y1, y2) = (y1 + panel.boxes[from].size.height / 2.0, y2 - panel.boxes[to].size.height / 2.0);
        write_path("l", &[(x1, y1), (x2, y2)], true, out)?;
    }
    for (points, is_end) in &layout.pieces {
        write_path("e", points, *is_end, out)?;
    }
    for (node, centre) in panel.boxes.iter().zip(&layout.centres) {
        write_box(node, *centre, out)?;
    }
    out.write_str("</g>\n</g>\n")
}

/// Draws vertical parts straight, and the others as curves that leave and arrive vertically.
fn write_path(class: &str, points: &[(f64, f64)], has_arrow: bool, out: &mut String) -> fmt::Result {
    let Some((&(mut x, mut y), rest)) = points.split_first() else { return Ok(()) };
    write!(out, "<path class=\"{class}\" d=\"M{x:.1} {y:.1}")?;
    for &(to_x, to_y) in rest {
        if (to_x - x).abs() < 0.05 {
            write!(out, "V{to_y:.1}")?;
        } else {
            let middle = (y + to_y) / 2.0;
            write!(out, "C{x:.1} {middle:.1} {to_x:.1} {middle:.1} {to_x:.1} {to_y:.1}")?;
        }
        (x, y) = (to_x, to_y);
    }
    out.write_str("\"")?;
    out.write_str(if has_arrow { " marker-end=\"url(#a)\"/>\n" } else { "/>\n" })
}

fn write_box(node: &Box, (x, y): (f64, f64), out: &mut String) -> fmt::Result {
    let (fill, line) = colours(node.opcode);
    let Size { width, height, .. } = node.size;
    let (left, top) = (x - width / 2.0, y - height / 2.0);
    write!(
        out,
        "<g><title>{}</title><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"7\" \
         fill=\"{fill}\" stroke=\"{line}\" stroke-width=\"1.2\"/>",
        escape(&node.tooltip)
    )?;
    let n = node.lines.len();
    for (i, text) in node.lines.iter().enumerate() {
        let is_type = i > 0 && i == n - 1 && (n == 3 || node.opcode == OpCode::Placeholder);
        let class = if i == 0 {
            "n"
        } else if is_type {
            "t"
        } else {
            "c"
        };
        let baseline = top + PADDING / 2.0 + LINE * i as f64 + 12.0;
        let text = escape(text);
        write!(
            out,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{baseline:.1}\" text-anchor=\"middle\">{text}</text>"
        )?;
    }
    out.write_str("</g>\n")
}

/// Escapes text for XML, in which control characters cannot occur.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | ' '..='~' | '\u{b7}' => out.push(c),
            c if c.is_alphanumeric() => out.push(c),
            c => write!(out, "\\u{{{:x}}}", c as u32).expect("writing to a string cannot fail"),
        }
    }
    out
}
