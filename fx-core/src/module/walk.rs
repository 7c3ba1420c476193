//! Walking a module tree: named members with full paths, and the printed tree.

use std::fmt::{self, Write};

use super::{Buffer, Module, Parameter, Visitor};

/// A member with its dotted path from the root.
pub type Named<'a, T> = (String, &'a T);

/// A module with its dotted path; the root's is empty.
pub type NamedModule<'a> = (String, &'a dyn Module);

#[derive(Default)]
struct Members<'a> {
    prefix: String,
    parameters: Vec<Named<'a, Parameter>>,
    buffers: Vec<Named<'a, Buffer>>,
    modules: Vec<NamedModule<'a>>,
}

impl Members<'_> {
    fn path(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}.{name}", self.prefix) }
    }
}

impl<'a> Visitor<'a> for Members<'a> {
    fn parameter(&mut self, name: &str, parameter: &'a Parameter) {
        self.parameters.push((self.path(name), parameter));
    }
    fn buffer(&mut self, name: &str, buffer: &'a Buffer) {
        self.buffers.push((self.path(name), buffer));
    }
    fn module(&mut self, name: &str, module: &'a dyn Module) {
        let path = self.path(name);
        self.modules.push((path.clone(), module));
        let prefix = std::mem::replace(&mut self.prefix, path);
        module.visit(self);
        self.prefix = prefix;
    }
}

fn members(root: &dyn Module) -> Members<'_> {
    let mut members = Members::default();
    members.modules.push((String::new(), root));
    root.visit(&mut members);
    members
}

/// Returns every parameter below `root`, depth first.
pub fn collect_parameters(root: &dyn Module) -> Vec<Named<'_, Parameter>> {
    members(root).parameters
}

/// Returns every buffer below `root`, depth first.
pub fn collect_buffers(root: &dyn Module) -> Vec<Named<'_, Buffer>> {
    members(root).buffers
}

/// Returns `root` and every module below it, outermost first.
pub fn collect_modules(root: &dyn Module) -> Vec<NamedModule<'_>> {
    members(root).modules
}

/// Whether every direct sub-module is pure.
pub(super) struct Purity(pub(super) bool);

impl<'a> Visitor<'a> for Purity {
    fn parameter(&mut self, _: &str, _: &'a Parameter) {}
    fn buffer(&mut self, _: &str, _: &'a Buffer) {}
    fn module(&mut self, _: &str, module: &'a dyn Module) {
        self.0 &= module.is_pure();
    }
}

/// Writes the tree of modules, with configuration and the number of parameters of each. Fails if the
/// formatter does.
pub fn display_tree(root: &dyn Module, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    struct Children<'a>(Vec<(String, &'a dyn Module)>, u64);
    impl<'a> Visitor<'a> for Children<'a> {
        fn parameter(&mut self, _: &str, parameter: &'a Parameter) {
            self.1 += parameter.array().map_or(0, |array| array.numel() as u64);
        }
        fn buffer(&mut self, _: &str, _: &'a Buffer) {}
        fn module(&mut self, name: &str, module: &'a dyn Module) {
            self.0.push((name.to_owned(), module));
        }
    }
    fn count(module: &dyn Module) -> u64 {
        let mut children = Children(Vec::new(), 0);
        module.visit(&mut children);
        children.1 + children.0.iter().map(|(_, child)| count(*child)).sum::<u64>()
    }
    fn write(name: &str, module: &dyn Module, indent: usize, out: &mut dyn Write) -> fmt::Result {
        let mut children = Children(Vec::new(), 0);
        module.visit(&mut children);
        let name = if name.is_empty() { String::new() } else { format!("({name}): ") };
        write!(out, "{:indent$}{name}{}({})", "", module.type_name(), module.extra_repr())?;
        match count(module) {
            0 => {}
            n => write!(out, "  {n} parameters")?,
        }
        for (name, child) in children.0 {
            out.write_char('\n')?;
            write(&name, child, indent + 2, out)?;
        }
        Ok(())
    }
    write("", root, 0, f)
}
