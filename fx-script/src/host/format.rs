//! `str.format` and `%`.

use fx_core::{Result, bail, err};

use crate::value::{Value, shown, transaction};

/// Fills each `{}` with the next argument, and `{:spec}` by Python's rules. Fails if there are too few
/// arguments or a spec is none.
pub(super) fn format(pattern: &str, args: &[&Value]) -> Result<String> {
    let mut out = String::new();
    let mut args = args.iter();
    let mut rest = pattern;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let tail = &rest[at..];
        if let Some(after) = tail.strip_prefix("{{").or_else(|| tail.strip_prefix("}}")) {
            out.push_str(&tail[..1]);
            rest = after;
        } else if let Some(close) = tail.find('}').filter(|_| tail.starts_with('{')) {
            let field = &tail[1..close];
            let spec = match field.strip_prefix(':') {
                Some(spec) => spec,
                None if field.is_empty() => "",
                None => {
                    return Err(err!(Argument, "the field {{{field}}} of a format has a name")
                        .help("use {} or {:spec}, which take the arguments in turn"));
                }
            };
            let value = args
                .next()
                .ok_or_else(|| err!(Argument, "Too few arguments for format string {pattern:?}"))?;
            out.push_str(&if spec.is_empty() { shown(value)? } else { with_spec(value, spec)? });
            rest = &tail[close + 1..];
        } else {
            out.push_str(&tail[..1]);
            rest = &tail[1..];
        }
        transaction::charge(out.len() as u128)?;
    }
    out.push_str(rest);
    if args.next().is_some() {
        bail!(Argument, "Too many arguments for format string {pattern:?}");
    }
    Ok(out)
}

/// The widest field of a format.
const MAX_WIDTH: usize = 1 << 16;

struct Spec {
    fill: char,
    align: Option<char>,
    sign: char,
    alternate: bool,
    width: usize,
    grouping: bool,
    precision: Option<usize>,
    kind: Option<char>,
}

impl Spec {
    /// `[[fill]align][sign][#][0][width][,][.precision][type]`.
    fn parse(text: &str) -> Result<Spec> {
        let wrong = || err!(Argument, "Invalid format specifier '{text}'");
        let chars: Vec<char> = text.chars().collect();
        let mut at = 0;
        let mut spec = Spec {
            fill: ' ',
            align: None,
            sign: '-',
            alternate: false,
            width: 0,
            grouping: false,
            precision: None,
            kind: None,
        };
        let is_align = |c: Option<&char>| c.is_some_and(|c| "<>^=".contains(*c));
        if is_align(chars.get(1)) {
            (spec.fill, spec.align, at) = (chars[0], Some(chars[1]), 2);
        } else if is_align(chars.first()) {
            (spec.align, at) = (Some(chars[0]), 1);
        }
        if let Some(&c) = chars.get(at).filter(|c| "+- ".contains(**c)) {
            (spec.sign, at) = (c, at + 1);
        }
        if chars.get(at) == Some(&'#') {
            (spec.alternate, at) = (true, at + 1);
        }
        if chars.get(at) == Some(&'0') {
            spec.fill = if spec.align.is_none() { '0' } else { spec.fill };
            spec.align.get_or_insert('=');
            at += 1;
        }
        let number = |at: &mut usize| -> Result<Option<usize>> {
            let start = *at;
            while chars.get(*at).is_some_and(char::is_ascii_digit) {
                *at += 1;
            }
            let digits: String = chars[start..*at].iter().collect();
            if digits.is_empty() {
                return Ok(None);
            }
            digits.parse().ok().filter(|&n| n <= MAX_WIDTH).map(Some).ok_or_else(wrong)
        };
        spec.width = number(&mut at)?.unwrap_or(0);
        if chars.get(at).is_some_and(|c| ",_".contains(*c)) {
            (spec.grouping, at) = (true, at + 1);
        }
        if chars.get(at) == Some(&'.') {
            at += 1;
            spec.precision = Some(number(&mut at)?.ok_or_else(wrong)?);
        }
        if let Some(&c) = chars.get(at) {
            (spec.kind, at) = (Some(c), at + 1);
        }
        if at == chars.len() { Ok(spec) } else { Err(wrong()) }
    }
}

fn with_spec(value: &Value, spec: &str) -> Result<String> {
    let spec = Spec::parse(spec)?;
    let unknown =
        || err!(Argument, "Unknown format code '{}' for {}", spec.kind.unwrap_or(' '), value.type_name());
    let (sign, body) = match (value, spec.kind) {
        (Value::Int(_) | Value::Bool(_) | Value::Float(_), Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%'))
        | (Value::Float(_), None) => {
            let x = value.to_float()?;
            (x.is_sign_negative() && !x.is_nan(), float_body(x.abs(), &spec))
        }
        (Value::Int(_) | Value::Bool(_), None | Some('d' | 'x' | 'X' | 'o' | 'b' | 'c')) => {
            let n = value.to_int()?;
            let size = n.unsigned_abs();
            let (prefix, digits) = match spec.kind {
                Some('x') => ("0x", format!("{size:x}")),
                Some('X') => ("0X", format!("{size:X}")),
                Some('o') => ("0o", format!("{size:o}")),
                Some('b') => ("0b", format!("{size:b}")),
                Some('c') => {
                    let c = u32::try_from(n).ok().and_then(char::from_u32).ok_or_else(unknown)?;
                    ("", c.to_string())
                }
                _ => ("", size.to_string()),
            };
            (n < 0, if spec.alternate { format!("{prefix}{digits}") } else { digits })
        }
        (Value::Int(_) | Value::Bool(_) | Value::Float(_), _) => return Err(unknown()),
        (_, None | Some('s')) => {
            let text = shown(value)?;
            let text = spec.precision.map_or_else(|| text.clone(), |n| text.chars().take(n).collect());
            return Ok(padded("", &text, &spec, '<'));
        }
        _ => return Err(unknown()),
    };
    let sign = match (sign, spec.sign) {
        (true, _) => "-",
        (false, '+') => "+",
        (false, ' ') => " ",
        _ => "",
    };
    let body = if spec.grouping { grouped(&body) } else { body };
    Ok(padded(sign, &body, &spec, '>'))
}

fn float_body(x: f64, spec: &Spec) -> String {
    if !x.is_finite() {
        return if x.is_nan() { "nan" } else { "inf" }.to_owned();
    }
    let precision = spec.precision.unwrap_or(6);
    match spec.kind {
        Some('e' | 'E') => {
            let text = exponent(&format!("{x:.precision$e}"));
            if spec.kind == Some('E') { text.to_uppercase() } else { text }
        }
        Some('f' | 'F') => format!("{x:.precision$}"),
        Some('%') => format!("{:.precision$}%", x * 100.0),
        Some('g' | 'G') => crate::value::general_text(x, precision),
        _ => match spec.precision {
            Some(precision) => crate::value::general_text(x, precision),
            // The shortest text that reads back, as Python's `repr`.
            None => {
                let size = x.abs();
                if x != 0.0 && !(1e-4..1e16).contains(&size) {
                    exponent(&format!("{x:e}"))
                } else {
                    format!("{x:?}")
                }
            }
        },
    }
}

/// Writes an exponent with a sign and two digits.
fn exponent(text: &str) -> String {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

fn grouped(body: &str) -> String {
    let end = body.find(|c: char| !c.is_ascii_digit()).unwrap_or(body.len());
    let mut out = String::new();
    for (i, c) in body[..end].chars().enumerate() {
        if i > 0 && (end - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out + &body[end..]
}

fn padded(sign: &str, body: &str, spec: &Spec, default: char) -> String {
    let missing = spec.width.saturating_sub(sign.chars().count() + body.chars().count());
    let fill = |n: usize| spec.fill.to_string().repeat(n);
    match spec.align.unwrap_or(default) {
        '<' => format!("{sign}{body}{}", fill(missing)),
        '^' => format!("{}{sign}{body}{}", fill(missing / 2), fill(missing - missing / 2)),
        '=' => format!("{sign}{}{body}", fill(missing)),
        _ => format!("{}{sign}{body}", fill(missing)),
    }
}

/// Fills `%s`, `%d`, `%f`, … with the arguments. Fails if there are too few or too many, or a code is unknown.
pub(super) fn percent(pattern: &str, args: &[&Value]) -> Result<String> {
    let mut items: Vec<Value> = Vec::new();
    for arg in args {
        match arg {
            Value::Tuple(tuple) => items.extend(tuple.items.iter().cloned()),
            other => items.push((*other).clone()),
        }
    }
    let mut items = items.iter();
    let mut out = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut spec = String::new();
        let code = loop {
            match chars.next() {
                Some(c) if "-+ #0123456789.".contains(c) => spec.push(c),
                Some(c) => break c,
                None => bail!(Argument, "Incomplete format specifier in {pattern:?}"),
            }
        };
        if code == '%' {
            out.push('%');
            continue;
        }
        let value =
            items.next().ok_or_else(|| err!(Argument, "Too few arguments for format string {pattern:?}"))?;
        let left = spec.starts_with('-');
        let spec = spec.trim_start_matches('-');
        let align = if left {
            "<"
        } else if spec.starts_with('0') {
            ""
        } else {
            ">"
        };
        match code {
            's' | 'r' => out.push_str(&with_spec(&Value::from(shown(value)?), &format!("{align}{spec}"))?),
            'd' | 'i' => {
                let whole = match value {
                    Value::Float(x) => Value::Int(super::numbers::truncated(*x)?),
                    other => Value::Int(other.to_int()?),
                };
                out.push_str(&with_spec(&whole, &format!("{align}{spec}d"))?);
            }
            'c' if matches!(value, Value::Str(_)) => out.push_str(value.to_str()?),
            'x' | 'X' | 'o' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'c' => {
                out.push_str(&with_spec(value, &format!("{align}{spec}{code}"))?);
            }
            other => bail!(Argument, "The specifier %{other} is not supported in format strings"),
        }
    }
    if items.next().is_some() {
        bail!(Argument, "Too many arguments for format string {pattern:?}");
    }
    Ok(out)
}
