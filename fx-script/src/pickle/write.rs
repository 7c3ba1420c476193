//! Writes a pickle with the instructions, and in the order, of PyTorch's own writer.

use std::collections::HashMap;
use std::sync::Arc;

use fx_core::{Result, bail};

use super::global::typed_list;
use super::{MAX_DEPTH, Node, NodeRef, Pickle, StorageInfo, TensorInfo};

/// Makes a [`Pickle`] from nodes, children first.
#[derive(Debug, Default)]
pub struct Builder {
    nodes: Vec<Node>,
    depths: Vec<usize>,
}

impl Builder {
    /// Adds a node. Several nodes may refer to one, which then is one value.
    ///
    /// # Panics
    ///
    /// Panics if the node refers to one that this builder has not made.
    pub fn add(&mut self, node: Node) -> NodeRef {
        let mut depth = 0;
        node.for_each_child(|child| depth = depth.max(self.depths[child.0 as usize]));
        self.nodes.push(node);
        self.depths.push(depth + 1);
        NodeRef((self.nodes.len() - 1) as u32)
    }

    /// Adds text.
    pub fn text(&mut self, text: impl Into<Arc<str>>) -> NodeRef {
        self.add(Node::Str(text.into()))
    }

    /// Returns the pickle of a node. Fails if the node is nested deeper than [`MAX_DEPTH`], which no reader
    /// takes.
    pub fn finish(self, root: NodeRef) -> Result<Pickle> {
        let depth = self.depths[root.0 as usize];
        if depth > MAX_DEPTH {
            bail!(Limit, "the value is nested {depth} deep, expected at most {MAX_DEPTH}");
        }
        Ok(Pickle { nodes: self.nodes, offsets: Vec::new(), root })
    }
}

/// Writes a pickle. Equal pickles have equal bytes.
pub fn write(pickle: &Pickle) -> Vec<u8> {
    let mut writer = Writer {
        pickle,
        uses: uses(pickle),
        bytes: vec![0x80, 2],
        puts: 0,
        texts: HashMap::new(),
        names: HashMap::new(),
        storages: HashMap::new(),
        devices: HashMap::new(),
        nodes: HashMap::new(),
    };
    writer.node(pickle.root);
    writer.bytes.push(b'.');
    writer.bytes
}

/// Returns how many nodes refer to each node.
fn uses(pickle: &Pickle) -> Vec<u32> {
    let mut uses = vec![0; pickle.nodes.len()];
    let mut stack = vec![pickle.root];
    while let Some(node) = stack.pop() {
        pickle.node(node).for_each_child(|child| {
            uses[child.0 as usize] += 1;
            if uses[child.0 as usize] == 1 {
                stack.push(child);
            }
        });
    }
    uses
}

struct Writer<'a> {
    pickle: &'a Pickle,
    uses: Vec<u32>,
    bytes: Vec<u8>,
    /// How many memos there are.
    puts: u32,
    texts: HashMap<Arc<str>, u32>,
    names: HashMap<(String, String), u32>,
    storages: HashMap<Arc<str>, u32>,
    devices: HashMap<Arc<str>, u32>,
    nodes: HashMap<NodeRef, u32>,
}

impl Writer<'_> {
    /// Writes a node. The recursion is bounded, as the nesting of a pickle is.
    fn node(&mut self, at: NodeRef) {
        if let Some(&memo) = self.nodes.get(&at) {
            return self.get(memo);
        }
        let pickle = self.pickle;
        match pickle.node(at) {
            Node::None => self.bytes.push(b'N'),
            Node::Bool(true) => self.bytes.push(b'\x88'),
            Node::Bool(false) => self.bytes.push(b'\x89'),
            Node::Int(number) => self.int(*number),
            Node::Float(number) => self.float(*number),
            Node::Complex(re, im) => {
                self.name("builtins", "complex");
                self.float(*re);
                self.float(*im);
                self.bytes.extend(b"\x86R");
            }
            Node::Str(text) => self.text(text),
            Node::Tuple(items) => self.tuple(items),
            Node::List(items) => {
                self.bytes.extend(b"](");
                items.iter().for_each(|&item| self.node(item));
                self.bytes.push(b'e');
            }
            Node::Dict(entries) => {
                self.bytes.extend(b"}(");
                for &(key, value) in entries {
                    self.node(key);
                    self.node(value);
                }
                self.bytes.push(b'u');
            }
            Node::Tagged { value, ty } => match (typed_list(ty), pickle.node(*value)) {
                (Some((module, name)), Node::List(_)) => {
                    self.name(module, name);
                    self.bytes.push(b'(');
                    self.node(*value);
                    self.bytes.extend(b"tR");
                }
                _ => {
                    self.name("torch.jit._pickle", "restore_type_tag");
                    self.node(*value);
                    self.text(ty);
                    self.bytes.extend(b"\x86R");
                }
            },
            Node::Device(device) => self.device(device),
            Node::Storage(storage) => self.storage(storage),
            Node::Tensor(tensor) => self.tensor(tensor),
            Node::Object { class, state } => {
                self.class(class);
                self.bytes.extend(b")\x81");
                self.node(*state);
                self.bytes.push(b'b');
            }
            Node::Enum { class, value } => {
                self.class(class);
                self.node(*value);
                self.bytes.push(b'R');
            }
        }
        if self.is_memoized(at) {
            let memo = self.put();
            self.nodes.insert(at, memo);
        }
    }

    /// Returns whether a node is a value with an identity that another node refers to, too.
    fn is_memoized(&self, at: NodeRef) -> bool {
        match self.pickle.node(at) {
            Node::Tensor(_) | Node::Object { .. } => true,
            Node::Tuple(items) => !items.is_empty() && self.uses[at.0 as usize] > 1,
            Node::List(_) | Node::Dict(_) | Node::Tagged { .. } => self.uses[at.0 as usize] > 1,
            _ => false,
        }
    }

    fn tuple(&mut self, items: &[NodeRef]) {
        match items.len() {
            0 => self.bytes.push(b')'),
            n @ 1..=3 => {
                items.iter().for_each(|&item| self.node(item));
                self.bytes.push(0x84 + n as u8);
            }
            _ => {
                self.bytes.push(b'(');
                items.iter().for_each(|&item| self.node(item));
                self.bytes.push(b't');
            }
        }
    }

    fn int(&mut self, number: i64) {
        if let Ok(byte) = u8::try_from(number) {
            self.bytes.extend([b'K', byte]);
        } else if let Ok(short) = u16::try_from(number) {
            self.bytes.push(b'M');
            self.bytes.extend(short.to_le_bytes());
        } else if let Ok(int) = i32::try_from(number) {
            self.bytes.push(b'J');
            self.bytes.extend(int.to_le_bytes());
        } else {
            self.bytes.extend([b'\x8a', 8]);
            self.bytes.extend(number.to_le_bytes());
        }
    }

    fn float(&mut self, number: f64) {
        self.bytes.push(b'G');
        self.bytes.extend(number.to_be_bytes());
    }

    fn text(&mut self, text: &Arc<str>) {
        if let Some(&memo) = self.texts.get(text) {
            return self.get(memo);
        }
        self.bytes.push(b'X');
        self.bytes.extend((text.len() as u32).to_le_bytes());
        self.bytes.extend(text.as_bytes());
        let memo = self.put();
        self.texts.insert(text.clone(), memo);
    }

    fn class(&mut self, qualified: &str) {
        let (module, name) = qualified.rsplit_once('.').unwrap_or(("__torch__", qualified));
        self.name(module, name);
    }

    fn name(&mut self, module: &str, name: &str) {
        let key = (module.to_owned(), name.to_owned());
        if let Some(&memo) = self.names.get(&key) {
            return self.get(memo);
        }
        self.bytes.push(b'c');
        self.bytes.extend(format!("{module}\n{name}\n").bytes());
        let memo = self.put();
        self.names.insert(key, memo);
    }

    fn device(&mut self, device: &Arc<str>) {
        if let Some(&memo) = self.devices.get(device) {
            return self.get(memo);
        }
        self.name("torch", "device");
        self.text(device);
        self.bytes.extend(b"\x85R");
        let memo = self.put();
        self.devices.insert(device.clone(), memo);
    }

    fn storage(&mut self, storage: &StorageInfo) {
        if let Some(&memo) = self.storages.get(&storage.key) {
            return self.get(memo);
        }
        self.bytes.push(b'(');
        self.text(&Arc::from("storage"));
        self.name("torch", storage.scalar_type.storage_class());
        self.text(&storage.key);
        self.text(&Arc::from("cpu"));
        self.int(storage.numel as i64);
        self.bytes.extend(b"tQ");
        let memo = self.put();
        self.storages.insert(storage.key.clone(), memo);
    }

    fn tensor(&mut self, tensor: &TensorInfo) {
        self.name(
            "torch._utils",
            if tensor.quantizer.is_some() { "_rebuild_qtensor" } else { "_rebuild_tensor_v2" },
        );
        self.bytes.push(b'(');
        self.node(tensor.storage);
        self.int(tensor.offset as i64);
        for numbers in [&tensor.sizes, &tensor.strides] {
            self.bytes.push(b'(');
            numbers.iter().for_each(|&number| self.int(number as i64));
            self.bytes.push(b't');
        }
        if let Some((scale, zero)) = tensor.quantizer {
            self.bytes.push(b'(');
            self.name("torch", "per_tensor_affine");
            self.float(scale);
            self.int(zero);
            self.bytes.push(b't');
        }
        self.bytes.push(if tensor.requires_grad { b'\x88' } else { b'\x89' });
        self.name("collections", "OrderedDict");
        self.bytes.extend(b")RtR");
    }

    fn put(&mut self) -> u32 {
        let memo = self.puts;
        self.puts += 1;
        match u8::try_from(memo) {
            Ok(byte) => self.bytes.extend([b'q', byte]),
            Err(_) => {
                self.bytes.push(b'r');
                self.bytes.extend(memo.to_le_bytes());
            }
        }
        memo
    }

    fn get(&mut self, memo: u32) {
        match u8::try_from(memo) {
            Ok(byte) => self.bytes.extend([b'h', byte]),
            Err(_) => {
                self.bytes.push(b'j');
                self.bytes.extend(memo.to_le_bytes());
            }
        }
    }
}
