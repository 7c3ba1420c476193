//! How arrays print: PyTorch's brackets, columns and summaries, without `tensor(...)` around them.
//!
//! The work is bounded whatever the shape is: at most [`MAX_SHOWN`] elements are read.

use std::fmt;

use super::Array;
use crate::Scalar;

/// Digits after the point.
const PRECISION: usize = 4;
/// Arrays of more elements are summarised.
const THRESHOLD: usize = 1000;
/// How many items at each end of an axis a summary shows.
const EDGE: usize = 3;
/// A summary that would show more elements than this shows one item of its outer axes.
const MAX_SHOWN: usize = 10_000;
const LINE_WIDTH: usize = 80;

/// Prints dtype and shape as in `Array(f32[2, 3])`.
impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({})", self.describe())
    }
}

/// Prints the elements as PyTorch does; beyond 1000 elements only the edges.
impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("[]");
        }
        let axes = shown_axes(self.shape());
        let texts = texts(&shown_elements(self, &axes));
        let Some((last, outer)) = axes.split_last() else {
            return f.write_str(texts[0].trim_start());
        };
        let width = texts.iter().map(String::len).max().unwrap_or(0);
        let mut texts = texts.iter();
        let mut row = || last.row(&mut texts, width, outer.len());
        if outer.is_empty() {
            return f.write_str(&row());
        }
        let rank = axes.len();
        let mut path = vec![0];
        f.write_str("[")?;
        while let Some(item) = path.last().copied() {
            let axis = path.len() - 1;
            if item == outer[axis].items() {
                f.write_str("]")?;
                path.pop();
            } else {
                if item > 0 {
                    write!(f, ",{}{}", "\n".repeat(rank - 1 - axis), " ".repeat(axis + 1))?;
                }
                if outer[axis].is_gap(item) {
                    f.write_str("...")?;
                } else if axis + 2 == rank {
                    f.write_str(&row())?;
                } else {
                    f.write_str("[")?;
                    path.push(0);
                    continue;
                }
            }
            if let Some(item) = path.last_mut() {
                *item += 1;
            }
        }
        Ok(())
    }
}

/// The items of one axis that are shown: some from its start, then perhaps a gap and some from its end.
struct ShownAxis {
    size: usize,
    head: usize,
    tail: usize,
}

impl ShownAxis {
    fn shown(&self) -> usize {
        self.head + self.tail
    }

    fn items(&self) -> usize {
        self.shown() + usize::from(self.shown() < self.size)
    }

    fn is_gap(&self, item: usize) -> bool {
        self.shown() < self.size && item == self.head
    }

    /// Returns the index of the n-th shown element.
    fn index(&self, n: usize) -> usize {
        if n < self.head { n } else { self.size - self.shown() + n }
    }

    fn row<'a>(&self, texts: &mut impl Iterator<Item = &'a String>, width: usize, indent: usize) -> String {
        let per_line = (LINE_WIDTH.saturating_sub(indent) / (width + 2)).max(1);
        let mut row = String::from("[");
        for item in 0..self.items() {
            if item > 0 && item % per_line == 0 {
                row.push_str(",\n");
                row.push_str(&" ".repeat(indent + 1));
            } else if item > 0 {
                row.push_str(", ");
            }
            if self.is_gap(item) {
                row.push_str(" ...");
            } else if let Some(text) = texts.next() {
                row.push_str(&format!("{text:>width$}"));
            }
        }
        row + "]"
    }
}

fn shown_axes(shape: &[usize]) -> Vec<ShownAxis> {
    let total = |sizes: &mut dyn Iterator<Item = usize>| sizes.fold(1, usize::saturating_mul);
    let summarise = total(&mut shape.iter().copied()) > THRESHOLD;
    let mut axes: Vec<_> = shape
        .iter()
        .map(|&size| match summarise && size > 2 * EDGE {
            true => ShownAxis { size, head: EDGE, tail: EDGE },
            false => ShownAxis { size, head: size, tail: 0 },
        })
        .collect();
    let mut count = total(&mut axes.iter().map(ShownAxis::shown));
    for axis in 0..axes.len() {
        if count > MAX_SHOWN && axes[axis].shown() > 1 {
            (axes[axis].head, axes[axis].tail) = (1, 0);
            count = total(&mut axes.iter().map(ShownAxis::shown));
        }
    }
    axes
}

fn shown_elements(array: &Array, axes: &[ShownAxis]) -> Vec<Scalar> {
    let count = axes.iter().map(ShownAxis::shown).product();
    let element = |nth: usize| {
        let mut rest = nth;
        let mut index = vec![0; axes.len()];
        for (index, axis) in index.iter_mut().zip(axes).rev() {
            *index = axis.index(rest % axis.shown());
            rest /= axis.shown();
        }
        array.get(&index).expect("shown indices are in range")
    };
    (0..count).map(element).collect()
}

/// How all the floats of one array are written.
enum FloatStyle {
    Whole,
    Fixed,
    Scientific,
}

impl FloatStyle {
    fn of(elements: &[Scalar]) -> FloatStyle {
        let numbers = || elements.iter().map(|x| x.to_f64().abs()).filter(|&x| x != 0.0 && x.is_finite());
        let (min, max) = numbers().fold((f64::INFINITY, 0f64), |(min, max), x| (min.min(x), max.max(x)));
        let whole = numbers().all(|x| x.fract() == 0.0);
        if max == 0.0 {
            FloatStyle::Whole
        } else if max / min > 1000.0 || max > 1e8 || (!whole && min < 1e-4) {
            FloatStyle::Scientific
        } else if whole {
            FloatStyle::Whole
        } else {
            FloatStyle::Fixed
        }
    }

    fn text(&self, x: f64) -> String {
        if x.is_nan() {
            return "nan".to_owned();
        }
        if x.is_infinite() {
            return if x > 0.0 { "inf" } else { "-inf" }.to_owned();
        }
        match self {
            FloatStyle::Whole => format!("{x:.0}."),
            FloatStyle::Fixed => format!("{x:.PRECISION$}"),
            FloatStyle::Scientific => {
                let text = format!("{x:.PRECISION$e}");
                let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
                format!("{digits}e{sign}{exponent:0>2}")
            }
        }
    }
}

fn texts(elements: &[Scalar]) -> Vec<String> {
    let style = FloatStyle::of(elements);
    let text = |x: &Scalar| match x {
        Scalar::Bool(x) => x.to_string(),
        Scalar::Int(x) => x.to_string(),
        Scalar::Float(x) => style.text(*x),
    };
    elements.iter().map(text).collect()
}
