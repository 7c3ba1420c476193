//! What a method leaves: its result as the output of the graph, changed attributes as updates of buffers, and the
//! arguments that it wrote to.

use std::collections::BTreeMap;
use std::sync::Arc;

use fx_core::logging::{self, Stage};
use fx_script::value::{Key, Object, Value};

use super::scope::{CellRef, reachable, same, unchanged};
use super::{AttributeKind, Lowerer, Meaning, Step};
use crate::import::alias::{Origin, Storage};
use crate::{Arg, Attribute, Buffer, GraphModule, NodeId, OpCode, Parameter, Target, Tensor, err, ops};

/// How deep results may be nested.
const MAX_NESTING: usize = 64;

impl Lowerer<'_> {
    /// Remembers the module as it was before the method was called.
    pub(super) fn remember_module(&mut self) {
        let (cells, _) = reachable(self.roots.clone());
        self.module = cells.into_iter().map(|cell| (cell.clone(), cell.content())).collect();
    }

    /// Lists the storages of the method: the value of each, what keeps it, and how often it was written to.
    fn storages(&mut self) -> String {
        let builder = self.builder();
        let line = |(at, storage): (usize, &Storage)| {
            let value = builder.graph.node(storage.value).map_or("a removed value", |node| node.name());
            let origin = match &storage.origin {
                Origin::Local => "local".to_owned(),
                Origin::Input | Origin::Resizable => "an argument".to_owned(),
                Origin::Fixed(path) => format!("the constant {path}"),
                Origin::Buffer(path) => format!("the buffer {path}"),
            };
            let views = if storage.is_viewed { ", has views" } else { "" };
            format!("storage {at}: %{value}, {origin}, written {} times{views}", storage.version)
        };
        builder.storages.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Ends the graph with the result of the method, and makes the module.
    pub(super) fn finish(&mut self, root: &Arc<Object>, result: Value) -> Step<GraphModule> {
        self.source = None;
        self.builder().describe(crate::NodeMeta::default(), "");
        let result = self.output(&result, 0)?;
        let method = self.report.method.clone();
        logging::dump(Stage::Alias, &method, |_| self.storages())?;
        let mut updates = self.changed_attributes()?;
        let mut written: Vec<Arg> = Vec::new();
        for storage in 0..self.builder().storages.len() {
            let state = &self.builder().storages[storage];
            if state.version == 0 {
                continue;
            }
            let value = state.value;
            match state.origin.clone() {
                Origin::Buffer(path) => drop(updates.entry(path).or_insert(value)),
                Origin::Input => {
                    let name =
                        self.inputs.iter().find(|(_, own)| *own == storage).map(|(name, _)| name.clone());
                    if let Some(name) = name {
                        self.report.written_inputs.push(name);
                        written.push(Arg::Leaf(value));
                    }
                }
                Origin::Local | Origin::Fixed(_) | Origin::Resizable => {}
            }
        }
        for (path, node) in &updates {
            let reads_itself = matches!(
                self.builder().graph.node(*node)?.target(),
                Target::GetAttr(own) if **own == **path
            );
            if !reads_itself {
                let args = [Arg::str(path.as_str()), Arg::Leaf(*node)];
                let update = self.builder().update(args);
                self.attempt(update, ops::set_buffer::OP.name)?;
            }
        }
        let output = match written.is_empty() {
            true => result,
            false => Arg::tuple([result, Arg::tuple(written)]),
        };
        let graph = &mut self.builder().graph;
        graph.set_output(output)?;
        graph.eliminate_dead_code(|_| true);
        let graph = std::mem::take(graph);
        let name = root.class.name.rsplit('.').next().unwrap_or("Module").to_owned();
        self.module_of(&name, graph, &updates)
    }

    /// Makes the module: the graph with the attributes that it reads or updates.
    fn module_of(
        &mut self,
        name: &str,
        graph: crate::Graph,
        updates: &BTreeMap<String, NodeId>,
    ) -> Step<GraphModule> {
        let read: std::collections::HashSet<String> = graph
            .nodes()
            .filter(|(_, node)| node.opcode() == OpCode::GetAttr)
            .filter_map(|(_, node)| match node.target() {
                Target::GetAttr(path) => Some(path.to_string()),
                _ => None,
            })
            .collect();
        let mut gm = GraphModule::new(name, graph);
        for attribute in &self.attributes {
            let is_updated = updates.contains_key(&attribute.path);
            if !is_updated && !read.contains(&attribute.path) {
                continue;
            }
            let tensor = Tensor::new(attribute.tensor.array()?);
            let value = match attribute.kind {
                _ if is_updated => Attribute::Buffer(Buffer::new(tensor)),
                AttributeKind::Buffer => Attribute::Buffer(Buffer::new(tensor)),
                AttributeKind::Parameter => Attribute::Parameter(Parameter::new(tensor)),
                AttributeKind::Constant => Attribute::Constant(tensor),
            };
            gm.set_attribute(&attribute.path, value)?;
        }
        if let Some(violation) = gm.lint().first() {
            return Err(err!(Graph, "the graph of {name} is not sound: {violation}")
                .help("fx lowers the program wrongly; please report it")
                .into());
        }
        Ok(gm)
    }

    /// Returns the new values of attributes that are other tensors than before, by path.
    fn changed_attributes(&mut self) -> Step<BTreeMap<String, NodeId>> {
        let mut updates = BTreeMap::new();
        for (cell, before) in std::mem::take(&mut self.module) {
            let now = cell.content();
            if unchanged(&before, &now) {
                continue;
            }
            let CellRef::Object(object) = &cell else {
                return Err(self.obstacle_with(
                    "the program changes a list or dictionary of the module",
                    None,
                    Some("the attributes that a graph changes are tensors"),
                ));
            };
            for (i, (old, new)) in before.iter().zip(&now).enumerate() {
                if same(old, new) {
                    continue;
                }
                let path = match self.paths.get(&(Arc::as_ptr(object) as usize)) {
                    Some(path) if !path.is_empty() => format!("{path}.{}", object.class.slots()[i]),
                    _ => object.class.slots()[i].clone(),
                };
                let (path, node) = self.update_of(&path, old, new)?;
                updates.insert(path, node);
            }
        }
        Ok(updates)
    }

    /// Returns the buffer that an attribute is, and its new value.
    fn update_of(&mut self, path: &str, old: &Value, new: &Value) -> Step<(String, NodeId)> {
        let is_tensor = |this: &Self, value: &Value| this.kind_of(value) == Some(super::branch::Kind::Tensor);
        if !is_tensor(self, old) || !is_tensor(self, new) {
            return Err(self.obstacle_with(
                format!("the attribute {path:?} changes from {} to {}", old.type_name(), new.type_name()),
                None,
                Some("the attributes that a graph changes are tensors: `self.register_buffer`"),
            ));
        }
        let view = self.view_of(old)?;
        let storage = &self.builder().storages[view.storage];
        let Origin::Buffer(buffer) = storage.origin.clone() else {
            return Err(self.obstacle(format!("the attribute {path:?} changes, and was no buffer")));
        };
        let old_node = view.node;
        let node = self.node_of(new)?;
        let (before, after) = (self.tensor_type(old_node)?, self.tensor_type(node)?);
        if before != after {
            return Err(self.obstacle_with(
                format!("the attribute {path:?} is {before} before the call and {after} after it"),
                None,
                Some("a buffer keeps its dtype and sizes"),
            ));
        }
        Ok((buffer, node))
    }

    /// Returns a value as part of the output.
    fn output(&mut self, value: &Value, depth: usize) -> Step<Arg> {
        if depth > MAX_NESTING {
            return Err(self.obstacle(format!("the result is nested deeper than {MAX_NESTING}")));
        }
        Ok(match value {
            Value::None => Arg::None,
            Value::Bool(x) => Arg::Bool(*x),
            Value::Int(x) => Arg::Int(*x),
            Value::Float(x) => Arg::Float(*x),
            Value::Str(text) => Arg::str(&***text),
            Value::Enum(member) => self.output(&member.value, depth + 1)?,
            Value::Device(device) => Arg::str(device.to_string()),
            Value::Tensor(_) => Arg::Leaf(self.node_of(value)?),
            Value::List(list) => Arg::list(self.outputs(&list.read(Clone::clone), depth)?),
            Value::Tuple(tuple) => Arg::tuple(self.outputs(&tuple.items, depth)?),
            Value::Dict(dict) => {
                let mut entries = Vec::new();
                for (key, item) in dict.read(Clone::clone).iter() {
                    let Ok(Key::Str(text)) = Key::of(key) else {
                        return Err(self.obstacle(format!(
                            "the result is a dictionary whose keys are {}",
                            key.type_name()
                        )));
                    };
                    entries.push((Arc::<str>::from(&**text), self.output(item, depth + 1)?));
                }
                Arg::dict(entries)
            }
            Value::Symbol(symbol) => match self.meaning(symbol).clone() {
                Meaning::Tensor(_) | Meaning::Attribute(_) => Arg::Leaf(self.node_of(value)?),
                Meaning::Int(dim) => {
                    let lowered = self.builder().lower(&Arg::dim(dim));
                    self.attempt(lowered, "the result")?
                }
                Meaning::Float(node) | Meaning::Bool(node) => Arg::Leaf(node),
                Meaning::Uninitialized => return Err(self.obstacle("the result was never set")),
            },
            Value::Complex(_) | Value::Object(_) | Value::Future(_) => {
                return Err(self.obstacle(format!("the result has {} in it", value.type_name())));
            }
        })
    }

    fn outputs(&mut self, items: &[Value], depth: usize) -> Step<Vec<Arg>> {
        items.iter().map(|item| self.output(item, depth + 1)).collect()
    }
}
