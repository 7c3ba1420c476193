//! The records that lead from serialised code to the lines of the user's Python.

use std::collections::HashMap;

use fx_core::{Result, SourceLoc};

use crate::pickle::{self, Builder, Node, NodeRef, Pickle};

/// The most bytes of source text that records may hold.
const MAX_TEXT: usize = 1 << 26;

/// The places of the user's Python that a file of code was made from.
#[derive(Clone, Debug, Default)]
pub struct DebugRecords {
    /// From this byte of the file on, code comes from a place, or from none; sorted by byte.
    ranges: Vec<(usize, Option<SourceLoc>)>,
}

impl DebugRecords {
    /// Reads the records of a member; what is not a record is left out.
    pub fn read(member: &str, bytes: &[u8]) -> DebugRecords {
        let Ok(pickle) = pickle::read(member, bytes) else { return DebugRecords::default() };
        let ranges = Reader { pickle: &pickle, sources: HashMap::new(), budget: MAX_TEXT }.ranges();
        DebugRecords { ranges: ranges.unwrap_or_default() }
    }

    /// Returns the place that the code at a byte of the file comes from, if it is known.
    pub fn locate(&self, byte: usize) -> Option<&SourceLoc> {
        let after = self.ranges.partition_point(|(start, _)| *start <= byte);
        self.ranges[..after].last()?.1.as_ref()
    }

    /// Returns whether no place is known.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// A statement of code that is written, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugRange {
    /// The byte of the file of code at which the statement begins.
    pub byte: usize,
    /// The place that the user wrote.
    pub place: SourceLoc,
    /// What messages of PyTorch show at the place.
    pub text: String,
}

/// Columns beyond are written as this one: the text of a place begins with a space for each column.
const MAX_COLUMN: u32 = 1000;

/// Returns the bytes of the member with the records of a file of code. Fails never.
pub(super) fn write(ranges: &[DebugRange]) -> Result<Vec<u8>> {
    let mut builder = Builder::default();
    let mut strings = Strings::default();
    let mut places: HashMap<(&SourceLoc, &str), NodeRef> = HashMap::new();
    let mut records = Vec::with_capacity(ranges.len());
    for range in ranges {
        let place = match places.get(&(&range.place, range.text.as_str())) {
            Some(place) => *place,
            None => {
                let start = range.place.column.clamp(1, MAX_COLUMN) as usize - 1;
                let text = format!("{}{}\n", " ".repeat(start), range.text);
                let end = start + range.text.chars().count();
                let piece = strings.index(text);
                let piece = builder.add(Node::Int(piece));
                let pieces = builder.add(Node::List(vec![piece]));
                let pieces = builder.add(Node::Tagged { value: pieces, ty: "List[int]".into() });
                let numbers = [strings.index(range.place.file().to_owned()), i64::from(range.place.line)];
                let [file, line] = numbers.map(|number| builder.add(Node::Int(number)));
                let source = builder.add(Node::Tuple(vec![pieces, file, line]));
                let [start, end] = [start, end].map(|at| builder.add(Node::Int(at as i64)));
                let place = builder.add(Node::Tuple(vec![source, start, end]));
                places.insert((&range.place, &range.text), place);
                place
            }
        };
        let [byte, tag] = [range.byte as i64, 0].map(|number| builder.add(Node::Int(number)));
        records.push(builder.add(Node::Tuple(vec![byte, place, tag])));
    }
    let head = builder.text("FORMAT_WITH_STRING_TABLE");
    let strings = strings.texts.into_iter().map(|text| builder.text(text)).collect();
    let strings = builder.add(Node::Tuple(strings));
    let records = builder.add(Node::Tuple(records));
    let root = builder.add(Node::Tuple(vec![head, strings, records]));
    Ok(pickle::write(&builder.finish(root)?))
}

/// Texts, each once.
#[derive(Default)]
struct Strings {
    texts: Vec<String>,
    indices: HashMap<String, i64>,
}

impl Strings {
    fn index(&mut self, text: String) -> i64 {
        let next = self.texts.len() as i64;
        *self.indices.entry(text).or_insert_with_key(|text| {
            self.texts.push(text.clone());
            next
        })
    }
}

/// A source text: its file, its first line, and where its lines begin, counted in characters.
struct Source {
    file: std::sync::Arc<str>,
    first_line: u32,
    lines: Vec<usize>,
}

impl Source {
    fn new(file: &str, first_line: u32, text: &str) -> Source {
        let ends = text.chars().enumerate().filter(|&(_, c)| c == '\n').map(|(at, _)| at + 1);
        Source { file: file.into(), first_line, lines: std::iter::once(0).chain(ends).collect() }
    }

    fn locate(&self, at: usize) -> SourceLoc {
        let line = self.lines.partition_point(|&start| start <= at) - 1;
        let column = u32::try_from(at - self.lines[line]).unwrap_or(u32::MAX).saturating_add(1);
        SourceLoc::new(self.file.clone(), self.first_line.saturating_add(line as u32), column)
    }
}

struct Reader<'a> {
    pickle: &'a Pickle,
    /// The sources by their node; `None` where there is no file.
    sources: HashMap<NodeRef, Option<Source>>,
    /// How many bytes of text may still be read.
    budget: usize,
}

impl<'a> Reader<'a> {
    fn ranges(mut self) -> Option<Vec<(usize, Option<SourceLoc>)>> {
        let pickle = self.pickle;
        let items = self.tuple(pickle.root())?;
        let (strings, records) = match items {
            &[head, strings, records] if self.text(head) == Some("FORMAT_WITH_STRING_TABLE") => {
                (Some(self.tuple(strings)?), self.tuple(records)?)
            }
            records => (None, records),
        };
        let mut ranges = Vec::with_capacity(records.len());
        for &record in records {
            let Some(&[byte, place, ..]) = self.tuple(record) else { continue };
            let Some(byte) = self.number(byte) else { continue };
            ranges.push((byte, self.place(strings, place)));
        }
        ranges.sort_by_key(|(byte, _)| *byte);
        Some(ranges)
    }

    fn place(&mut self, strings: Option<&[NodeRef]>, place: NodeRef) -> Option<SourceLoc> {
        let items = self.tuple(place)?;
        let Some(strings) = strings else {
            let &[text, file, line, start, ..] = items else { return None };
            let (text, file) = (self.text(text)?, self.text(file)?);
            self.budget = self.budget.checked_sub(text.len())?;
            let source = Source::new(file, u32::try_from(self.number(line)?).ok()?, text);
            return Some(source.locate(self.number(start)?));
        };
        let &[source, start, ..] = items else { return None };
        if !self.sources.contains_key(&source) {
            let made = self.source(strings, source);
            self.sources.insert(source, made);
        }
        let start = self.number(start)?;
        self.sources[&source].as_ref().map(|source| source.locate(start))
    }

    fn source(&mut self, strings: &[NodeRef], source: NodeRef) -> Option<Source> {
        let &[pieces, file, line] = self.tuple(source)? else { return None };
        let file = self.text(*strings.get(self.number(file)?)?)?;
        if file.is_empty() {
            return None;
        }
        let mut text = String::new();
        for &piece in self.items(pieces)? {
            let piece = self.text(*strings.get(self.number(piece)?)?)?;
            self.budget = self.budget.checked_sub(piece.len())?;
            text += piece;
        }
        Some(Source::new(file, u32::try_from(self.number(line)?).ok()?, &text))
    }

    fn tuple(&self, node: NodeRef) -> Option<&'a [NodeRef]> {
        match self.pickle.node(node) {
            Node::Tuple(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the items of a list, which may be tagged with its type.
    fn items(&self, node: NodeRef) -> Option<&'a [NodeRef]> {
        match self.pickle.node(node) {
            Node::Tagged { value, .. } => match self.pickle.node(*value) {
                Node::List(items) => Some(items),
                _ => None,
            },
            Node::List(items) => Some(items),
            _ => None,
        }
    }

    fn text(&self, node: NodeRef) -> Option<&'a str> {
        match self.pickle.node(node) {
            Node::Str(text) => Some(text),
            _ => None,
        }
    }

    fn number(&self, node: NodeRef) -> Option<usize> {
        match self.pickle.node(node) {
            Node::Int(number) => usize::try_from(*number).ok(),
            _ => None,
        }
    }
}
