//! Source texts and places in them: every token, node and operation knows the line that it comes from.

use std::sync::Arc;

use fx_core::{Error, ErrorKind, SourceLoc};

/// A text with its name, such as the path of a file or of an archive's member.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Source {
    name: Arc<str>,
    text: String,
    /// The bytes at which lines begin.
    line_starts: Vec<u32>,
}

impl Source {
    /// Makes a source of a name and a text.
    pub fn new(name: impl Into<Arc<str>>, text: impl Into<String>) -> Arc<Source> {
        let text = text.into();
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let line_starts = [0].into_iter().chain(newlines.map(|(at, _)| at as u32 + 1)).collect();
        Arc::new(Source { name: name.into(), text, line_starts })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns file, line and column of a byte; the column counts characters.
    pub fn location(&self, byte: u32) -> SourceLoc {
        let (line, column, _) = self.line(byte);
        SourceLoc::new(self.name.clone(), line, column)
    }

    /// Returns line, column and text of the line of a byte.
    fn line(&self, byte: u32) -> (u32, u32, &str) {
        let mut byte = (byte as usize).min(self.text.len());
        while !self.text.is_char_boundary(byte) {
            byte -= 1;
        }
        let line = self.line_starts.partition_point(|&start| start as usize <= byte);
        let start = self.line_starts[line - 1] as usize;
        let column = self.text[start..byte].chars().count() as u32 + 1;
        let text = self.text[start..].split(['\n', '\r']).next().unwrap_or_default();
        (line as u32, column, text)
    }

    /// Makes an error at a place of the text. Its message ends in the line and a caret below the place.
    pub fn error(&self, kind: ErrorKind, span: Span, message: &str) -> Error {
        let (_, column, line) = self.line(span.start);
        let column = column as usize - 1;
        // A window keeps a line of a megabyte out of the message.
        let skipped = column.saturating_sub(60);
        let shown: String = line.chars().skip(skipped).take(100).collect();
        let indent: String = shown
            .chars()
            .take(column - skipped)
            .map(|character| if character == '\t' { '\t' } else { ' ' })
            .collect();
        let room = shown.chars().count().saturating_sub(column - skipped).max(1);
        let marked = self.slice(span).chars().take_while(|&character| character != '\n').count();
        let carets = "^".repeat(marked.clamp(1, room));
        Error::new(kind, format!("{message}\n    {shown}\n    {indent}{carets}\n "))
            .at(self.location(span.start))
    }

    /// Returns the text of a span, or nothing if it is none of this source.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or_default()
    }
}

/// A range of bytes of a [`Source`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte after the last one.
    pub end: u32,
}

impl Span {
    /// Returns the span from the start of `self` to the end of `other`.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end.max(self.start) }
    }
}
