//! What the lines of a program cost.

use std::fmt;

use fx_core::SourceLoc;

/// What a line of a program costs.
#[derive(Debug, Clone, PartialEq)]
pub struct LineProfile {
    /// The place.
    pub source: SourceLoc,
    /// How many instructions ran.
    pub count: u64,
    /// The time that they took, calls of functions included.
    pub seconds: f64,
}

/// What the lines of a program cost, the longest time first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    /// The lines.
    pub lines: Vec<LineProfile>,
}

impl Profile {
    /// Makes a profile of places; those of one line become one, at its first column.
    pub fn new(places: Vec<LineProfile>) -> Profile {
        let mut lines: Vec<LineProfile> = Vec::new();
        let mut places = places;
        places.sort_by(|a, b| a.source.cmp(&b.source));
        for place in places {
            match lines.last_mut() {
                Some(line)
                    if line.source.file() == place.source.file() && line.source.line == place.source.line =>
                {
                    line.count += place.count;
                    line.seconds += place.seconds;
                }
                _ => lines.push(place),
            }
        }
        lines.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then_with(|| a.source.cmp(&b.source)));
        Profile { lines }
    }
}

/// A row for each line: its time in milliseconds, calls of functions included, the instructions that ran, the
/// place.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12} {:>12}  line", "ms", "instructions")?;
        for line in &self.lines {
            let source = &line.source;
            write!(
                f,
                "\n{:>12.3} {:>12}  {}:{}",
                line.seconds * 1e3,
                line.count,
                source.file(),
                source.line
            )?;
        }
        Ok(())
    }
}
