//! Reads a pickle: a stack machine without calls.

use std::collections::HashMap;
use std::sync::Arc;

use fx_core::{Error, Result, bail, err};

use super::global::{Global, Rebuild};
use super::{MAX_DEPTH, MAX_NODES, Node, NodeRef, Pickle, StorageInfo, TensorInfo};

/// The most bytes that a pickle may have.
const MAX_BYTES: usize = 1 << 28;

/// Reads the pickle of a member, whose name errors give beside the byte.
///
/// Fails if an instruction is not one that PyTorch writes, a name is not in the table of this module, a name
/// is used for something else than its purpose, or the value is deeper than [`MAX_DEPTH`], larger than
/// [`MAX_NODES`] or contains itself.
pub fn read(member: &str, bytes: &[u8]) -> Result<Pickle> {
    if bytes.len() > MAX_BYTES {
        bail!(Limit, "{member} has {} bytes, expected at most {MAX_BYTES}", bytes.len());
    }
    let mut machine = Machine::new(bytes);
    let at = |error: Error, byte: usize| error.in_file(member, Some(&format!("byte {byte}")));
    let root = machine.run().map_err(|error| at(error, machine.start))?;
    let parts = machine.finish(root).map_err(|(error, byte)| at(error, byte))?;
    Ok(parts)
}

/// What the machine keeps in the arena: a value, or something that only makes values.
#[derive(Debug)]
enum Cell {
    Value(Node),
    Global(Global),
    /// An object whose state is not known yet.
    New(Arc<str>),
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The byte of the present instruction.
    start: usize,
    cells: Vec<Cell>,
    offsets: Vec<u32>,
    stack: Vec<NodeRef>,
    /// The heights of the stack at the marks.
    marks: Vec<usize>,
    memo: HashMap<u32, NodeRef>,
    /// Values that have no identity are made once.
    unique: [Option<NodeRef>; 4],
}

impl<'a> Machine<'a> {
    fn new(bytes: &'a [u8]) -> Machine<'a> {
        Machine {
            bytes,
            at: 0,
            start: 0,
            cells: Vec::new(),
            offsets: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            unique: [None; 4],
        }
    }

    /// Runs all instructions; returns what the pickle stands for.
    fn run(&mut self) -> Result<NodeRef> {
        loop {
            self.start = self.at;
            match self.byte()? {
                b'.' => break,
                opcode => self.step(opcode)?,
            }
        }
        let root = self.pop()?;
        if !self.marks.is_empty() || !self.stack.is_empty() {
            bail!(Load, "the pickle ends with {} more values on its stack", self.stack.len());
        }
        if self.at != self.bytes.len() {
            bail!(Load, "{} bytes follow the end of the pickle", self.bytes.len() - self.at);
        }
        Ok(root)
    }

    fn step(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            b'\x80' => match self.byte()? {
                2 => {}
                version => {
                    return Err(err!(Load, "expected a pickle of protocol 2, got protocol {version}")
                        .help("save the program with `torch.jit.save`"));
                }
            },
            b'(' => self.marks.push(self.stack.len()),
            b')' => self.push_unique(3, Node::Tuple(Vec::new()))?,
            b't' => {
                let items = self.pop_to_mark()?;
                self.push(Node::Tuple(items))?;
            }
            b'\x85'..=b'\x87' => {
                let n = usize::from(opcode - 0x84);
                let items = self.pop_n(n)?;
                self.push(Node::Tuple(items))?;
            }
            b']' => self.push(Node::List(Vec::new()))?,
            b'a' => {
                let item = self.pop_value()?;
                self.top_list()?.push(item);
            }
            b'e' => {
                let items = self.pop_to_mark()?;
                self.check_values(&items)?;
                self.top_list()?.extend(items);
            }
            b'}' => self.push(Node::Dict(Vec::new()))?,
            b's' => {
                let value = self.pop_value()?;
                let key = self.pop_value()?;
                self.top_dict()?.push((key, value));
            }
            b'u' => {
                let items = self.pop_to_mark()?;
                self.check_values(&items)?;
                let (pairs, rest) = items.as_chunks::<2>();
                if !rest.is_empty() {
                    bail!(Load, "expected pairs of keys and values, got {} values", items.len());
                }
                self.top_dict()?.extend(pairs.iter().map(|&[key, value]| (key, value)));
            }
            b'N' => self.push_unique(0, Node::None)?,
            b'\x88' => self.push_unique(1, Node::Bool(true))?,
            b'\x89' => self.push_unique(2, Node::Bool(false))?,
            b'K' => {
                let byte = self.byte()?;
                self.push(Node::Int(byte.into()))?;
            }
            b'M' => {
                let number = u16::from_le_bytes(self.array()?);
                self.push(Node::Int(number.into()))?;
            }
            b'J' => {
                let number = i32::from_le_bytes(self.array()?);
                self.push(Node::Int(number.into()))?;
            }
            b'\x8a' => {
                let number = self.long()?;
                self.push(Node::Int(number))?;
            }
            b'G' => {
                let number = f64::from_be_bytes(self.array()?);
                self.push(Node::Float(number))?;
            }
            b'X' => {
                let n = u32::from_le_bytes(self.array()?) as usize;
                self.push_text(n)?;
            }
            b'U' => {
                let n = self.byte()?.into();
                self.push_text(n)?;
            }
            b'q' => {
                let index = self.byte()?.into();
                self.put(index)?;
            }
            b'r' => {
                let index = u32::from_le_bytes(self.array()?);
                self.put(index)?;
            }
            b'h' => {
                let index = self.byte()?.into();
                self.get(index)?;
            }
            b'j' => {
                let index = u32::from_le_bytes(self.array()?);
                self.get(index)?;
            }
            b'c' => self.global()?,
            b'\x81' => self.new_object()?,
            b'R' => self.reduce()?,
            b'b' => self.build()?,
            b'Q' => self.persistent_id()?,
            _ => {
                return Err(err!(
                    Load,
                    "the instruction {:#04x} of pickles is not one of TorchScript",
                    opcode
                )
                .help("the file is damaged, or was not written by `torch.jit.save`; nothing in it was run"));
            }
        }
        Ok(())
    }

    // Bytes.

    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let Some((taken, _)) = rest.split_at_checked(n) else {
            return Err(err!(Load, "the pickle ends too early: expected {n} more bytes, got {}", rest.len())
                .help("the file is truncated; copy or save it again"));
        };
        self.at += n;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N).map(|bytes| bytes.try_into().expect("as many bytes were taken"))
    }

    /// Reads a number of at most 8 bytes, little endian, in two's complement.
    fn long(&mut self) -> Result<i64> {
        let n = usize::from(self.byte()?);
        if n > 8 {
            bail!(Load, "expected an integer of at most 8 bytes, got one of {n}");
        }
        let bytes = self.take(n)?;
        let fill = if bytes.last().is_some_and(|&last| last >= 0x80) { 0xff } else { 0 };
        let mut wide = [fill; 8];
        wide[..n].copy_from_slice(bytes);
        Ok(i64::from_le_bytes(wide))
    }

    fn line(&mut self) -> Result<&'a str> {
        let rest = &self.bytes[self.at..];
        let n = rest.iter().take(4096).position(|&byte| byte == b'\n');
        let n = n.ok_or_else(|| err!(Load, "a name in the pickle does not end"))?;
        let line = &self.take(n + 1)?[..n];
        std::str::from_utf8(line).map_err(|_| err!(Load, "a name in the pickle is not valid UTF-8"))
    }

    // Stack, arena and memo.

    fn alloc(&mut self, cell: Cell) -> Result<NodeRef> {
        if self.cells.len() == MAX_NODES {
            bail!(Limit, "the pickle has more than {MAX_NODES} values");
        }
        let node = NodeRef(self.cells.len() as u32);
        self.cells.push(cell);
        self.offsets.push(self.start as u32);
        Ok(node)
    }

    fn push_cell(&mut self, cell: Cell) -> Result<()> {
        let node = self.alloc(cell)?;
        self.stack.push(node);
        Ok(())
    }

    fn push(&mut self, node: Node) -> Result<()> {
        self.push_cell(Cell::Value(node))
    }

    fn push_unique(&mut self, which: usize, node: Node) -> Result<()> {
        let made = match self.unique[which] {
            Some(made) => made,
            None => self.alloc(Cell::Value(node))?,
        };
        self.unique[which] = Some(made);
        self.stack.push(made);
        Ok(())
    }

    fn push_text(&mut self, n: usize) -> Result<()> {
        let bytes = self.take(n)?;
        let text = std::str::from_utf8(bytes).map_err(|_| err!(Load, "a string is not valid UTF-8"))?;
        self.push(Node::Str(Arc::from(text)))
    }

    /// Takes the value at the top, which must lie above the last mark.
    fn pop(&mut self) -> Result<NodeRef> {
        if self.stack.len() <= self.marks.last().copied().unwrap_or(0) {
            bail!(Load, "the instruction needs a value, but the stack holds none");
        }
        Ok(self.stack.pop().expect("the stack is higher than its last mark"))
    }

    fn pop_value(&mut self) -> Result<NodeRef> {
        let node = self.pop()?;
        self.check_values(&[node])?;
        Ok(node)
    }

    fn pop_n(&mut self, n: usize) -> Result<Vec<NodeRef>> {
        let mut items = (0..n).map(|_| self.pop()).collect::<Result<Vec<_>>>()?;
        items.reverse();
        Ok(items)
    }

    fn pop_to_mark(&mut self) -> Result<Vec<NodeRef>> {
        let mark =
            self.marks.pop().ok_or_else(|| err!(Load, "the instruction needs a mark, but there is none"))?;
        Ok(self.stack.split_off(mark))
    }

    fn top(&self) -> Result<NodeRef> {
        let above = &self.stack[self.marks.last().copied().unwrap_or(0)..];
        above
            .last()
            .copied()
            .ok_or_else(|| err!(Load, "the instruction needs a value, but the stack holds none"))
    }

    fn put(&mut self, index: u32) -> Result<()> {
        let node = self.top()?;
        self.memo.insert(index, node);
        Ok(())
    }

    fn get(&mut self, index: u32) -> Result<()> {
        let node = self.memo.get(&index);
        let node = *node.ok_or_else(|| err!(Load, "there is no memo {index}"))?;
        self.stack.push(node);
        Ok(())
    }

    fn cell(&self, node: NodeRef) -> &Cell {
        &self.cells[node.0 as usize]
    }

    fn value(&self, node: NodeRef) -> Result<&Node> {
        match self.cell(node) {
            Cell::Value(value) => Ok(value),
            Cell::Global(_) => bail!(Load, "expected a value, got the name of a class or a function"),
            Cell::New(class) => bail!(Load, "the object of {class} is used before it has a state"),
        }
    }

    fn check_values(&self, nodes: &[NodeRef]) -> Result<()> {
        nodes.iter().try_for_each(|&node| self.value(node).map(|_| ()))
    }

    fn top_list(&mut self) -> Result<&mut Vec<NodeRef>> {
        let top = self.top()?;
        match &mut self.cells[top.0 as usize] {
            Cell::Value(Node::List(items)) => Ok(items),
            _ => bail!(Load, "expected a list to append to"),
        }
    }

    fn top_dict(&mut self) -> Result<&mut Vec<(NodeRef, NodeRef)>> {
        let top = self.top()?;
        match &mut self.cells[top.0 as usize] {
            Cell::Value(Node::Dict(entries)) => Ok(entries),
            _ => bail!(Load, "expected a dictionary to add to"),
        }
    }

    // Names, objects and rebuilt values.

    fn global(&mut self) -> Result<()> {
        let (module, name) = (self.line()?, self.line()?);
        let global = Global::find(module, name).ok_or_else(|| {
            err!(Load, "the name {:?} has no place in a pickle of TorchScript", format!("{module}.{name}"))
                .help("the file is hostile, or was not written by `torch.jit.save`; nothing in it was run")
        })?;
        self.push_cell(Cell::Global(global))
    }

    fn new_object(&mut self) -> Result<()> {
        let args = self.pop()?;
        let class = self.pop()?;
        let Cell::Global(Global::Class(class)) = self.cell(class) else {
            bail!(Load, "expected a class to make an object of");
        };
        let class = class.clone();
        match self.value(args)? {
            Node::Tuple(items) if items.is_empty() => self.push_cell(Cell::New(class)),
            other => bail!(Load, "expected no arguments for a new object of {class}, got {}", other.kind()),
        }
    }

    fn build(&mut self) -> Result<()> {
        let state = self.pop_value()?;
        let object = self.top()?;
        let Cell::New(class) = self.cell(object) else {
            bail!(Load, "expected a new object, to which a state is given");
        };
        let node = Node::Object { class: class.clone(), state };
        self.cells[object.0 as usize] = Cell::Value(node);
        Ok(())
    }

    fn persistent_id(&mut self) -> Result<()> {
        let id = self.pop()?;
        let expected = || {
            err!(
                Load,
                "expected the identifier of a storage: ('storage', class, key, device, number of elements)"
            )
        };
        let Node::Tuple(items) = self.value(id)? else { return Err(expected()) };
        let &[kind, class, key, device, numel] = &items[..] else { return Err(expected()) };
        let Cell::Global(Global::Storage(scalar_type)) = *self.cell(class) else { return Err(expected()) };
        match (self.value(kind)?, self.value(key)?, self.value(device)?, self.value(numel)?) {
            (Node::Str(kind), Node::Str(key), Node::Str(_), Node::Int(numel)) if &**kind == "storage" => {
                let numel = unsigned(*numel, "number of elements")?;
                if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b)) {
                    bail!(Load, "the key {key:?} of a storage is not the name of a member");
                }
                let storage = StorageInfo { scalar_type, key: key.clone(), numel };
                self.push(Node::Storage(storage))
            }
            _ => Err(expected()),
        }
    }

    fn reduce(&mut self) -> Result<()> {
        let args = self.pop()?;
        let function = self.pop()?;
        let Cell::Global(global) = self.cell(function) else {
            bail!(Load, "expected the name of a class or a function, to which arguments are given");
        };
        let rebuild = match global {
            Global::Class(class) => {
                let class = class.clone();
                self.value(args)?;
                return self.push(Node::Enum { class, value: args });
            }
            Global::Rebuild(rebuild) => *rebuild,
            Global::Storage(_) | Global::PerTensorAffine => {
                bail!(Load, "a class of storages and a quantisation scheme take no arguments")
            }
        };
        let Node::Tuple(items) = self.value(args)? else {
            bail!(Load, "expected a tuple of arguments");
        };
        let node = match (rebuild, &items[..]) {
            (Rebuild::OrderedDict, []) => Node::Dict(Vec::new()),
            (Rebuild::TypedList(ty), &[list]) => match self.value(list)? {
                Node::List(_) => Node::Tagged { value: list, ty: Arc::from(ty) },
                other => bail!(Load, "expected a list for {ty}, got {}", other.kind()),
            },
            (Rebuild::TypeTag, &[value, ty]) => match (self.value(value)?, self.value(ty)?) {
                (Node::List(_) | Node::Dict(_), Node::Str(ty)) => Node::Tagged { value, ty: ty.clone() },
                (other, Node::Str(_)) => bail!(Load, "expected a list or a dictionary, got {}", other.kind()),
                (_, other) => bail!(Load, "expected a type as a string, got {}", other.kind()),
            },
            (Rebuild::Device, &[device]) => match self.value(device)? {
                Node::Str(device) => Node::Device(device.clone()),
                other => bail!(Load, "expected a device as a string, got {}", other.kind()),
            },
            (Rebuild::Complex, &[re, im]) => match (self.value(re)?, self.value(im)?) {
                (&Node::Float(re), &Node::Float(im)) => Node::Complex(re, im),
                (a, b) => {
                    bail!(Load, "expected two floats for a complex number, got {} and {}", a.kind(), b.kind())
                }
            },
            (Rebuild::Tensor, &[storage, offset, sizes, strides, requires_grad, hooks]) => {
                self.tensor([storage, offset, sizes, strides, requires_grad, hooks], None)?
            }
            (
                Rebuild::QuantizedTensor,
                &[storage, offset, sizes, strides, quantizer, requires_grad, hooks],
            ) => {
                let quantizer = self.quantizer(quantizer)?;
                self.tensor([storage, offset, sizes, strides, requires_grad, hooks], Some(quantizer))?
            }
            (rebuild, items) => bail!(Load, "{} arguments do not fit {rebuild:?}", items.len()),
        };
        self.push(node)
    }

    fn tensor(&self, args: [NodeRef; 6], quantizer: Option<(f64, i64)>) -> Result<Node> {
        let [storage, offset, sizes, strides, requires_grad, hooks] = args;
        let Node::Storage(info) = self.value(storage)? else {
            bail!(
                Load,
                "expected a storage as the first part of a tensor, got {}",
                self.value(storage)?.kind()
            );
        };
        let offset = match self.value(offset)? {
            Node::Int(offset) => unsigned(*offset, "offset")?,
            other => bail!(Load, "expected an int as the offset of a tensor, got {}", other.kind()),
        };
        let (sizes, strides) = (self.numbers(sizes, "size")?, self.numbers(strides, "stride")?);
        let Node::Bool(requires_grad) = *self.value(requires_grad)? else {
            bail!(Load, "expected a bool that says whether a tensor requires a gradient");
        };
        match self.value(hooks)? {
            Node::Dict(entries) if entries.is_empty() => {}
            _ => bail!(Load, "expected no hooks of a tensor"),
        }
        check_bounds(info, offset, &sizes, &strides)?;
        Ok(Node::Tensor(TensorInfo { storage, offset, sizes, strides, quantizer, requires_grad }))
    }

    fn numbers(&self, tuple: NodeRef, what: &str) -> Result<Vec<usize>> {
        let Node::Tuple(items) = self.value(tuple)? else {
            bail!(Load, "expected a tuple of {what}s, got {}", self.value(tuple)?.kind());
        };
        if items.len() > MAX_DEPTH {
            bail!(Limit, "a tensor has {} axes, expected at most {MAX_DEPTH}", items.len());
        }
        let number = |&item: &NodeRef| match self.value(item)? {
            Node::Int(n) => unsigned(*n, what),
            other => bail!(Load, "expected an int as a {what} of a tensor, got {}", other.kind()),
        };
        items.iter().map(number).collect()
    }

    fn quantizer(&self, tuple: NodeRef) -> Result<(f64, i64)> {
        if let Node::Tuple(items) = self.value(tuple)?
            && let &[scheme, scale, zero] = &items[..]
            && matches!(self.cell(scheme), Cell::Global(Global::PerTensorAffine))
            && let (&Node::Float(scale), &Node::Int(zero)) = (self.value(scale)?, self.value(zero)?)
        {
            return Ok((scale, zero));
        }
        Err(err!(Load, "expected the quantisation (per_tensor_affine, scale, zero point)")
            .help("tensors that are quantised by channel are not supported"))
    }

    /// Makes the pickle of everything below the root; checks that it is a tree but for shared parts, and not too
    /// deep. An error comes with the byte of the value.
    fn finish(&mut self, root: NodeRef) -> Result<Pickle, (Error, usize)> {
        let offset = |machine: &Self, node: NodeRef| machine.offsets[node.0 as usize] as usize;
        // 0 of a node that was not seen, 1 of one that is open, else the depth and 1.
        let mut state = vec![0u8; self.cells.len()];
        let mut stack = vec![(root, false)];
        let mut children = Vec::new();
        while let Some((node, done)) = stack.pop() {
            let value = self.value(node).map_err(|error| (error, offset(self, node)))?;
            children.clear();
            value.for_each_child(|child| children.push(child));
            if done {
                let below = children.iter().map(|child| state[child.0 as usize]).max();
                let depth = below.map_or(2, |below| below + 1);
                if usize::from(depth) > MAX_DEPTH + 1 {
                    let error = err!(Limit, "the value is nested deeper than {MAX_DEPTH}");
                    return Err((error, offset(self, node)));
                }
                state[node.0 as usize] = depth;
                continue;
            }
            match state[node.0 as usize] {
                0 => {
                    state[node.0 as usize] = 1;
                    stack.push((node, true));
                    stack.extend(
                        children.iter().filter(|child| state[child.0 as usize] < 2).map(|&c| (c, false)),
                    );
                }
                1 => return Err((err!(Load, "the value contains itself"), offset(self, node))),
                _ => {}
            }
        }
        let nodes = std::mem::take(&mut self.cells).into_iter();
        let nodes = nodes.map(|cell| match cell {
            Cell::Value(node) => node,
            // Nothing below the root refers to these.
            Cell::Global(_) | Cell::New(_) => Node::None,
        });
        Ok(Pickle { nodes: nodes.collect(), offsets: std::mem::take(&mut self.offsets), root })
    }
}

fn unsigned(number: i64, what: &str) -> Result<usize> {
    usize::try_from(number).map_err(|_| err!(Load, "expected a {what} of at least 0, got {number}"))
}

/// Checks that all elements of a view lie in its storage.
fn check_bounds(storage: &StorageInfo, offset: usize, sizes: &[usize], strides: &[usize]) -> Result<()> {
    if sizes.len() != strides.len() {
        bail!(Load, "a tensor has {} sizes and {} strides", sizes.len(), strides.len());
    }
    let numel = sizes.iter().try_fold(1usize, |n, &size| n.checked_mul(size.max(1)));
    if numel.is_none_or(|numel| isize::try_from(numel).is_err()) {
        bail!(Limit, "the sizes {sizes:?} are too much for any tensor");
    }
    if sizes.contains(&0) {
        return Ok(());
    }
    let mut last = Some(offset);
    for (&size, &stride) in sizes.iter().zip(strides) {
        last = last.and_then(|last| last.checked_add((size - 1).checked_mul(stride)?));
    }
    if last.is_none_or(|last| last >= storage.numel) {
        return Err(err!(
            Load,
            "a tensor with sizes {sizes:?} and strides {strides:?} from {offset} reaches beyond the {} elements of \
             storage {:?}",
            storage.numel,
            storage.key
        )
        .help("the file is damaged; save it again"));
    }
    Ok(())
}
