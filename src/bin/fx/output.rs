//! What commands print: text, JSON, notes, and a progress bar.

use std::io::IsTerminal;
use std::path::Path;

use serde_json::Value as Json;

/// Prints text that may end in a line break already; a closed pipe ends the program in silence.
pub(crate) fn print(text: &str) {
    print_with(text, if text.ends_with('\n') { "" } else { "\n" });
}

/// Prints text without a line break after it; a closed pipe ends the program in silence.
pub(crate) fn print_as_is(text: &str) {
    print_with(text, "");
}

fn print_with(text: &str, end: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    if write!(out, "{text}{end}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

pub(crate) fn print_json(items: Vec<Json>) {
    print(&format!("{:#}", Json::Array(items)));
}

/// Writes a text file.
pub(crate) fn write(path: &Path, text: &str) -> fx::Result<()> {
    std::fs::write(path, text).map_err(|error| fx::err!(Io, "cannot write {}: {error}", path.display()))
}

/// Prints a note if the native engine is wanted and there is no compiler for it.
pub(crate) fn note_missing_compiler(is_wanted: bool) {
    if let (true, Err(error)) = (is_wanted, fx::Native::shared().check()) {
        eprintln!("note: nothing runs on the native engine: {error}");
    }
}

/// A progress bar on a terminal, nothing elsewhere.
pub(crate) struct Bar(bool);

impl Bar {
    pub(crate) fn new() -> Self {
        Bar(std::io::stderr().is_terminal())
    }

    pub(crate) fn show(&mut self, done: usize, all: usize, name: &str) {
        const WIDTH: usize = 30;
        if self.0 {
            let full = done * WIDTH / all.max(1);
            eprint!("\r\x1b[K[{:#<full$}{:.<rest$}] {done}/{all} {name}", "", "", rest = WIDTH - full);
        }
    }

    pub(crate) fn clear(&mut self) {
        if self.0 {
            eprint!("\r\x1b[K");
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}
