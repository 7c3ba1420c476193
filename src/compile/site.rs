//! What `#[fx::compile]` makes of a function.

use std::fmt;

use super::{Function, compile_at};
use crate::trace::{Traceable, result_as};
use crate::{Arg, Result, SourceLoc, Tree, Value};

/// A function with the attribute [`compile`](macro@crate::compile).
pub struct Site {
    name: &'static str,
    arguments: &'static [&'static str],
    run: fn(&[Value]) -> Result<Value>,
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name, self.arguments.join(", "))
    }
}

/// Marks functions with the attribute.
#[derive(Debug)]
pub enum BySite {}

/// The compiled form of a function with the attribute [`compile`](macro@crate::compile).
pub type Compiled = Function<Site, BySite>;

impl Traceable<BySite> for Site {
    fn name(&self) -> String {
        self.name.into()
    }

    fn arguments(&self) -> Vec<(String, Result<Arg<()>>)> {
        // Its arguments are those of each call.
        self.arguments.iter().map(|name| ((*name).to_owned(), Ok(Arg::Leaf(())))).collect()
    }

    fn run(&self, args: &[Value]) -> Result<Value> {
        (self.run)(args)
    }
}

/// Makes the compiled form of a function, which the attribute at `place` stands before.
#[doc(hidden)]
pub fn compiled(
    name: &'static str,
    arguments: &'static [&'static str],
    run: fn(&[Value]) -> Result<Value>,
    place: SourceLoc,
) -> Compiled {
    compile_at(Site { name, arguments, run }, place)
}

/// Calls a compiled function.
#[doc(hidden)]
#[track_caller]
pub fn call_compiled<R: Tree>(function: &Compiled, args: Vec<Value>) -> R {
    result_as(function.call_values(&args))
}
