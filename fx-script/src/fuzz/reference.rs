//! Python beside fx: a process that runs programs.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use fx_core::{Result, err};

use super::Dialect;

/// A process of Python that runs programs, one after the other.
#[derive(Debug)]
pub struct Reference {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Reference {
    /// Starts an interpreter, such as `python3`. For [`Dialect::Torch`] it must have PyTorch. Fails if it does not
    /// start.
    pub fn start(python: &str, dialect: Dialect) -> Result<Reference> {
        let name = match dialect {
            Dialect::Python => "python",
            Dialect::Torch => "torch",
        };
        let wrong = |error: std::io::Error| err!(Io, "{python} does not start: {error}");
        let mut process = Command::new(python)
            .args(["-c", include_str!("reference.py"), name])
            .env("PYTHONWARNINGS", "ignore")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(wrong)?;
        let input = process.stdin.take().expect("the input is a pipe");
        let output = BufReader::new(process.stdout.take().expect("the output is a pipe"));
        Ok(Reference { process, input, output })
    }

    /// Runs a program and returns its outcome as text; one that begins with `refused` says why the program is
    /// none of the dialect. Fails if the process has ended.
    pub fn run(&mut self, program: &str) -> Result<String> {
        let wrong = |error: std::io::Error| err!(Io, "the Python process has ended: {error}");
        write!(self.input, "{}\n{program}", program.len()).map_err(wrong)?;
        self.input.flush().map_err(wrong)?;
        let mut line = String::new();
        match self.output.read_line(&mut line).map_err(wrong)? {
            0 => Err(err!(Io, "the Python process has ended in the program\n{program}")),
            _ => Ok(line.trim_end_matches('\n').to_owned()),
        }
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // A process that has ended already is what we want.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
