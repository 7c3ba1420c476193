//! Text, as Python has it. Positions count characters.

use fx_core::{Result, bail, err};

use super::containers::slice_places;
use super::{Row, arg};
use crate::value::{Value, transaction};

fn text<'a>(args: &[&'a Value], at: usize) -> Result<&'a str> {
    arg(args, at)?.to_str()
}

fn integer(args: &[&Value], at: usize) -> Result<i64> {
    arg(args, at)?.to_int()
}

fn made(text: impl Into<Box<str>>) -> Result<Value> {
    Ok(Value::str(text))
}

fn texts<'a>(items: impl IntoIterator<Item = &'a str>) -> Value {
    Value::list(items.into_iter().map(Value::str).collect())
}

/// Whether a text has characters and all of them are of a kind.
fn all(args: &[&Value], is: fn(char) -> bool) -> Result<Value> {
    let text = text(args, 0)?;
    Ok(Value::Bool(!text.is_empty() && text.chars().all(is)))
}

/// Whether the letters of a text are all of one case, and there is one.
fn cased(args: &[&Value], is: fn(char) -> bool) -> Result<Value> {
    let mut letters = text(args, 0)?.chars().filter(|c| c.is_uppercase() || c.is_lowercase()).peekable();
    Ok(Value::Bool(letters.peek().is_some() && letters.all(is)))
}

/// Writes each character, told whether a letter is before it.
fn by_word(text: &str, f: impl Fn(char, bool) -> String) -> String {
    let mut after_letter = false;
    let each = text.chars().map(|c| {
        let out = f(c, after_letter);
        after_letter = c.is_alphabetic();
        out
    });
    each.collect()
}

fn title(text: &str) -> String {
    by_word(text, |c, after| if after { c.to_lowercase().collect() } else { c.to_uppercase().collect() })
}

fn is_title(text: &str) -> bool {
    let mut seen = false;
    let mut after_letter = false;
    for c in text.chars() {
        if c.is_uppercase() && after_letter || c.is_lowercase() && !after_letter {
            return false;
        }
        after_letter = c.is_uppercase() || c.is_lowercase();
        seen |= after_letter;
    }
    seen
}

/// The part between two positions, and where it begins. TorchScript's default end of -1 is the end of the text.
fn part<'a>(args: &[&'a Value], start_at: usize) -> Result<(&'a str, i64)> {
    let whole = text(args, 0)?;
    let n = whole.chars().count() as i64;
    let from_end = |i: i64| if i < 0 { (i + n).max(0) } else { i.min(n) };
    let start = from_end(args.get(start_at).map_or(Ok(0), |start| start.to_int())?);
    let end = match args.get(start_at + 1) {
        None | Some(Value::None | Value::Int(-1)) => n,
        Some(end) => from_end(end.to_int()?),
    };
    if start > end {
        return Ok(("", start));
    }
    Ok((characters(whole, start as usize, end as usize), start))
}

/// The characters from one position up to another.
fn characters(text: &str, start: usize, end: usize) -> &str {
    let byte = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    &text[byte(start)..byte(end)]
}

fn find(args: &[&Value], from_right: bool) -> Result<i64> {
    let (part, start) = part(args, 2)?;
    let wanted = text(args, 1)?;
    let found = if from_right { part.rfind(wanted) } else { part.find(wanted) };
    Ok(found.map_or(-1, |byte| part[..byte].chars().count() as i64 + start))
}

fn index(args: &[&Value], from_right: bool) -> Result<Value> {
    match find(args, from_right)? {
        -1 => Err(err!(Argument, "ValueError: substring not found")),
        at => Ok(Value::Int(at)),
    }
}

fn count(args: &[&Value]) -> Result<Value> {
    let (part, _) = part(args, 2)?;
    let wanted = text(args, 1)?;
    let n = if wanted.is_empty() { part.chars().count() + 1 } else { part.matches(wanted).count() };
    Ok(Value::Int(n as i64))
}

fn split(args: &[&Value]) -> Result<Value> {
    let whole = text(args, 0)?;
    let max = args.get(2).map_or(Ok(-1), |max| max.to_int())?;
    let limit = usize::try_from(max).map_or(usize::MAX, |max| max.saturating_add(1));
    match args.get(1) {
        None | Some(Value::None) => {
            let mut items = Vec::new();
            let mut rest = whole.trim_start();
            while !rest.is_empty() {
                if items.len() + 1 == limit {
                    items.push(rest.trim_end());
                    break;
                }
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                items.push(&rest[..end]);
                rest = rest[end..].trim_start();
            }
            Ok(texts(items))
        }
        Some(separator) => {
            let separator = separator.to_str()?;
            if separator.is_empty() {
                bail!(Argument, "ValueError: empty separator");
            }
            Ok(texts(whole.splitn(limit, separator)))
        }
    }
}

fn rsplit(args: &[&Value]) -> Result<Value> {
    let (whole, separator) = (text(args, 0)?, text(args, 1)?);
    let max = args.get(2).map_or(Ok(-1), |max| max.to_int())?;
    if separator.is_empty() {
        bail!(Argument, "ValueError: empty separator");
    }
    let limit = usize::try_from(max).map_or(usize::MAX, |max| max.saturating_add(1));
    let mut items: Vec<&str> = whole.rsplitn(limit, separator).collect();
    items.reverse();
    Ok(texts(items))
}

fn split_lines(args: &[&Value]) -> Result<Value> {
    let keep = args.get(1).map_or(Ok(false), |keep| keep.to_bool())?;
    let mut items = Vec::new();
    let mut rest = text(args, 0)?;
    while !rest.is_empty() {
        let end =
            rest.find(['\n', '\r', '\x0b', '\x0c', '\x1c', '\x1d', '\x1e', '\u{85}', '\u{2028}', '\u{2029}']);
        let Some(end) = end else {
            items.push(rest);
            break;
        };
        let after = &rest[end..];
        let mark = if after.starts_with("\r\n") { 2 } else { after.chars().next().map_or(0, char::len_utf8) };
        items.push(&rest[..if keep { end + mark } else { end }]);
        rest = &rest[end + mark..];
    }
    Ok(texts(items))
}

fn replace(args: &[&Value]) -> Result<Value> {
    let (whole, old, new) = (text(args, 0)?, text(args, 1)?, text(args, 2)?);
    let max = args.get(3).map_or(Ok(-1), |max| max.to_int())?;
    let n = whole.matches(old).count() as u128;
    transaction::charge(whole.len() as u128 + n * new.len() as u128)?;
    match usize::try_from(max) {
        Ok(max) => made(whole.replacen(old, new, max)),
        Err(_) => made(whole.replace(old, new)),
    }
}

#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
    Both,
}

fn strip(args: &[&Value], side: Side) -> Result<Value> {
    let whole = text(args, 0)?;
    let chars: Vec<char> = match args.get(1) {
        Some(chars) => chars.to_str()?.chars().collect(),
        None => " \n\t\x0c\x0b".chars().collect(),
    };
    let is = |c: char| chars.contains(&c);
    made(match side {
        Side::Left => whole.trim_start_matches(is),
        Side::Right => whole.trim_end_matches(is),
        Side::Both => whole.trim_matches(is),
    })
}

fn pad(args: &[&Value], side: Side) -> Result<Value> {
    let (whole, width) = (text(args, 0)?, integer(args, 1)?);
    let fill = args.get(2).map_or(Ok(" "), |fill| fill.to_str())?;
    if fill.chars().count() != 1 {
        bail!(Argument, "TypeError: The fill character must be exactly one character long");
    }
    let n = whole.chars().count();
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(n);
    transaction::charge(missing as u128 * fill.len() as u128)?;
    let fill = |n: usize| fill.repeat(n);
    made(match side {
        Side::Left => format!("{whole}{}", fill(missing)),
        Side::Right => format!("{}{whole}", fill(missing)),
        Side::Both => {
            // The odd one goes where Python puts it.
            let left = missing / 2 + (missing & width as usize & 1);
            format!("{}{whole}{}", fill(left), fill(missing - left))
        }
    })
}

fn zero_fill(args: &[&Value]) -> Result<Value> {
    let (whole, width) = (text(args, 0)?, integer(args, 1)?);
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(whole.chars().count());
    transaction::charge(missing as u128)?;
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with(['+', '-'])));
    made(format!("{sign}{}{digits}", "0".repeat(missing)))
}

fn expand_tabs(args: &[&Value]) -> Result<Value> {
    let size = usize::try_from(integer(args, 1)?).unwrap_or(0);
    let whole = text(args, 0)?;
    transaction::charge(whole.len() as u128 * size.max(1) as u128)?;
    let (mut out, mut column) = (String::new(), 0);
    for c in whole.chars() {
        match c {
            '\t' => {
                let n = if size == 0 { 0 } else { size - column % size };
                out.push_str(&" ".repeat(n));
                column += n;
            }
            '\n' | '\r' => {
                out.push(c);
                column = 0;
            }
            c => {
                out.push(c);
                column += 1;
            }
        }
    }
    made(out)
}

fn partition(args: &[&Value], from_right: bool) -> Result<Value> {
    let (whole, separator) = (text(args, 0)?, text(args, 1)?);
    if separator.is_empty() {
        bail!(Argument, "ValueError: empty separator");
    }
    let found = if from_right { whole.rsplit_once(separator) } else { whole.split_once(separator) };
    let parts = match (found, from_right) {
        (Some((left, right)), _) => [left, separator, right],
        (None, false) => [whole, "", ""],
        (None, true) => ["", "", whole],
    };
    Ok(Value::tuple(parts.map(Value::str)))
}

fn join(args: &[&Value]) -> Result<Value> {
    let separator = text(args, 0)?;
    let items = arg(args, 1)?.to_items()?;
    let mut size = 0u128;
    for item in &items {
        size += (item.to_str()?.len() + separator.len()) as u128;
    }
    transaction::charge(size)?;
    let items: Result<Vec<&str>> = items.iter().map(Value::to_str).collect();
    made(items?.join(separator))
}

fn character(args: &[&Value]) -> Result<Value> {
    let whole = text(args, 0)?;
    let at = integer(args, 1)?;
    let found = match usize::try_from(at) {
        Ok(at) => whole.chars().nth(at),
        Err(_) => whole.chars().rev().nth(at.unsigned_abs() as usize - 1),
    };
    match found {
        Some(c) => made(c.to_string()),
        None => Err(err!(Index, "string index out of range")),
    }
}

fn slice(args: &[&Value]) -> Result<Value> {
    let whole = text(args, 0)?;
    let n = whole.chars().count();
    let mut places = slice_places(args, n)?;
    if matches!(args.get(3), None | Some(Value::Int(1))) {
        let n = places.len();
        let start = places.next().unwrap_or(0);
        return made(characters(whole, start, start + n));
    }
    let characters: Vec<char> = whole.chars().collect();
    made(places.map(|at| characters[at]).collect::<String>())
}

fn radix(args: &[&Value], prefix: &str, f: fn(u64) -> String) -> Result<Value> {
    let n = integer(args, 0)?;
    made(format!("{}{prefix}{}", if n < 0 { "-" } else { "" }, f(n.unsigned_abs())))
}

#[rustfmt::skip]
pub(super) static TABLE: &[Row] = &[
    ("aten::len", "str", |_, a| Ok(Value::Int(text(a, 0)?.chars().count() as i64))),
    ("aten::add", "str", |_, a| { let (left, right) = (text(a, 0)?, text(a, 1)?);
        transaction::charge((left.len() + right.len()) as u128)?; made([left, right].concat()) }),
    ("aten::__getitem__", "str", |_, a| character(a)), ("prim::StringIndex", "-", |_, a| character(a)),
    ("aten::slice", "str", |_, a| slice(a)), ("aten::list", "-", |_, a| Ok(Value::list(text(a, 0)?.chars().map(|c| Value::from(c.to_string())).collect()))),
    ("aten::lower", "-", |_, a| made(text(a, 0)?.to_lowercase())), ("aten::upper", "-", |_, a| made(text(a, 0)?.to_uppercase())),
    ("aten::swapcase", "-", |_, a| made(text(a, 0)?.chars().map(|c| if c.is_uppercase() { c.to_lowercase().to_string() } else { c.to_uppercase().to_string() }).collect::<String>())),
    ("aten::capitalize", "-", |_, a| { let mut chars = text(a, 0)?.chars();
        made(chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars.as_str().to_lowercase().chars()).collect())) }),
    ("aten::title", "-", |_, a| made(title(text(a, 0)?))), ("aten::istitle", "-", |_, a| Ok(Value::Bool(is_title(text(a, 0)?)))),
    ("aten::isalpha", "-", |_, a| all(a, char::is_alphabetic)), ("aten::isalnum", "-", |_, a| all(a, char::is_alphanumeric)),
    ("aten::isdigit", "-", |_, a| all(a, |c| c.is_ascii_digit())), ("aten::isdecimal", "-", |_, a| all(a, |c| c.is_ascii_digit())),
    ("aten::isnumeric", "-", |_, a| all(a, char::is_numeric)), ("aten::isspace", "-", |_, a| all(a, char::is_whitespace)),
    ("aten::isupper", "-", |_, a| cased(a, char::is_uppercase)), ("aten::islower", "-", |_, a| cased(a, char::is_lowercase)),
    ("aten::isprintable", "-", |_, a| Ok(Value::Bool(!text(a, 0)?.chars().any(char::is_control)))),
    ("aten::isidentifier", "-", |_, a| { let whole = text(a, 0)?;
        Ok(Value::Bool(whole.starts_with(|c: char| c.is_alphabetic() || c == '_') && whole.chars().all(|c| c.is_alphanumeric() || c == '_'))) }),
    ("aten::startswith", "-", |_, a| Ok(Value::Bool(part(a, 2)?.0.starts_with(text(a, 1)?)))),
    ("aten::endswith", "-", |_, a| Ok(Value::Bool(part(a, 2)?.0.ends_with(text(a, 1)?)))),
    ("aten::find", "-", |_, a| find(a, false).map(Value::Int)), ("aten::rfind", "-", |_, a| find(a, true).map(Value::Int)),
    ("aten::index", "str", |_, a| index(a, false)), ("aten::rindex", "-", |_, a| index(a, true)), ("aten::count", "-", |_, a| count(a)),
    ("aten::split", "str", |_, a| split(a)), ("aten::rsplit", "-", |_, a| rsplit(a)), ("aten::splitlines", "-", |_, a| split_lines(a)),
    ("aten::partition", "-", |_, a| partition(a, false)), ("aten::rpartition", "-", |_, a| partition(a, true)),
    ("aten::join", "-", |_, a| join(a)), ("aten::replace", "-", |_, a| replace(a)),
    ("aten::strip", "-", |_, a| strip(a, Side::Both)), ("aten::lstrip", "-", |_, a| strip(a, Side::Left)), ("aten::rstrip", "-", |_, a| strip(a, Side::Right)),
    ("aten::ljust", "-", |_, a| pad(a, Side::Left)), ("aten::rjust", "-", |_, a| pad(a, Side::Right)), ("aten::center", "-", |_, a| pad(a, Side::Both)),
    ("aten::zfill", "-", |_, a| zero_fill(a)), ("aten::expandtabs", "-", |_, a| expand_tabs(a)),
    ("aten::ord", "-", |_, a| { let mut chars = text(a, 0)?.chars(); match (chars.next(), chars.next()) {
        (Some(c), None) => Ok(Value::Int(i64::from(u32::from(c)))),
        _ => Err(err!(Argument, "ord() expected a character, but string of length {} found", text(a, 0)?.chars().count())) } }),
    ("aten::chr", "-", |_, a| { let n = integer(a, 0)?; let c = u32::try_from(n).ok().and_then(char::from_u32);
        made(c.ok_or_else(|| err!(Argument, "chr() arg not in range(0x110000): {n}"))?.to_string()) }),
    ("aten::bin", "-", |_, a| radix(a, "0b", |n| format!("{n:b}"))), ("aten::oct", "-", |_, a| radix(a, "0o", |n| format!("{n:o}"))),
    ("aten::hex", "-", |_, a| radix(a, "0x", |n| format!("{n:x}"))),
    ("aten::format", "-", |_, a| made(super::format::format(text(a, 0)?, &a[1..])?)),
    ("aten::percentFormat", "-", |_, a| made(super::format::percent(text(a, 0)?, &a[1..])?)),
    ("aten::str", "-", |_, a| made(crate::value::shown(arg(a, 0)?)?)),
];
