//! Reads safetensors files: 8 bytes of length, then JSON with type, shape and byte range of each tensor, then
//! the elements.
//!
//! A file is refused unless names are distinct and the ranges fill the data exactly, each as long as type and
//! shape say.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use super::error::Error;

/// The greatest length of the JSON.
const MAX_HEADER: u64 = 100_000_000;
/// The greatest number of axes.
const MAX_RANK: usize = 64;

/// An element type.
pub trait Element: Copy {
    /// Its name in files.
    const NAME: &'static str;
    /// Reads elements.
    fn read(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! elements {
    ($($ty:ident $name:literal)*) => {
        $(impl Element for $ty {
            const NAME: &'static str = $name;
            fn read(bytes: &[u8]) -> Vec<Self> {
                let (chunks, _) = bytes.as_chunks();
                chunks.iter().map(|bytes| $ty::from_le_bytes(*bytes)).collect()
            }
        })*
    };
}
elements!(u8 "U8" i8 "I8" i32 "I32" i64 "I64" f32 "F32" f64 "F64");

impl Element for bool {
    const NAME: &'static str = "BOOL";
    fn read(bytes: &[u8]) -> Vec<Self> {
        bytes.iter().map(|byte| *byte != 0).collect()
    }
}

/// Returns the bytes of an element, if the type is known.
fn size_of_type(name: &str) -> Option<u64> {
    Some(match name {
        "BOOL" | "U8" | "I8" | "F8_E4M3" | "F8_E5M2" => 1,
        "U16" | "I16" | "F16" | "BF16" => 2,
        "U32" | "I32" | "F32" => 4,
        "U64" | "I64" | "F64" => 8,
        _ => return None,
    })
}

#[derive(Clone, Debug)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    range: Range<usize>,
}

/// A safetensors file.
#[derive(Clone, Debug)]
pub struct File {
    bytes: Vec<u8>,
    tensors: BTreeMap<String, Entry>,
}

fn bad<T>(reason: impl Into<String>) -> Result<T, Error> {
    Err(Error::File(reason.into()))
}

impl File {
    /// Reads a file.
    pub fn open(path: impl AsRef<Path>) -> Result<File, Error> {
        let path = path.as_ref();
        let bytes = std::fs::read(path)
            .map_err(|error| Error::Io { path: path.display().to_string(), reason: error.to_string() })?;
        File::from_bytes(bytes)
    }

    /// Reads a file that is in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<File, Error> {
        let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
            return bad("it is shorter than 8 bytes");
        };
        let length = u64::from_le_bytes(*length);
        if length > MAX_HEADER {
            return bad(format!("its header is {length} bytes long"));
        }
        let Some((header, data)) = rest.split_at_checked(length as usize) else {
            return bad("it ends within the header");
        };
        let Ok(header) = std::str::from_utf8(header) else { return bad("its header is not UTF-8") };
        let mut tensors = Json { text: header, at: 0 }.header()?;
        let mut ranges: Vec<(Range<usize>, &str)> =
            tensors.iter().map(|(name, entry)| (entry.range.clone(), name.as_str())).collect();
        ranges.sort_by_key(|(range, _)| (range.start, range.end));
        let mut end = 0;
        for (range, name) in ranges {
            if range.start != end {
                return bad(format!("{name:?} begins at byte {}, expected {end}", range.start));
            }
            end = range.end;
        }
        if end != data.len() {
            return bad(format!("it has {} bytes of elements, expected {end}", data.len()));
        }
        let start = 8 + length as usize;
        for entry in tensors.values_mut() {
            entry.range = entry.range.start + start..entry.range.end + start;
        }
        Ok(File { bytes, tensors })
    }

    /// Returns the names of the tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Returns whether there is a tensor of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Returns the sizes and elements of a tensor of this type.
    pub fn tensor<T: Element>(&self, name: &str) -> Result<(Vec<usize>, Vec<T>), Error> {
        let Some(entry) = self.tensors.get(name) else { return Err(Error::Missing(name.to_owned())) };
        if entry.dtype != T::NAME {
            return Err(Error::Mismatch {
                name: name.to_owned(),
                expected: T::NAME.to_owned(),
                got: entry.dtype.clone(),
            });
        }
        Ok((entry.shape.clone(), T::read(&self.bytes[entry.range.clone()])))
    }

    /// Returns the elements of a tensor of this type and these sizes.
    pub fn elements<T: Element>(&self, name: &str, shape: &[usize]) -> Result<Vec<T>, Error> {
        let Some(entry) = self.tensors.get(name) else { return Err(Error::Missing(name.to_owned())) };
        if entry.dtype != T::NAME || entry.shape != shape {
            return Err(Error::Mismatch {
                name: name.to_owned(),
                expected: format!("{}{shape:?}", T::NAME),
                got: format!("{}{:?}", entry.dtype, entry.shape),
            });
        }
        Ok(T::read(&self.bytes[entry.range.clone()]))
    }
}

/// The part of JSON that headers are written in.
struct Json<'a> {
    text: &'a str,
    at: usize,
}

impl Json<'_> {
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn accept(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), Error> {
        match self.accept(byte) {
            true => Ok(()),
            false => bad(format!("expected {:?} at byte {} of the header", char::from(byte), self.at)),
        }
    }

    /// Reads items up to `end`, separated by commas.
    fn items(&mut self, end: u8, mut item: impl FnMut(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        if self.accept(end) {
            return Ok(());
        }
        loop {
            item(self)?;
            if self.accept(end) {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    fn string(&mut self) -> Result<String, Error> {
        self.expect(b'"')?;
        let mut out = String::new();
        loop {
            let Some(c) = self.text[self.at..].chars().next() else {
                return bad("a text of the header has no end");
            };
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(out),
                '\\' => out.push(self.escape()?),
                c if c < ' ' => return bad("a text of the header has a control character"),
                c => out.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Error> {
        let escaped = self.text.as_bytes().get(self.at).copied();
        self.at += 1;
        Ok(match escaped {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let high = self.hex()?;
                let code = match high {
                    0xd800..0xdc00 if self.text[self.at..].starts_with("\\u") => {
                        self.at += 2;
                        let low = self.hex()?;
                        0x10000 + ((high - 0xd800) << 10) + (low.wrapping_sub(0xdc00) & 0x3ff)
                    }
                    code => code,
                };
                match char::from_u32(code) {
                    Some(c) => c,
                    None => return bad("a text of the header has half a character"),
                }
            }
            _ => return bad("a text of the header has an unknown escape"),
        })
    }

    fn hex(&mut self) -> Result<u32, Error> {
        let digits = self
            .text
            .get(self.at..self.at + 4)
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(digits) = digits else { return bad("a text of the header has a bad escape") };
        self.at += 4;
        u32::from_str_radix(digits, 16).or_else(|_| bad("a text of the header has a bad escape"))
    }

    fn number(&mut self) -> Result<u64, Error> {
        self.peek();
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let digits = &rest[..end];
        self.at += end;
        if digits.len() > 1 && digits.starts_with('0') {
            return bad("a number of the header begins with 0");
        }
        digits.parse().or_else(|_| bad(format!("expected a number at byte {} of the header", self.at)))
    }

    fn numbers(&mut self) -> Result<Vec<u64>, Error> {
        self.expect(b'[')?;
        let mut numbers = Vec::new();
        self.items(b']', |json| {
            numbers.push(json.number()?);
            Ok(())
        })?;
        Ok(numbers)
    }

    fn header(mut self) -> Result<BTreeMap<String, Entry>, Error> {
        let mut tensors = BTreeMap::new();
        self.expect(b'{')?;
        self.items(b'}', |json| {
            let name = json.string()?;
            json.expect(b':')?;
            if name == "__metadata__" {
                json.expect(b'{')?;
                return json.items(b'}', |json| {
                    json.string()?;
                    json.expect(b':')?;
                    json.string().map(|_| ())
                });
            }
            let entry = json.entry(&name)?;
            match tensors.insert(name.clone(), entry) {
                None => Ok(()),
                Some(_) => bad(format!("there are two tensors {name:?}")),
            }
        })?;
        match self.peek() {
            None => Ok(tensors),
            Some(_) => bad("there is text behind the header"),
        }
    }

    fn entry(&mut self, name: &str) -> Result<Entry, Error> {
        let (mut dtype, mut shape, mut offsets) = (None, None, None);
        self.expect(b'{')?;
        self.items(b'}', |json| {
            let key = json.string()?;
            json.expect(b':')?;
            let is_new = match key.as_str() {
                "dtype" => dtype.replace(json.string()?).is_none(),
                "shape" => shape.replace(json.numbers()?).is_none(),
                "data_offsets" => offsets.replace(json.numbers()?).is_none(),
                _ => return bad(format!("{name:?} has an unknown entry {key:?}")),
            };
            if is_new { Ok(()) } else { bad(format!("{name:?} has two entries {key:?}")) }
        })?;
        let (Some(dtype), Some(shape), Some(offsets)) = (dtype, shape, offsets) else {
            return bad(format!("{name:?} has no dtype, shape or data_offsets"));
        };
        let [from, to] = offsets[..] else { return bad(format!("{name:?} has no two offsets")) };
        if shape.len() > MAX_RANK {
            return bad(format!("{name:?} has {} axes", shape.len()));
        }
        let bytes =
            size_of_type(&dtype).map(|size| shape.iter().try_fold(size, |n, size| n.checked_mul(*size)));
        if from > to || bytes.is_some_and(|bytes| bytes != Some(to - from)) {
            return bad(format!("{name:?} is at bytes {from}..{to}, which is not what type and shape say"));
        }
        let number = |n: u64| usize::try_from(n).or_else(|_| bad(format!("{name:?} is larger than memory")));
        let range = number(from)?..number(to)?;
        let shape = shape.into_iter().map(number).collect::<Result<_, _>>()?;
        Ok(Entry { dtype, shape, range })
    }
}
