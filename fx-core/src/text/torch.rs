//! The wording of torch.fx: `print(graph)` and `graph.print_tabular()`.

use std::fmt::{self, Write};
use std::sync::Arc;

use super::print::SubgraphNames;
use crate::arg::write_float;
use crate::{Arg, DType, Graph, Node, OpCode, Result, Target, err};

/// Cells longer than this are not cut, but do not widen their column either.
const MAX_COLUMN: usize = 60;

impl Graph {
    /// Returns the graph in the wording of torch.fx; sub-graphs follow under their names.
    ///
    /// ```text
    /// graph():
    ///     %x : [num_users=1] = placeholder[target=x]
    ///     %add : [num_users=1] = call_function[target=add](args = (%x, 1), kwargs = {})
    ///     return add
    /// ```
    pub fn to_torch_string(&self) -> String {
        self.in_sections(|graph, label, names, out| {
            match label {
                Some(label) => writeln!(out, "graph @{label}():")?,
                None => writeln!(out, "graph():")?,
            }
            for (_, node) in graph.nodes() {
                out.write_str("    ")?;
                write_node(graph, node, names, out)?;
                out.write_char('\n')?;
            }
            Ok(())
        })
    }

    /// Returns a table of the nodes: opcode, name, target, arguments and keyword arguments; one for each
    /// sub-graph too.
    pub fn tabular(&self) -> String {
        self.in_sections(|graph, label, names, out| {
            if let Some(label) = label {
                writeln!(out, "@{label}")?;
            }
            let mut rows = vec![["opcode", "name", "target", "args", "kwargs"].map(str::to_owned)];
            for (_, node) in graph.nodes() {
                let [mut args, mut kwargs] = [String::new(), String::new()];
                write_items(node.args().iter(), ["(", ")"], true, graph, Style::TABLE, names, &mut args)?;
                write_kwargs(node, graph, Style::TABLE, names, &mut kwargs)?;
                rows.push([
                    node.opcode().name().to_owned(),
                    node.name().to_owned(),
                    target(node),
                    args,
                    kwargs,
                ]);
            }
            write_table(&rows, out)
        })
    }

    /// Prints [`tabular`](Self::tabular) to standard output. Fails if the output cannot be written.
    pub fn print_tabular(&self) -> Result<()> {
        use std::io::Write;
        let mut out = std::io::stdout().lock();
        out.write_all(self.tabular().as_bytes()).map_err(|error| err!(Io, "cannot print: {error}"))
    }

    fn in_sections(
        &self,
        mut section: impl FnMut(&Graph, Option<&str>, &mut SubgraphNames, &mut String) -> fmt::Result,
    ) -> String {
        let mut out = String::new();
        let mut names = SubgraphNames::new(self.name());
        let mut result = section(self, None, &mut names, &mut out);
        while let (Ok(()), Some((graph, label))) = (result, names.queue.pop_front()) {
            out.push('\n');
            result = section(&graph, Some(&label), &mut names, &mut out);
        }
        result.expect("writing to a string cannot fail");
        out
    }
}

/// How nodes and text are written.
#[derive(Clone, Copy)]
struct Style {
    node_prefix: &'static str,
    quote: bool,
}

impl Style {
    const LINE: Style = Style { node_prefix: "%", quote: false };
    const TABLE: Style = Style { node_prefix: "", quote: true };
    const RETURN: Style = Style { node_prefix: "", quote: false };
}

fn target(node: &Node) -> String {
    match node.target() {
        Target::Placeholder | Target::Output => node.name().to_owned(),
        target => one_line(&target.to_string()),
    }
}

/// Escapes what would break the line.
fn one_line(text: &str) -> String {
    match text.chars().any(char::is_control) {
        true => text.escape_debug().to_string(),
        false => text.to_owned(),
    }
}

fn write_node(graph: &Graph, node: &Node, names: &mut SubgraphNames, out: &mut String) -> fmt::Result {
    if node.opcode() == OpCode::Output {
        out.write_str("return ")?;
        return write_arg(&node.args()[0], graph, Style::RETURN, names, out);
    }
    let (name, users, opcode) = (node.name(), node.n_users(), node.opcode());
    write!(out, "%{name} : [num_users={users}] = {opcode}[target={}]", target(node))?;
    if matches!(opcode, OpCode::Placeholder | OpCode::GetAttr) {
        return Ok(());
    }
    out.write_str("(args = ")?;
    write_items(node.args().iter(), ["(", ")"], true, graph, Style::LINE, names, out)?;
    out.write_str(", kwargs = ")?;
    write_kwargs(node, graph, Style::LINE, names, out)?;
    out.write_str(")")
}

fn write_kwargs(
    node: &Node,
    graph: &Graph,
    style: Style,
    names: &mut SubgraphNames,
    out: &mut String,
) -> fmt::Result {
    write_dict(node.kwargs(), graph, style, names, out)
}

fn write_dict(
    entries: &[(Arc<str>, Arg)],
    graph: &Graph,
    style: Style,
    names: &mut SubgraphNames,
    out: &mut String,
) -> fmt::Result {
    out.write_char('{')?;
    for (i, (key, value)) in entries.iter().enumerate() {
        out.write_str(if i > 0 { ", " } else { "" })?;
        write_text(key, style, out)?;
        out.write_str(": ")?;
        write_arg(value, graph, style, names, out)?;
    }
    out.write_char('}')
}

fn write_text(text: &str, style: Style, out: &mut String) -> fmt::Result {
    if style.quote { write!(out, "'{}'", text.escape_debug()) } else { out.write_str(&one_line(text)) }
}

fn write_items<'a>(
    items: impl ExactSizeIterator<Item = &'a Arg>,
    [open, close]: [&str; 2],
    is_tuple: bool,
    graph: &Graph,
    style: Style,
    names: &mut SubgraphNames,
    out: &mut String,
) -> fmt::Result {
    let needs_comma = is_tuple && items.len() == 1;
    out.write_str(open)?;
    for (i, item) in items.enumerate() {
        out.write_str(if i > 0 { ", " } else { "" })?;
        write_arg(item, graph, style, names, out)?;
    }
    out.write_str(if needs_comma { "," } else { "" })?;
    out.write_str(close)
}

fn write_arg(
    arg: &Arg,
    graph: &Graph,
    style: Style,
    names: &mut SubgraphNames,
    out: &mut String,
) -> fmt::Result {
    match arg {
        Arg::None => out.write_str("None"),
        Arg::Ellipsis => out.write_str("Ellipsis"),
        Arg::Bool(x) => out.write_str(if *x { "True" } else { "False" }),
        Arg::Int(x) => write!(out, "{x}"),
        Arg::Float(x) => write_float(*x, out),
        Arg::Str(x) => write_text(x, style, out),
        Arg::DType(x) => out.write_str(torch_dtype(*x)),
        Arg::Dim(x) => write!(out, "{x}"),
        Arg::Slice(x) => write_items(x.parts().into_iter(), ["slice(", ")"], false, graph, style, names, out),
        Arg::Tuple(items) => write_items(items.iter(), ["(", ")"], true, graph, style, names, out),
        Arg::List(items) => write_items(items.iter(), ["[", "]"], false, graph, style, names, out),
        Arg::Dict(entries) => write_dict(entries, graph, style, names, out),
        Arg::Graph(inner) => write!(out, "@{}", names.label(inner)),
        Arg::Leaf(id) => {
            write!(out, "{}{}", style.node_prefix, graph.node(*id).map_or("?", |node| node.name()))
        }
        Arg::Failed(error) => write!(out, "<error: {}>", one_line(error.message())),
    }
}

fn torch_dtype(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "torch.bool",
        DType::U8 => "torch.uint8",
        DType::I8 => "torch.int8",
        DType::I32 => "torch.int32",
        DType::I64 => "torch.int64",
        DType::F16 => "torch.float16",
        DType::BF16 => "torch.bfloat16",
        DType::F32 => "torch.float32",
        DType::F64 => "torch.float64",
    }
}

fn write_table(rows: &[[String; 5]], out: &mut String) -> fmt::Result {
    let width = |column: usize| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.filter(|n| *n <= MAX_COLUMN).max().unwrap_or(0)
    };
    let widths = [0, 1, 2, 3, 4].map(width);
    let rule = widths.map(|n| "-".repeat(n));
    for (i, row) in rows.iter().enumerate() {
        for row in std::iter::once(row).chain((i == 0).then_some(&rule)) {
            let start = out.len();
            for (cell, width) in row.iter().zip(widths) {
                write!(out, "{cell:width$}  ")?;
            }
            out.truncate(start + out[start..].trim_end().len());
            out.write_char('\n')?;
        }
    }
    Ok(())
}
