//! [`Sample`]: arguments to try an operation on, written as text, or guessed from the schema.

use std::fmt;

use super::{call, examples};
use crate::gufunc::{CoreAxis, GufuncDef};
use crate::{Arg, Array, DType, Kind, Op, Result, Scalar, Stored, Tensor, TensorType, Value, bail, err};

/// Arguments to try an operation on.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The arguments by position.
    pub args: Vec<Value>,
    /// The arguments by name.
    pub kwargs: Vec<(String, Value)>,
}

impl Sample {
    /// Makes a sample of arguments by position.
    pub fn new(args: impl IntoIterator<Item = Value>) -> Self {
        Sample { args: args.into_iter().collect(), kwargs: Vec::new() }
    }

    /// Reads arguments as text, such as `f32[2, 3], i64[4]<2, dim=-1, mode="sum"`.
    ///
    /// A type stands for a tensor with elements that are the same each time: floats between 0 and 1, with the
    /// size added on the diagonal of square matrices so that they are positive definite; integers below what
    /// follows `<`, or below 3; bools of both kinds. `[..]` is a list, `(..)` a tuple, a bare dtype is a
    /// dtype. Fails if the text is malformed.
    pub fn parse(text: &str) -> Result<Self> {
        let mut reader = Reader { text, at: 0, tensors: 0 };
        let mut sample = Sample::default();
        reader.blanks();
        while reader.at < text.len() {
            match reader.keyword() {
                Some(name) => sample.kwargs.push((name.to_owned(), reader.value()?)),
                None if sample.kwargs.is_empty() => sample.args.push(reader.value()?),
                None => bail!(Parse, "an argument by position follows one by name in {text:?}"),
            }
            if !reader.takes(",") && reader.at < text.len() {
                bail!(Parse, "expected , in {text:?} before {:?}", &text[reader.at..]);
            }
        }
        Ok(sample)
    }
}

/// The arguments, with types for tensors.
impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args = self.args.iter().map(super::rule::describe);
        let kwargs = self.kwargs.iter().map(|(key, value)| format!("{key}={}", super::rule::describe(value)));
        f.write_str(&args.chain(kwargs).collect::<Vec<_>>().join(", "))
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    tensors: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn takes(&mut self, token: &str) -> bool {
        let takes = self.rest().starts_with(token);
        if takes {
            self.at += token.len();
            self.blanks();
        }
        takes
    }

    fn word(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn keyword(&mut self) -> Option<&'a str> {
        let start = self.at;
        let name = self.word(|c| c.is_alphanumeric() || c == '_');
        if !name.is_empty() && self.takes("=") {
            return Some(name);
        }
        self.at = start;
        None
    }

    fn items(&mut self, close: &str) -> Result<Vec<Value>> {
        let mut items = Vec::new();
        while !self.takes(close) {
            items.push(self.value()?);
            if !self.takes(",") && !self.rest().starts_with(close) {
                bail!(Parse, "expected {close} in {:?} before {:?}", self.text, self.rest());
            }
        }
        Ok(items)
    }

    fn value(&mut self) -> Result<Value> {
        if self.takes("[") {
            return self.items("]").map(Arg::list);
        }
        if self.takes("(") {
            return self.items(")").map(Arg::tuple);
        }
        if self.takes("\"") {
            let text = self.word(|c| c != '"');
            if !self.takes("\"") {
                bail!(Parse, "missing \" in {:?}", self.text);
            }
            return Ok(Arg::str(text));
        }
        let word = self.word(|c| c.is_alphanumeric() || "+-._".contains(c));
        if self.rest().starts_with('[') {
            let shape = self.word(|c| c != ']');
            self.takes("]");
            let ty: TensorType = format!("{word}{shape}]").parse()?;
            let below =
                if self.takes("<") { self.word(|c| c.is_ascii_digit()).parse().unwrap_or(3) } else { 3 };
            self.blanks();
            let shape = ty.shape.known().ok_or_else(|| err!(Parse, "the sizes of {ty} are not numbers"))?;
            self.tensors += 1;
            return Ok(Arg::Leaf(Tensor::from(filled(ty.dtype, &shape, below, self.tensors)?)));
        }
        self.blanks();
        Ok(match word {
            "none" => Arg::None,
            "true" => Arg::Bool(true),
            "false" => Arg::Bool(false),
            "inf" => Arg::Float(f64::INFINITY),
            _ => match (word.parse::<DType>(), word.parse::<i64>(), word.parse::<f64>()) {
                (Ok(dtype), ..) => Arg::DType(dtype),
                (_, Ok(x), _) => Arg::Int(x),
                (_, _, Ok(x)) => Arg::Float(x),
                _ => {
                    return Err(err!(Parse, "expected a value in {:?}, got {word:?}", self.text)
                        .help("a sample is written as f32[2, 3], i64[4]<2, dim=-1, mode=\"sum\""));
                }
            },
        })
    }
}

/// Returns an array with elements that the type and `seed` determine; integers are below `below`.
fn filled(dtype: DType, shape: &[usize], below: i64, seed: usize) -> Result<Array> {
    let numel = crate::array::checked_numel(shape)?;
    let square = matches!(shape, [.., a, b] if a == b).then(|| shape[shape.len() - 1]);
    let float = |i: usize| {
        let noise = 0.05 + 0.9 * ((i * 37 + seed * 11) % 101) as f64 / 101.0;
        let on_diagonal = square.is_some_and(|n| i / n % n == i % n);
        noise + if on_diagonal { square.unwrap_or(0) as f64 } else { 0.0 }
    };
    crate::array::dispatch_dtype!(dtype, T => {
        let mut data = crate::array::try_vec::<T>(numel)?;
        data.extend((0..numel).map(|i| T::from_scalar(match dtype {
            DType::Bool => Scalar::Bool(!(i * 5 + seed).is_multiple_of(3)),
            dtype if dtype.is_float() => Scalar::Float(float(i)),
            _ => Scalar::Int(((i * 7 + seed * 3) as i64) % below.max(1)),
        })));
        Array::from_vec(data, shape)
    })
}

/// Returns samples for an operation: a built-in one's examples, else what the schema suggests and the kernel
/// takes.
///
/// Fails if nothing is found; then give samples.
pub fn samples(op: Op) -> Result<Vec<Sample>> {
    let mut listed = examples::of(op).map(Sample::parse).collect::<Result<Vec<_>>>()?;
    listed.extend(examples::with_graphs(op)?);
    if !listed.is_empty() {
        return Ok(listed);
    }
    if let Some(def) = op.gufunc {
        return of_signature(def);
    }
    let mut found: Vec<Sample> = Vec::new();
    for shapes in SHAPES {
        for dtype in [DType::F32, DType::I64, DType::Bool] {
            for number in [1, 0, 2] {
                let sample = guess(op, shapes, dtype, number)?;
                let kept_shape = |other: &Sample| other.to_string() == sample.to_string();
                if found.len() < 4 && !found.iter().any(kept_shape) && call::run(op, &sample).is_ok() {
                    found.push(sample);
                    break;
                }
            }
        }
    }
    if found.is_empty() {
        return Err(err!(
            Argument,
            "no sample arguments for {} could be guessed from its schema {op:?}",
            op.name
        )
        .help("give samples, as in opcheck::check_on(op, &[Sample::parse(\"f32[2, 3], dim=1\")?])"));
    }
    Ok(found)
}

/// Sizes for the names of a signature in order, and the loop axes of each operand in turn.
const CORES: [(&[usize], &[&[usize]]); 4] = [
    (&[3, 4, 2, 5], &[&[]]),
    (&[4, 2, 3, 1], &[&[2], &[], &[2]]),
    (&[2, 5, 7, 3], &[&[3, 1], &[2]]),
    (&[1, 3, 2, 4], &[&[2, 3]]),
];

/// Returns samples that a signature suggests, with and without the operands that may be left out.
fn of_signature(def: &GufuncDef) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    for (i, (sizes, loops)) in CORES.iter().enumerate() {
        let (mut names, mut args): (Vec<&str>, Vec<Value>) = (Vec::new(), Vec::new());
        for (at, operand) in def.operands.iter().enumerate() {
            if operand.optional && i % 2 == 0 {
                args.push(Arg::None);
                continue;
            }
            let mut shape = loops[at % loops.len()].to_vec();
            shape.extend(operand.axes.iter().map(|axis| match axis {
                CoreAxis::Known(n) => *n,
                CoreAxis::Named(name) => {
                    let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
                        names.push(*name);
                        names.len() - 1
                    });
                    sizes[at % sizes.len()]
                }
            }));
            let dtype = operand.dtype.unwrap_or(DType::F32);
            args.push(Arg::Leaf(Tensor::from(filled(dtype, &shape, 3, at + 1)?)));
        }
        samples.push(Sample::new(args));
    }
    Ok(samples)
}

/// Shapes for the tensors of a call in order; the last stands for all that follow.
const SHAPES: [&[&[usize]]; 8] = [
    &[&[4, 3]],
    &[&[5]],
    &[&[2, 3, 4]],
    &[&[3, 3]],
    &[&[4, 3], &[3, 2], &[2]],
    &[&[4, 3], &[3]],
    &[&[2, 4, 6, 5]],
    &[&[2, 4, 3], &[2, 3, 5]],
];

/// Makes arguments for the parameters without default.
fn guess(op: Op, shapes: &[&[usize]], dtype: DType, number: i64) -> Result<Sample> {
    let mut n = 0;
    let mut tensor = || {
        let shape = shapes[n.min(shapes.len() - 1)];
        n += 1;
        filled(dtype, shape, 3, n).map(|array| Arg::Leaf(Tensor::from(array)))
    };
    let mut sample = Sample::default();
    for param in op.params.iter().filter(|param| param.default.is_none()) {
        let value = match param.kind {
            Kind::Tensor
            | Kind::Operand
            | Kind::OptOperand
            | Kind::IntOrTensor
            | Kind::OptTensor
            | Kind::Any => tensor()?,
            Kind::Tensors => Arg::list([tensor()?, tensor()?]),
            Kind::Int | Kind::OptInt | Kind::Axes => Arg::Int(number),
            Kind::Float | Kind::OptFloat | Kind::Number | Kind::OptNumber => Arg::Float(0.5),
            Kind::Bool => Arg::Bool(number == 1),
            Kind::DType | Kind::OptDType => Arg::DType(DType::F64),
            Kind::Ints | Kind::OptInts | Kind::Shape => Arg::ints([number]),
            Kind::Str | Kind::Graph => {
                return Err(err!(
                    Argument,
                    "no sample for {} can be guessed: its argument {:?} is {}",
                    op.name,
                    param.name,
                    param.kind.describe()
                )
                .help("give samples, as in opcheck::check_on(op, &[Sample::parse(\"f32[2, 3], dim=1\")?])"));
            }
        };
        match param.keyword_only {
            true => sample.kwargs.push((param.name.to_owned(), value)),
            false => sample.args.push(value),
        }
    }
    Ok(sample)
}
