//! A program that can be called: its code as bytecode, with the objects that it works on.

use std::collections::BTreeMap;
use std::sync::Arc;

use fx_core::{Result, SourceLoc, bail, err};

use super::Program;
use crate::emit::Unit;
use crate::ir;
use crate::value::Value;
use crate::vm::{Environment, Executable, Limits, LineProfile, Machine, Operators, Profile};

/// A program with its state. Calls change the state as the program says; a call that fails changes nothing.
pub struct Session {
    program: Program,
    unit: Unit,
    executable: Executable,
    limits: Limits,
    output: String,
    /// What the lines have cost so far, if that is measured: instructions, and seconds.
    profile: Option<BTreeMap<SourceLoc, (u64, f64)>>,
}

impl Session {
    /// Compiles all functions of a program. Objects that restore themselves do so now.
    ///
    /// Fails with the errors of all functions: code that has no types, or calls that fit no overload.
    pub fn new(program: Program, operators: &dyn Operators) -> Result<Session> {
        Session::with_limits(program, operators, Limits::default())
    }

    /// Compiles all functions of a program, and bounds what a call may use up, also the calls by which objects
    /// restore themselves now. Fails as [`new`](Session::new) does, and if such a call reaches a limit.
    pub fn with_limits(program: Program, operators: &dyn Operators, limits: Limits) -> Result<Session> {
        let unit = Unit::of(&program)?;
        let environment = program.environment();
        let code = ir::canonicalize(unit.emit_all()?, &environment.stored);
        let executable = Executable::new(&code, &environment, operators)?;
        let mut session = Session { program, unit, executable, limits, output: String::new(), profile: None };
        for (object, state) in std::mem::take(&mut session.program.pending) {
            let name = format!("{}.__setstate__", object.class.name);
            session.run(&name, vec![Value::Object(object), state])?;
        }
        Ok(session)
    }

    /// Bounds what a call may use up.
    pub fn limits(mut self, limits: Limits) -> Session {
        self.limits = limits;
        self
    }

    /// Measures from now on what each line of the source costs, which [`profile`](Session::profile) returns. Calls
    /// take longer meanwhile.
    pub fn profiled(mut self) -> Session {
        self.profile = Some(BTreeMap::new());
        self
    }

    /// Returns what the lines have cost in all calls since [`profiled`](Session::profiled), the longest time
    /// first.
    pub fn profile(&self) -> Profile {
        let lines = self.profile.iter().flatten();
        let lines =
            lines.map(|(source, &(count, seconds))| LineProfile { source: source.clone(), count, seconds });
        Profile::new(lines.collect())
    }

    /// Returns the program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns the program with the attributes as calls have left them.
    pub fn into_program(self) -> Program {
        self.program
    }

    /// Returns the bytecode, which knows the operators that are missing.
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// Returns the text that calls have printed since the last time.
    pub fn take_output(&mut self) -> String {
        std::mem::take(&mut self.output)
    }

    /// Calls a method of the top module: `forward` with its hooks, others without.
    ///
    /// Fails if there is no such method, the arguments do not fit, the program raises or a limit is reached.
    pub fn call(&mut self, method: &str, args: Vec<Value>, kwargs: Vec<(String, Value)>) -> Result<Value> {
        let class = self.program.root.class.name.clone();
        let name = format!("{class}.{method}");
        if !self.unit.has_function(&name) {
            let methods = self.program.definitions.classes.get(&class);
            let methods = methods.iter().flat_map(|class| class.methods.iter()).map(|method| &*method.name);
            return Err(err!(Unresolved, "the program has no method {method:?}")
                .help(fx_core::names::suggest(method, methods)));
        }
        let mut args = self.program.bind(&self.unit, &name, 1, args, kwargs)?;
        if method != "forward" {
            return self.method(&name, args);
        }
        let Some(definition) = self.program.definitions.classes.get(&class).cloned() else {
            bail!(Unresolved, "there is no class {class:?}");
        };
        for hook in &definition.forward_pre_hooks {
            match self.method(&format!("{class}.{hook}"), vec![Value::tuple(args.clone())])? {
                Value::None => {}
                Value::Tuple(changed) => args = changed.items.to_vec(),
                changed => args = vec![changed],
            }
        }
        let mut result = self.method(&name, args.clone())?;
        for hook in &definition.forward_hooks {
            match self.method(&format!("{class}.{hook}"), vec![Value::tuple(args.clone()), result.clone()])? {
                Value::None => {}
                changed => result = changed,
            }
        }
        Ok(result)
    }

    /// Calls a function that is not a method, by its qualified name; functions of a text have no path.
    ///
    /// Fails as [`call`](Session::call) does.
    pub fn call_function(
        &mut self,
        name: &str,
        args: Vec<Value>,
        kwargs: Vec<(String, Value)>,
    ) -> Result<Value> {
        if !self.program.definitions.functions.contains_key(name) {
            let names = self.program.definitions.functions.keys().map(|name| &**name);
            return Err(err!(Unresolved, "the program has no function {name:?}")
                .help(fx_core::names::suggest(name, names)));
        }
        let args = self.program.bind(&self.unit, name, 0, args, kwargs)?;
        self.run(name, args)
    }

    fn method(&mut self, name: &str, mut args: Vec<Value>) -> Result<Value> {
        args.insert(0, Value::Object(self.program.root.clone()));
        self.run(name, args)
    }

    fn run(&mut self, name: &str, args: Vec<Value>) -> Result<Value> {
        let mut machine = Machine::new(&self.executable, self.limits);
        if self.profile.is_some() {
            machine = machine.profiled();
        }
        let result = machine.call(name, args);
        self.output += &machine.take_output();
        if let Some(total) = &mut self.profile {
            for line in machine.profile() {
                let entry = total.entry(line.source).or_default();
                *entry = (entry.0 + line.count, entry.1 + line.seconds);
            }
        }
        result
    }
}

impl Program {
    /// Returns the classes and constants that its code names.
    pub fn environment(&self) -> Environment {
        let stored = self.constants.iter().enumerate();
        Environment {
            classes: self.runtime.classes.clone(),
            named_tuples: self.runtime.named_tuples.clone(),
            enums: self.runtime.enums.clone(),
            stored: stored.map(|(n, value)| (Arc::from(format!("c{n}")), value.clone())).collect(),
        }
    }
}
