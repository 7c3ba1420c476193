//! [`Missed`]: where a call differs from a segment, in words.

use super::event::Difference;
use super::report::Miss;
use super::segment::Segment;
use crate::lazy::Call;
use crate::{Scalar, SourceLoc};

/// A difference, and where it was found.
#[derive(Clone)]
pub(super) struct Missed {
    pub(super) reason: String,
    pub(super) at: Option<SourceLoc>,
}

/// Writes a number as Rust does.
pub(super) fn number_text(scalar: Scalar) -> String {
    match scalar {
        Scalar::Bool(x) => x.to_string(),
        Scalar::Int(x) => x.to_string(),
        Scalar::Float(x) => format!("{x:?}"),
    }
}

/// Makes the report of a miss.
pub(super) fn missed(call: u64, miss: Option<Missed>, outcome: String) -> Miss {
    let (reason, at) = miss.map_or(("first call".to_owned(), None), |miss| (miss.reason, miss.at));
    Miss { call, reason, at, outcome }
}

impl Segment {
    /// Says in words where a call differs from a segment.
    pub(super) fn describe(&self, at: usize, difference: Difference, call: Option<&Call<'_>>) -> Missed {
        let expected = self.events.get(at);
        let got = call.map_or("the end", |call| call.op.name);
        let name = |input: u32| self.input_name(input);
        let mut place = call.map(|call| call.source.clone());
        let mut used_at = |input: u32| {
            if let Some(event) = self.first_use(input) {
                place = Some(event.source.clone());
            }
        };
        let reason = match difference {
            Difference::Operation => {
                format!("operation {at}: {}, got {got}", expected.map_or("the end", |event| event.op.name))
            }
            Difference::Argument => format!("operation {at}: another argument of {got}"),
            Difference::Literal { expected, got } => {
                format!("number of operation {at}: {}, got {}", number_text(expected), number_text(got))
            }
            Difference::DType { input, expected, got } => {
                used_at(input);
                format!("input {}: dtype {expected}, got {got}", name(input))
            }
            Difference::Rank { input, expected, got } => {
                used_at(input);
                format!("input {}: {expected} axes, got {got}", name(input))
            }
            Difference::Size { input, axis, expected, got } => {
                used_at(input);
                format!("input {}: size of axis {axis} is {got}, compiled for {expected}", name(input))
            }
            Difference::Relation { input, axis, expected, got } => {
                used_at(input);
                format!("input {}: size of axis {axis} is {got}, {expected} by the other sizes", name(input))
            }
            Difference::Constant { .. } => "a parameter was replaced".to_owned(),
            Difference::Longer => format!("operation {at}: the end, got {got}"),
            Difference::Shorter => {
                format!("operation {at}: {}, got the end", expected.map_or("the end", |event| event.op.name))
            }
            Difference::Rule => format!("operation {at}: the rule of {got} refuses these sizes for symbols"),
        };
        Missed { reason, at: place }
    }
}
