//! The values of literals, from their text.

/// Returns the value of an int, or `None` if it has more than 64 bits without a sign.
pub(crate) fn integer(text: &str) -> Option<u64> {
    let digits = text.replace('_', "");
    let radix = match digits.get(..2) {
        Some("0x" | "0X") => 16,
        Some("0o" | "0O") => 8,
        Some("0b" | "0B") => 2,
        _ => return digits.parse().ok(),
    };
    u64::from_str_radix(&digits[2..], radix).ok()
}

/// Returns the value of a float; every text that the lexer calls one has a value.
pub(crate) fn float(text: &str) -> f64 {
    text.replace('_', "").parse().unwrap_or(f64::NAN)
}

/// Returns the value of an imaginary number.
pub(crate) fn imaginary(text: &str) -> f64 {
    float(text.trim_end_matches(['j', 'J']))
}

/// Returns the body of a text without prefix and quotes, and whether it is raw and whether it is an f-string.
pub(crate) fn string_body(text: &str) -> (&str, bool, bool) {
    let start = text.find(['"', '\'']).unwrap_or(0);
    let (prefix, quoted) = text.split_at(start);
    let raw = prefix.contains(['r', 'R']);
    let formatted = prefix.contains(['f', 'F']);
    let triple = quoted.len() >= 6 && (quoted.starts_with("\"\"\"") || quoted.starts_with("'''"));
    let quotes = if triple { 3 } else { 1 };
    (&quoted[quotes..quoted.len() - quotes], raw, formatted)
}

/// Returns the value of a text that is no f-string.
///
/// Fails with a sentence if an escape is wrong.
pub(crate) fn string(text: &str) -> Result<String, String> {
    let (body, raw, _) = string_body(text);
    if raw { Ok(body.replace("\r\n", "\n")) } else { unescape(body) }
}

/// Replaces escapes as Python does; unknown ones stay as they are.
///
/// Fails with a sentence if a code is cut short or names no character.
pub(crate) fn unescape(body: &str) -> Result<String, String> {
    let mut out = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = rest.find(['\\', '\r']) {
        out.push_str(&rest[..at]);
        let is_return = rest.as_bytes()[at] == b'\r';
        rest = &rest[at + 1..];
        if is_return {
            out.push('\n');
            rest = rest.strip_prefix('\n').unwrap_or(rest);
            continue;
        }
        let Some(escape) = rest.chars().next() else { return Err("a text ends in a backslash".to_owned()) };
        let after = &rest[escape.len_utf8()..];
        rest = after;
        match escape {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            'a' => out.push('\x07'),
            'b' => out.push('\x08'),
            'f' => out.push('\x0c'),
            'v' => out.push('\x0b'),
            '\\' | '\'' | '"' => out.push(escape),
            '\n' => {}
            '\r' => rest = rest.strip_prefix('\n').unwrap_or(rest),
            '0'..='7' => {
                let digits = after.bytes().take(2).take_while(|digit| (b'0'..=b'7').contains(digit)).count();
                let code = format!("{escape}{}", &after[..digits]);
                let code = u32::from_str_radix(&code, 8).expect("up to three octal digits are a number");
                out.push(char::from_u32(code).expect("numbers up to 0o777 are characters"));
                rest = &after[digits..];
            }
            'x' | 'u' | 'U' => {
                let width = match escape {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                };
                let code = after.get(..width).and_then(|digits| u32::from_str_radix(digits, 16).ok());
                match code.and_then(char::from_u32) {
                    Some(character) => out.push(character),
                    None => {
                        return Err(format!(
                            "\\{escape} needs {width} hexadecimal digits that are a character"
                        ));
                    }
                }
                rest = &after[width..];
            }
            other => {
                out.push('\\');
                out.push(other);
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}
