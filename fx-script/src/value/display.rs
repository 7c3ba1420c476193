//! Values as text, in PyTorch's spelling.

use std::fmt::Write as _;

use fx_core::{Array, DType, Result, bail, err};

use super::equality::MAX_NESTING;
use super::{Value, transaction};

/// Returns a value as `str` and `print` spell it.
///
/// Text has no quotation marks, not even in a list. Fails if values are nested too deep or the
/// text needs too much memory.
pub fn shown(value: &Value) -> Result<String> {
    let mut out = String::new();
    write(&mut out, value, 0)?;
    Ok(out)
}

/// Returns a float as PyTorch prints it: `1.`, `0.5`, `1e-05`, `inf`.
pub fn float_text(x: f64) -> String {
    if x.is_nan() {
        return "nan".to_owned();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    // What an integer of 64 bits can hold is written as one, zero without its sign.
    if x == x.trunc() && x.abs() < 9.2e18 {
        return format!("{}.", x as i64);
    }
    general(x, 17)
}

/// Returns a float as C's `%.{digits}g` writes it.
pub(crate) fn general(x: f64, digits: usize) -> String {
    if !x.is_finite() {
        return float_text(x);
    }
    let scientific = format!("{:.*e}", digits.max(1) - 1, x);
    let (mantissa, exponent) = scientific.split_once('e').expect("the form has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is an integer");
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(mantissa), exponent.abs());
    }
    trim(&format!("{:.*}", (digits as i32 - 1 - exponent).max(0) as usize, x))
}

fn write(out: &mut String, value: &Value, depth: usize) -> Result<()> {
    if depth > MAX_NESTING {
        bail!(Limit, "values are nested deeper than {MAX_NESTING} where they are printed");
    }
    transaction::charge(out.len() as u128)?;
    let items = |out: &mut String, items: &[Value]| -> Result<()> {
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            write(out, item, depth + 1)?;
        }
        Ok(())
    };
    match value {
        Value::None => out.push_str("None"),
        Value::Bool(x) => out.push_str(if *x { "True" } else { "False" }),
        Value::Int(x) => write!(out, "{x}").expect("strings take all text"),
        Value::Float(x) => out.push_str(&float_text(*x)),
        Value::Complex(parts) => {
            let im = float_text(parts.1);
            let sign = if im.starts_with('-') { "" } else { "+" };
            write!(out, "{}{sign}{im}j", float_text(parts.0)).expect("strings take all text");
        }
        Value::Str(text) => out.push_str(text),
        Value::Tensor(tensor) => out.push_str(&tensor.shown()?),
        Value::List(list) => {
            out.push('[');
            items(out, &list.read(Clone::clone))?;
            out.push(']');
        }
        Value::Dict(dict) => {
            out.push('{');
            for (i, (key, value)) in dict.read(Clone::clone).iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write(out, key, depth + 1)?;
                out.push_str(": ");
                write(out, value, depth + 1)?;
            }
            out.push('}');
        }
        Value::Tuple(tuple) => {
            out.push('(');
            items(out, &tuple.items)?;
            out.push_str(if tuple.items.len() == 1 { ",)" } else { ")" });
        }
        Value::Object(object) => {
            write!(out, "<{} object>", object.class.name).expect("strings take all text");
        }
        Value::Enum(member) => {
            let class = member.class.rsplit('.').next().unwrap_or_default();
            write!(out, "Enum<{class}.{}>", member.name).expect("strings take all text");
        }
        Value::Device(device) => write!(out, "{device}").expect("strings take all text"),
        Value::Future(_) => out.push_str("Future"),
        Value::Symbol(symbol) => {
            return Err(err!(Argument, "the text of {} is known in a call only", symbol.type_name()));
        }
    }
    Ok(())
}

/// Returns a tensor in ATen's layout: rows of numbers, then dtype and sizes.
pub(super) fn tensor_text(array: &Array, is_complex: bool) -> Result<String> {
    let mut out = String::new();
    let elements = array.cast(DType::F64).to_vec::<f64>()?;
    let sizes = &array.shape()[..array.rank() - usize::from(is_complex)];
    let class = match array.dtype() {
        DType::U8 => "Byte",
        DType::I8 => "Char",
        DType::I32 => "Int",
        DType::I64 => "Long",
        DType::F16 => "Half",
        DType::BF16 => "BFloat16",
        DType::F32 => "Float",
        DType::F64 => "Double",
        DType::Bool => "Bool",
    };
    if is_complex {
        for pair in elements.chunks_exact(2) {
            writeln!(out, "({},{})", general(pair[0], 6), general(pair[1], 6))
                .expect("strings take all text");
        }
    } else if !elements.is_empty() {
        match sizes {
            [] => writeln!(out, "{}", general(elements[0], 6)).expect("strings take all text"),
            [_] => {
                let style = Style::of(&elements);
                style.write_scale(&mut out);
                elements.iter().for_each(|&x| {
                    style.write(&mut out, x);
                    out.push('\n');
                });
            }
            [rows, columns] => matrix(&mut out, &elements, *rows, *columns, 0),
            [outer @ .., rows, columns] => matrices(&mut out, &elements, outer, *rows, *columns),
        }
    }
    let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    let complex = if is_complex { "Complex" } else { "" };
    write!(out, "[ CPU{complex}{class}Type{{{}}} ]", sizes.join(",")).expect("strings take all text");
    Ok(out)
}

/// The width of a line.
const LINE: usize = 80;

#[derive(Clone, Copy)]
enum Notation {
    General,
    Fixed,
    Scientific,
}

/// How the numbers of a tensor are written.
struct Style {
    notation: Notation,
    width: usize,
    scale: f64,
}

impl Style {
    /// The style that ATen chooses.
    fn of(elements: &[f64]) -> Style {
        let finite = || elements.iter().filter(|x| x.is_finite()).map(|x| x.abs());
        let digits = |x: f64| if x == 0.0 { 1.0 } else { x.log10().floor() + 1.0 };
        let (min, max) = match finite().next() {
            Some(first) => {
                let (min, max) = finite().fold((first, first), |(min, max), x| (min.min(x), max.max(x)));
                (digits(min), digits(max))
            }
            None => (1.0, 1.0),
        };
        let style = |notation, width: f64, scale| Style { notation, width: width as usize, scale };
        if finite().all(|x| x == x.ceil()) {
            return match max > 9.0 {
                true => style(Notation::Scientific, 11.0, 1.0),
                false => style(Notation::General, max + 1.0, 1.0),
            };
        }
        if max - min > 4.0 {
            let width = if max.abs() > 99.0 || min.abs() > 99.0 { 12.0 } else { 11.0 };
            style(Notation::Scientific, width, 1.0)
        } else if !(0.0..=5.0).contains(&max) {
            style(Notation::Fixed, 7.0, 10f64.powf(max - 1.0))
        } else {
            style(Notation::Fixed, if max == 0.0 { 7.0 } else { max + 6.0 }, 1.0)
        }
    }

    fn write_scale(&self, out: &mut String) {
        if self.scale != 1.0 {
            writeln!(out, "{} *", general(self.scale, 6)).expect("strings take all text");
        }
    }

    fn write(&self, out: &mut String, x: f64) {
        let x = x / self.scale;
        let text = match self.notation {
            _ if x.is_nan() => "nan".to_owned(),
            _ if x.is_infinite() => if x > 0.0 { "inf" } else { "-inf" }.to_owned(),
            Notation::General => general(x, 6),
            Notation::Fixed => format!("{x:.4}"),
            Notation::Scientific => {
                let text = format!("{x:.4e}");
                let (mantissa, exponent) = text.split_once('e').expect("the form has an exponent");
                let exponent: i32 = exponent.parse().expect("the exponent is an integer");
                format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
            }
        };
        write!(out, "{text:>0$}", self.width).expect("strings take all text");
    }
}

fn matrix(out: &mut String, elements: &[f64], rows: usize, columns: usize, indent: usize) {
    let style = Style::of(elements);
    let margin = " ".repeat(indent);
    out.push_str(&margin);
    let per_line = ((LINE - indent) / (style.width + 1)).max(1);
    let mut first = 0;
    while first < columns {
        let end = (first + per_line).min(columns);
        if per_line < columns {
            if first != 0 {
                out.push('\n');
            }
            write!(out, "Columns {} to {end}", first + 1).expect("strings take all text");
            out.push_str(&margin);
        }
        if style.scale != 1.0 {
            style.write_scale(out);
            out.push_str(&margin);
        }
        for row in 0..rows {
            for column in first..end {
                style.write(out, elements[row * columns + column]);
                out.push(if column + 1 == end { '\n' } else { ' ' });
            }
            if row + 1 != rows {
                out.push_str(&margin);
                out.push_str(if style.scale != 1.0 { " " } else { "" });
            }
        }
        first = end;
    }
}

fn matrices(out: &mut String, elements: &[f64], outer: &[usize], rows: usize, columns: usize) {
    let mut counter = vec![0; outer.len()];
    for n in 0..outer.iter().product() {
        if n > 0 {
            out.push('\n');
        }
        // The first axis runs fastest.
        let mut rest = n;
        for (at, size) in counter.iter_mut().zip(outer) {
            *at = rest % size;
            rest /= size;
        }
        out.push('(');
        counter.iter().for_each(|at| write!(out, "{},", at + 1).expect("strings take all text"));
        out.push_str(".,.) = \n");
        let start = counter.iter().zip(outer).fold(0, |start, (at, size)| start * size + at) * rows * columns;
        matrix(out, &elements[start..start + rows * columns], rows, columns, 1);
    }
}
