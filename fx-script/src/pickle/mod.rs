//! The pickles of TorchScript archives as plain data: [`read`] and [`write()`] are inverse.
//!
//! A pickle is a program for a small stack machine. [`read`] runs the instructions that PyTorch writes and
//! refuses all others, and nothing that a pickle names is ever called: the names that may occur are a table
//! in `global`, and each makes one kind of [`Node`]. Nodes live in an arena, so that shared nodes stay one
//! and the memory is proportional to the pickle; the nodes below a [`Pickle`]'s root contain no cycle and are
//! at most [`MAX_DEPTH`] deep. `crate::archive` gives the nodes their meaning.

mod global;
mod read;
mod scalar_type;
mod write;

use std::sync::Arc;

pub use self::read::read;
pub use self::scalar_type::ScalarType;
pub use self::write::{Builder, write};

/// The deepest nesting of nodes that a pickle may have.
pub const MAX_DEPTH: usize = 64;
/// The most nodes that a pickle may have.
pub const MAX_NODES: usize = 1 << 21;

/// A node of a [`Pickle`], by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeRef(u32);

/// A value of a pickle.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A complex number: its real and imaginary part.
    Complex(f64, f64),
    /// Text.
    Str(Arc<str>),
    /// A tuple.
    Tuple(Vec<NodeRef>),
    /// A list.
    List(Vec<NodeRef>),
    /// A dictionary: its entries in order.
    Dict(Vec<(NodeRef, NodeRef)>),
    /// A list or dictionary with its type, such as `Dict[str, List[int]]`.
    Tagged {
        /// The list or dictionary.
        value: NodeRef,
        /// Its type, as TorchScript writes it.
        ty: Arc<str>,
    },
    /// A device, such as `cpu` or `cuda:0`.
    Device(Arc<str>),
    /// A storage, which several tensors may share.
    Storage(StorageInfo),
    /// A tensor: a view of a storage.
    Tensor(TensorInfo),
    /// An object of a class.
    Object {
        /// The qualified name of the class.
        class: Arc<str>,
        /// What the object was saved as: a dictionary of its attributes, or the result of its `__getstate__`.
        state: NodeRef,
    },
    /// A member of an enumeration.
    Enum {
        /// The qualified name of the enumeration.
        class: Arc<str>,
        /// The value of the member.
        value: NodeRef,
    },
}

/// Elements of one type, one after the other, in a member of their own.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageInfo {
    /// The type of the elements.
    pub scalar_type: ScalarType,
    /// The name of the member, below the folder of storages.
    pub key: Arc<str>,
    /// The number of elements.
    pub numel: usize,
}

/// A tensor as a view of a storage; offset and strides count elements.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorInfo {
    /// The [`Node::Storage`] that holds the elements.
    pub storage: NodeRef,
    /// The position of the first element.
    pub offset: usize,
    /// The size of each axis.
    pub sizes: Vec<usize>,
    /// The distance of neighbours along each axis.
    pub strides: Vec<usize>,
    /// Scale and zero point of a quantised tensor.
    pub quantizer: Option<(f64, i64)>,
    /// Whether the tensor is trained.
    pub requires_grad: bool,
}

/// The nodes of a pickle.
#[derive(Clone, Debug)]
pub struct Pickle {
    nodes: Vec<Node>,
    /// The byte of the instruction that made each node.
    offsets: Vec<u32>,
    root: NodeRef,
}

impl Pickle {
    /// Returns the node that the whole pickle stands for.
    pub fn root(&self) -> NodeRef {
        self.root
    }

    /// Returns a node.
    ///
    /// # Panics
    ///
    /// Panics if the reference belongs to another pickle with more nodes.
    pub fn node(&self, node: NodeRef) -> &Node {
        &self.nodes[node.0 as usize]
    }

    /// Returns the byte of the instruction that made a node; 0 in a pickle that was built.
    pub fn offset(&self, node: NodeRef) -> usize {
        self.offsets.get(node.0 as usize).map_or(0, |&offset| offset as usize)
    }

    /// Returns the storage and the layout of a tensor, or `None` for another node.
    pub fn tensor(&self, node: NodeRef) -> Option<(&StorageInfo, &TensorInfo)> {
        let Node::Tensor(tensor) = self.node(node) else { return None };
        match self.node(tensor.storage) {
            Node::Storage(storage) => Some((storage, tensor)),
            _ => None,
        }
    }
}

impl Node {
    /// Calls a function with each node that this one refers to, in order.
    pub fn for_each_child(&self, mut visit: impl FnMut(NodeRef)) {
        match self {
            Node::Tuple(items) | Node::List(items) => items.iter().copied().for_each(visit),
            Node::Dict(entries) => entries.iter().for_each(|&(key, value)| {
                visit(key);
                visit(value);
            }),
            Node::Tagged { value, .. } | Node::Enum { value, .. } => visit(*value),
            Node::Object { state, .. } => visit(*state),
            Node::Tensor(tensor) => visit(tensor.storage),
            Node::None
            | Node::Bool(_)
            | Node::Int(_)
            | Node::Float(_)
            | Node::Complex(..)
            | Node::Str(_)
            | Node::Device(_)
            | Node::Storage(_) => {}
        }
    }

    /// Names the kind of the node, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Node::None => "None",
            Node::Bool(_) => "a bool",
            Node::Int(_) => "an int",
            Node::Float(_) => "a float",
            Node::Complex(..) => "a complex number",
            Node::Str(_) => "a string",
            Node::Tuple(_) => "a tuple",
            Node::List(_) => "a list",
            Node::Dict(_) => "a dictionary",
            Node::Tagged { .. } => "a typed container",
            Node::Device(_) => "a device",
            Node::Storage(_) => "a storage",
            Node::Tensor(_) => "a tensor",
            Node::Object { .. } => "an object",
            Node::Enum { .. } => "a member of an enumeration",
        }
    }
}
