//! What `#[fx::compile]` makes of a function.

use std::fmt;

use super::{Function, compile_at};
use crate::module::InputDecl;
use crate::trace::{Traceable, result_as};
use crate::{Arg, Result, SourceLoc, Tree, Value};

/// The name of an argument, and whether its type [takes symbols](Tree::takes_symbols).
type SiteArgument = (&'static str, fn() -> bool);

/// A function with the attribute [`compile`](macro@crate::compile).
pub struct Site {
    name: &'static str,
    arguments: &'static [SiteArgument],
    run: fn(&[Value]) -> Result<Value>,
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.arguments.iter().map(|(name, _)| *name).collect();
        write!(f, "{}({})", self.name, names.join(", "))
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

    fn arguments(&self) -> Vec<InputDecl> {
        // Its arguments are those of each call.
        let decl = |(name, takes_symbols): &SiteArgument| InputDecl {
            takes_symbols: takes_symbols(),
            ..InputDecl::new(*name, Ok(Arg::Leaf(())))
        };
        self.arguments.iter().map(decl).collect()
    }

    fn run(&self, args: &[Value]) -> Result<Value> {
        (self.run)(args)
    }
}

/// Makes the compiled form of a function, which the attribute at `place` stands before.
#[doc(hidden)]
pub fn compiled(
    name: &'static str,
    arguments: &'static [SiteArgument],
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
