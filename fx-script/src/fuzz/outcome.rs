//! Outcomes as text: results with all bits, printed text, or the message of what a program raised.

use std::fmt::Write as _;

use fx_core::{Error, Result, bail};

use crate::value::{Value, shown};

/// Returns the outcome of a call as text, with what it has printed: the result with all bits, or that it raised.
///
/// Fails if the result has something in it that random programs do not return, such as an object.
pub fn outcome(result: Result<Value>, printed: &str) -> Result<String> {
    Ok(match result {
        Ok(value) => {
            let mut out = String::new();
            write_value(&mut out, &value)?;
            format!("{out} printed {}", hex(printed.as_bytes()))
        }
        Err(error) => raised(&error),
    })
}

/// Errors of the program itself say "raised" and a number; others have different words everywhere.
fn raised(error: &Error) -> String {
    let message = error.message();
    match message.find("raised ") {
        Some(at) => {
            let number: String =
                message[at + 7..].chars().take_while(char::is_ascii_digit).collect::<String>();
            format!("raised {number}")
        }
        None => "raised".to_owned(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").expect("strings take all text");
        out
    })
}

fn float(x: f64) -> String {
    if x.is_nan() { "nan".to_owned() } else { format!("{:016x}", x.to_bits()) }
}

fn write_items<'a>(out: &mut String, items: impl IntoIterator<Item = &'a Value>) -> Result<()> {
    for item in items {
        write_value(out, item)?;
        out.push(',');
    }
    Ok(())
}

fn write_value(out: &mut String, value: &Value) -> Result<()> {
    match value {
        Value::None | Value::Bool(_) | Value::Int(_) => out.push_str(&shown(value)?),
        Value::Float(x) => out.push_str(&float(*x)),
        Value::Str(text) => write!(out, "s{}", hex(text.as_bytes())).expect("strings take all text"),
        Value::List(list) => {
            out.push('[');
            write_items(out, &list.read(Clone::clone))?;
            out.push(']');
        }
        Value::Tuple(tuple) => {
            out.push('(');
            write_items(out, &tuple.items)?;
            out.push(')');
        }
        Value::Dict(dict) => {
            out.push('{');
            for (key, value) in dict.read(Clone::clone).iter() {
                write_value(out, key)?;
                out.push(':');
                write_value(out, value)?;
                out.push(',');
            }
            out.push('}');
        }
        Value::Tensor(tensor) => {
            let array = tensor.array()?;
            write!(out, "t{}{:?}", array.dtype(), array.shape()).expect("strings take all text");
            for element in array.iter_scalars() {
                write!(out, " {}", float(element.to_f64())).expect("strings take all text");
            }
        }
        other => bail!(Argument, "a random program returns no {}", other.type_name()),
    }
    Ok(())
}
