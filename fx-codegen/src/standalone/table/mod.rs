//! The table of operations: how each becomes calls of kernels. Arguments are read by the names of the schema.

mod convolution;
mod count;
mod data;
mod detect;
mod fft;
mod index;
mod linalg;
mod lists;
mod loss;
mod mask;
mod network;
mod numbers;
mod order;
mod random;
mod regions;
mod resample;
mod tensor;

use fx_core::array::{bf16, f16};
use fx_core::op::Kind;
use fx_core::window;
use fx_core::{Arg, DType, Dim, Op, Result, Scalar, Type, TypeTree, bail, err};

use super::kernels;
use super::lower::Lowering;
use super::step::{Length, Piece, Pieces, Room};
use super::value::{Home, Value, View};

/// Writes an operation.
pub(super) type Emit = fn(&mut Lowering<'_>, &Args<'_>) -> Result<Value>;

/// Operations besides pointwise ones that are a part of loops.
pub(super) const LOOPS: &[&str] = &["to", "type_as", "where", "masked_fill"];

/// Operations whose results are made of elements of the operands, at positions that sizes tell, and of zeros.
pub(super) const MOVES: &[&str] = &[
    "block_diag",
    "channel_shuffle",
    "column_stack",
    "concat",
    "diag",
    "diag_embed",
    "dstack",
    "flip",
    "fliplr",
    "flipud",
    "hstack",
    "im2col",
    "pixel_shuffle",
    "pixel_unshuffle",
    "repeat",
    "roll",
    "rot90",
    "tile",
    "vstack",
];

/// The rows, by family.
const TABLES: &[&[(&str, Emit)]] = &[
    convolution::TABLE,
    count::TABLE,
    data::TABLE,
    detect::TABLE,
    fft::TABLE,
    index::TABLE,
    linalg::TABLE,
    lists::TABLE,
    loss::TABLE,
    mask::TABLE,
    network::TABLE,
    numbers::TABLE,
    order::TABLE,
    random::TABLE,
    regions::TABLE,
    resample::TABLE,
    tensor::TABLE,
];

/// Rows that move elements of any dtype as they are, or run sub-graphs.
pub(super) const ANY_ELEMENTS: &[&str] = &[
    "argsort",
    "cat",
    "cond",
    "dropout",
    "embedding",
    "empty",
    "empty_like",
    "for_loop",
    "full",
    "full_like",
    "gather",
    "index",
    "index_copy",
    "index_fill",
    "index_select",
    "list_get",
    "list_len",
    "list_push",
    "masked_scatter",
    "masked_select",
    "msort",
    "one_hot",
    "ones",
    "ones_like",
    "pad",
    "rand",
    "rand_like",
    "repeat_interleave",
    "select_scatter",
    "slice_scatter",
    "diagonal_scatter",
    "sort",
    "stack",
    "take",
    "take_along_dim",
    "topk",
    "unique",
    "unique_consecutive",
    "view_dtype",
    "while_loop",
    "zeros",
    "zeros_like",
];

/// Rows whose results have sizes that data decide, which they find out.
pub(super) const BINDS: &[&str] = &[
    "argwhere",
    "bincount",
    "cat",
    "cond",
    "for_loop",
    "getitem",
    "index",
    "item",
    "masked_select",
    "nms",
    "nonzero",
    "num_int",
    "one_hot",
    "repeat_interleave",
    "stack",
    "unique",
    "unique_consecutive",
    "while_loop",
];

/// Returns how an operation of this name is written.
pub(super) fn find(name: &str) -> Option<Emit> {
    TABLES.iter().copied().flatten().find(|(known, _)| *known == name).map(|(_, emit)| *emit)
}

/// Returns the names of the operations that have code besides pointwise operations and views, sorted.
pub(super) fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = TABLES.iter().copied().flatten().map(|(name, _)| *name).collect();
    names.extend(LOOPS.iter().chain(MOVES));
    names.sort_unstable();
    names
}

/// The arguments of an operation, in schema order, and the type of its result.
pub(super) struct Args<'a> {
    pub(super) op: Op,
    pub(super) args: &'a [Value],
    pub(super) ty: &'a TypeTree,
}

impl Args<'_> {
    pub(super) fn get(&self, name: &str) -> Result<&Value> {
        let at = self.op.params.iter().position(|param| param.name == name);
        at.and_then(|at| self.args.get(at)).ok_or_else(|| err!(Argument, "there is no argument {name:?}"))
    }

    pub(super) fn view(&self, name: &str) -> Result<&View> {
        self.get(name)?.leaf().ok_or_else(|| err!(Unresolved, "{name} is not a tensor"))
    }

    pub(super) fn opt_view(&self, name: &str) -> Result<Option<&View>> {
        match self.get(name)? {
            Arg::None => Ok(None),
            Arg::Leaf(view) => Ok(Some(view)),
            other => bail!(Unresolved, "{name} is {}", other.kind_name()),
        }
    }

    /// Returns the tensors of a list.
    pub(super) fn views(&self, name: &str) -> Result<Vec<&View>> {
        let items = self.get(name)?.items().ok_or_else(|| err!(Unresolved, "{name} is no list"))?;
        items.iter().map(|item| item.leaf().ok_or_else(|| err!(Unresolved, "{name} has no tensor"))).collect()
    }

    pub(super) fn is_none(&self, name: &str) -> Result<bool> {
        Ok(matches!(self.get(name)?, Arg::None))
    }

    pub(super) fn int(&self, name: &str) -> Result<i64> {
        match self.get(name)? {
            Arg::Int(x) => Ok(*x),
            other => bail!(Unresolved, "{name} is {}, not a known integer", other.kind_name()),
        }
    }

    /// Returns an integer that may be a size.
    pub(super) fn size(&self, name: &str) -> Result<Dim> {
        match self.get(name)? {
            Arg::Dim(size) => Ok(size.clone()),
            _ => self.int(name).map(Dim::new),
        }
    }

    pub(super) fn float(&self, name: &str) -> Result<f64> {
        self.get(name)?
            .scalar()
            .map(Scalar::to_f64)
            .ok_or_else(|| err!(Unresolved, "{name} is not a known number"))
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool> {
        self.get(name)?
            .scalar()
            .map(Scalar::to_bool)
            .ok_or_else(|| err!(Unresolved, "{name} is not a known bool"))
    }

    pub(super) fn text(&self, name: &str) -> Result<&str> {
        match self.get(name)? {
            Arg::Str(text) => Ok(text),
            other => bail!(Unresolved, "{name} is {}", other.kind_name()),
        }
    }

    /// Returns a list of integers; one integer is a list of one, nothing is no list.
    pub(super) fn ints(&self, name: &str) -> Result<Option<Vec<i64>>> {
        match self.get(name)? {
            Arg::None => Ok(None),
            Arg::Int(x) => Ok(Some(vec![*x])),
            Arg::List(items) | Arg::Tuple(items) => items
                .iter()
                .map(|item| match item {
                    Arg::Int(x) => Ok(*x),
                    other => bail!(Unresolved, "{name} has {}, not a known integer", other.kind_name()),
                })
                .collect::<Result<_>>()
                .map(Some),
            other => bail!(Unresolved, "{name} is {}", other.kind_name()),
        }
    }

    /// Returns an axis of a tensor of this rank, counted from the front.
    pub(super) fn axis(&self, name: &str, rank: usize) -> Result<usize> {
        front(self.int(name)?, rank)
    }

    /// Returns axes, all of them if none is given, sorted.
    pub(super) fn axes(&self, name: &str, rank: usize) -> Result<Vec<usize>> {
        let axes = match self.ints(name)? {
            None => return Ok((0..rank).collect()),
            Some(axes) if axes.is_empty() => return Ok((0..rank).collect()),
            Some(axes) => axes,
        };
        let mut axes = axes.into_iter().map(|axis| front(axis, rank)).collect::<Result<Vec<_>>>()?;
        axes.sort_unstable();
        axes.dedup();
        Ok(axes)
    }

    /// Returns the dtype and shape of the only result.
    pub(super) fn result(&self) -> Result<(DType, Vec<Dim>)> {
        let ty = self.ty.tensor().ok_or_else(|| err!(Unresolved, "its result is {}", self.ty))?;
        Ok((ty.dtype, ty.shape.to_vec()))
    }

    /// Returns the dtypes and shapes of results.
    pub(super) fn results(&self) -> Vec<(DType, Vec<Dim>)> {
        let tensors = self.ty.leaves().into_iter().filter_map(Type::tensor);
        tensors.map(|ty| (ty.dtype, ty.shape.to_vec())).collect()
    }

    /// Refuses a dtype in which an operation is not computed.
    pub(super) fn expect_float(&self, view: &View) -> Result<()> {
        if view.dtype.is_float() {
            return Ok(());
        }
        Err(err!(DType, "it has no stand-alone code for {}", view.dtype))
    }

    /// Says whether the schema has the parameter.
    pub(super) fn has(&self, name: &str) -> bool {
        self.op.params.iter().any(|param| param.name == name && !matches!(param.kind, Kind::Graph))
    }
}

/// Returns an axis counted from the front.
pub(super) fn front(axis: i64, rank: usize) -> Result<usize> {
    let at = if axis < 0 { axis + rank.max(1) as i64 } else { axis };
    match usize::try_from(at) {
        Ok(at) if at < rank.max(1) => Ok(at),
        _ => bail!(Index, "there is no axis {axis} of {rank}"),
    }
}

/// Returns a position that counts from the front; nothing is 0.
pub(super) fn from_front(arg: &Value, size: &Dim) -> Result<Dim> {
    match arg {
        Arg::None => Ok(Dim::new(0)),
        Arg::Int(x) => Ok(window::from_front(&Dim::new(*x), size)),
        Arg::Dim(dim) => Ok(window::from_front(dim, size)),
        other => bail!(Unresolved, "a position is {other}", other = other.kind_name()),
    }
}

pub(super) fn text(text: impl Into<String>) -> Pieces {
    vec![Piece::Text(text.into())]
}

/// Returns a number of type `f64`.
pub(super) fn real(x: f64) -> Pieces {
    text(number(Scalar::Float(x), DType::F64))
}

pub(super) fn size(dim: &Dim) -> Pieces {
    vec![Piece::Size(dim.clone())]
}

pub(super) fn read(view: &View) -> Pieces {
    vec![Piece::Read(view.clone())]
}

/// Writes a list of sizes.
pub(super) fn list(dims: &[Dim]) -> Pieces {
    let mut pieces = text("[");
    for (i, dim) in dims.iter().enumerate() {
        if i > 0 {
            pieces.push(Piece::Text(", ".to_owned()));
        }
        pieces.push(Piece::Size(dim.clone()));
    }
    pieces.push(Piece::Text("]".to_owned()));
    pieces
}

/// Writes `Some(..)` or `None`.
pub(super) fn optional(pieces: Option<Pieces>) -> Pieces {
    match pieces {
        None => text("None"),
        Some(inner) => wrap("Some(", inner, ")"),
    }
}

pub(super) fn wrap(before: &str, inner: Pieces, after: &str) -> Pieces {
    [text(before), inner, text(after)].concat()
}

/// Writes a struct with these fields.
pub(super) fn fields(name: &str, fields: Vec<(&str, Pieces)>) -> Pieces {
    let mut pieces = text(format!("{name} {{ "));
    for (i, (field, value)) in fields.into_iter().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        pieces.push(Piece::Text(format!("{comma}{field}: ")));
        pieces.extend(value);
    }
    pieces.push(Piece::Text(" }".to_owned()));
    pieces
}

/// Writes a literal that is no tensor.
pub(super) fn plain(arg: &Value) -> Result<String> {
    Ok(match arg {
        Arg::None => "None".to_owned(),
        Arg::Bool(x) => x.to_string(),
        Arg::Int(x) => format!("{x}_i64"),
        Arg::Float(x) => number(Scalar::Float(*x), DType::F64),
        Arg::Str(text) => format!("\"{}\"", text.escape_default()),
        Arg::List(items) | Arg::Tuple(items) => {
            let items = items.iter().map(plain).collect::<Result<Vec<_>>>()?;
            format!("&[{}]", items.join(", "))
        }
        other => bail!(Unresolved, "an argument is {}", other.kind_name()),
    })
}

/// Writes a number of a dtype.
pub(super) fn number(x: Scalar, dtype: DType) -> String {
    let float = |text: String, name: &str, x: f64| match x {
        x if x.is_nan() => format!("{name}::NAN"),
        x if x == f64::INFINITY => format!("{name}::INFINITY"),
        x if x == f64::NEG_INFINITY => format!("{name}::NEG_INFINITY"),
        x if x.is_sign_negative() => format!("({text}_{name})"),
        _ => format!("{text}_{name}"),
    };
    match dtype {
        DType::Bool => x.to_bool().to_string(),
        DType::F32 => {
            let x = x.to_f64() as f32;
            float(format!("{x:?}"), "f32", f64::from(x))
        }
        DType::F16 => format!("f16::from_bits({:#06x})", f16::from_f32(x.to_f64() as f32).to_bits()),
        DType::BF16 => format!("bf16::from_bits({:#06x})", bf16::from_f32(x.to_f64() as f32).to_bits()),
        DType::F64 => float(format!("{:?}", x.to_f64()), "f64", x.to_f64()),
        dtype => {
            let x = match dtype {
                DType::U8 => i64::from(x.to_i64() as u8),
                DType::I8 => i64::from(x.to_i64() as i8),
                DType::I32 => i64::from(x.to_i64() as i32),
                _ => x.to_i64(),
            };
            if x == i64::MIN {
                "i64::MIN".to_owned()
            } else if x < 0 {
                format!("({x}_{dtype})")
            } else {
                format!("{x}_{dtype}")
            }
        }
    }
}

impl Lowering<'_> {
    /// Makes the buffer of a result: the value, and the piece that writes it.
    pub(super) fn out(&mut self, dtype: DType, shape: &[Dim]) -> (View, Pieces) {
        let view = self.buffer(dtype, shape);
        let piece = Piece::WriteView(view.clone());
        (view, vec![piece])
    }

    /// Makes room that a kernel uses while it runs.
    pub(super) fn work(&mut self, dtype: DType, room: Room, sizes: Vec<Dim>) -> Pieces {
        vec![Piece::Write(self.room(dtype, Length::Work(room, sizes)))]
    }

    /// As `work`, of so many elements.
    pub(super) fn spare(&mut self, dtype: DType, len: Dim) -> Pieces {
        vec![Piece::Write(self.room(dtype, Length::Of(len)))]
    }
}

pub(super) const GEMM_WORK: Room =
    Room { path: "gemm::work", of: |sizes| kernels::gemm::work(sizes[0], sizes[1]) };

/// Returns the buffer of a value.
pub(super) fn buffer_of(view: &View) -> Result<usize> {
    match view.home {
        Home::Buffer(id) => Ok(id),
        _ => bail!(Graph, "a result has no buffer"),
    }
}
