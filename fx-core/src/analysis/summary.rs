//! [`Summary`]: the cost of each module of a program, as a table.

use std::collections::BTreeMap;
use std::fmt;

use rustc_hash::FxHashMap;

use super::cost::{Cost, Costs, ParameterCount, Sizes};
use super::memory::Peak;
use crate::{Arg, Attribute, Dim, GraphModule, OpCode, Result, Target, Type, TypeTree};

/// A module with everything that was recorded in it.
#[derive(Clone, Debug)]
pub struct ModuleRow {
    /// The dotted path; empty for the whole program.
    pub path: String,
    /// The type of the module.
    pub type_name: String,
    /// How many modules it is nested in, the whole program being 0.
    pub depth: usize,
    /// The number of calls and other computing nodes.
    pub nodes: usize,
    /// How many of them have a cost that is not known, or only in part.
    pub unknown: usize,
    /// The parameters at paths below this one.
    pub parameters: ParameterCount,
    /// The cost of the nodes whose cost is known.
    pub cost: Cost,
    /// The type of the last value.
    pub output: Option<TypeTree>,
}

/// The costs of a program by module.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The modules in the order of the program, each after the one that it is in; the whole program first.
    pub rows: Vec<ModuleRow>,
    /// When most memory is taken by values; `None` if a size is not a number.
    pub peak: Option<Peak>,
}

#[derive(Default)]
struct Rows {
    rows: Vec<ModuleRow>,
    by_path: FxHashMap<String, usize>,
}

impl Rows {
    fn row(&mut self, path: &str, type_name: &str) -> usize {
        if let Some(row) = self.by_path.get(path) {
            return *row;
        }
        let depth = match path {
            "" => 0,
            _ => {
                let parents = path.match_indices('.').map(|(i, _)| &path[..i]);
                1 + parents.filter(|parent| self.by_path.contains_key(*parent)).count()
            }
        };
        self.by_path.insert(path.to_owned(), self.rows.len());
        self.rows.push(ModuleRow {
            path: path.to_owned(),
            type_name: type_name.to_owned(),
            depth,
            nodes: 0,
            unknown: 0,
            parameters: ParameterCount::default(),
            cost: Cost::ZERO,
            output: None,
        });
        self.rows.len() - 1
    }

    /// Adds the nodes of a graph to the rows of the modules that they are in, below `prefix`.
    fn add(&mut self, gm: &GraphModule, costs: &Costs, prefix: &str, whole: usize) {
        let join = |path: &str| if prefix.is_empty() { path.to_owned() } else { format!("{prefix}.{path}") };
        for (id, node) in gm.graph().nodes() {
            let is_computing =
                !matches!(node.opcode(), OpCode::Placeholder | OpCode::GetAttr | OpCode::Output);
            let (Some(cost), true) = (costs.of(id), is_computing) else { continue };
            let mut rows = vec![whole];
            for frame in node.meta().stack.iter().flat_map(|stack| stack.iter()) {
                if !frame.path.is_empty() {
                    rows.push(self.row(&join(&frame.path), &frame.type_name));
                }
            }
            let child = match node.target() {
                Target::CallModule(path) => gm.child(path).ok().map(|child| (join(path), child)),
                _ => None,
            };
            if let Some((path, child)) = &child {
                rows.push(self.row(path, child.as_module().type_name()));
            }
            rows.sort_unstable();
            rows.dedup();
            for row in &rows {
                let row = &mut self.rows[*row];
                row.nodes += 1;
                row.unknown += usize::from(!cost.is_known());
                let known = |part: &Option<Dim>| Some(part.clone().unwrap_or(Dim::new(0)));
                row.cost += &Cost {
                    flops: known(&cost.flops),
                    read: known(&cost.read),
                    written: known(&cost.written),
                };
                row.output = costs.type_of(id).cloned().filter(|ty| *ty != Arg::Leaf(Type::Any));
            }
            if let (Some((path, child)), Some(costs)) = (child, costs.of_child(id))
                && let Some(inner) = child.as_module().as_any().downcast_ref::<GraphModule>()
            {
                let row = self.row(&path, "GraphModule");
                // The call itself was counted with all its nodes; the rows below count theirs.
                let before = self.rows[row].clone();
                self.add(inner, costs, &path, row);
                self.rows[row] = before;
            }
        }
    }
}

impl Summary {
    /// Sums up a program, with numbers for some of its symbolic sizes. Fails as
    /// [`Costs::new`](super::Costs::new) does.
    pub fn new(gm: &GraphModule, sizes: &Sizes) -> Result<Summary> {
        let costs = Costs::new(gm, sizes)?;
        let mut rows = Rows::default();
        let whole = rows.row("", gm.name());
        rows.add(gm, &costs, "", whole);
        rows.rows[whole].output =
            costs.type_of(gm.graph().output_node()).cloned().filter(TypeTree::is_complete);
        if rows.rows[whole].output.is_none() {
            let output = gm
                .graph()
                .output()
                .try_flat_map(&mut |id| Ok(costs.type_of(*id).cloned().unwrap_or(Arg::Leaf(Type::Any))));
            rows.rows[whole].output = output.ok();
        }
        let parameters = parameters(gm);
        for row in &mut rows.rows {
            row.parameters = match row.path.as_str() {
                "" => super::cost::count_parameters(gm),
                path => {
                    // `/` follows `.`, so this is the range of the paths below.
                    let below = parameters.range(format!("{path}.")..format!("{path}/"));
                    let mut sum = ParameterCount::default();
                    below.for_each(|(_, count)| sum += *count);
                    sum
                }
            };
        }
        Ok(Summary { rows: rows.rows, peak: costs.peak().cloned() })
    }

    /// Returns the row of the whole program.
    pub fn whole(&self) -> &ModuleRow {
        &self.rows[0]
    }
}

/// Returns the parameters by path.
fn parameters(gm: &GraphModule) -> BTreeMap<String, ParameterCount> {
    let mut found = BTreeMap::new();
    for (path, attribute) in gm.attributes() {
        if let Attribute::Parameter(parameter) = attribute {
            found.insert(path.to_owned(), ParameterCount::of(parameter));
        }
    }
    for (path, child) in gm.children() {
        for (inner, parameter) in crate::module::collect_parameters(child.as_module()) {
            found.insert(format!("{path}.{inner}"), ParameterCount::of(parameter));
        }
    }
    found
}

/// Writes a count with a unit of thousands: `1.23 M`.
fn short(dim: &Option<Dim>, unit: &str) -> String {
    let Some(dim) = dim else { return "?".to_owned() };
    let Some(n) = dim.known() else { return dim.to_string() };
    let (mut x, mut prefix) = (n as f64, "");
    for next in ["k", "M", "G", "T", "P", "E"] {
        if x.abs() < 1000.0 {
            break;
        }
        (x, prefix) = (x / 1000.0, next);
    }
    let text = if prefix.is_empty() { n.to_string() } else { format!("{x:.2}") };
    let gap = if prefix.is_empty() && unit.is_empty() { "" } else { " " };
    format!("{text}{gap}{prefix}{unit}")
}

/// A table of the modules, the totals, and the peak of memory.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["module", "type", "nodes", "parameters", "flops", "bytes", "output"];
        let mut lines: Vec<[String; 7]> = vec![heads.map(str::to_owned)];
        for row in &self.rows {
            let name = if row.path.is_empty() { "(all)" } else { &row.path };
            let unknown = if row.unknown > 0 { "+?" } else { "" };
            lines.push([
                format!("{:width$}{name}", "", width = row.depth * 2),
                row.type_name.clone(),
                row.nodes.to_string(),
                short(&Some(Dim::new(row.parameters.elements as i64)), ""),
                format!("{}{unknown}", short(&row.cost.flops, "")),
                format!("{}{unknown}", short(&row.cost.bytes(), "B")),
                row.output.as_ref().map_or(String::new(), ToString::to_string),
            ]);
        }
        let widths: Vec<usize> =
            (0..7).map(|i| lines.iter().map(|line| line[i].chars().count()).max().unwrap_or(0)).collect();
        for line in &lines {
            let mut text = String::new();
            for (i, cell) in line.iter().enumerate() {
                let pad = " ".repeat(widths[i] - cell.chars().count());
                let is_number = (2..6).contains(&i);
                text += &if is_number { format!("{pad}{cell}  ") } else { format!("{cell}{pad}  ") };
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        let whole = self.whole();
        let bytes = Some(Dim::new(whole.parameters.bytes as i64));
        writeln!(f, "\nparameters  {} in {}", whole.parameters.elements, short(&bytes, "B"))?;
        match &self.peak {
            Some(peak) => {
                write!(
                    f,
                    "peak memory of values  {} at %{}",
                    short(&Some(Dim::new(peak.bytes)), "B"),
                    peak.node
                )?;
                if peak.untyped > 0 {
                    write!(f, ", without {} nodes whose type is not known", peak.untyped)?;
                }
                writeln!(f)?;
            }
            None => writeln!(f, "peak memory of values  depends on sizes; give them with --size NAME=N")?,
        }
        if whole.unknown > 0 {
            writeln!(f, "{} nodes have a cost that is not known", whole.unknown)?;
        }
        Ok(())
    }
}
