//! Python beside fx: a process that runs programs.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use fx_core::{Result, err};

use super::Dialect;

/// The longest time that a program may take by default. PyTorch's compiler does not end on some programs.
const LIMIT: Duration = Duration::from_secs(20);

/// A process of Python that runs programs, one after the other.
#[derive(Debug)]
pub struct Reference {
    python: String,
    dialect: Dialect,
    /// The longest time that a program may take.
    pub limit: Duration,
    running: Running,
}

#[derive(Debug)]
struct Running {
    process: Child,
    input: ChildStdin,
    /// The lines that the process writes, until it ends.
    lines: Receiver<String>,
}

impl Reference {
    /// Starts an interpreter, such as `python3`. For [`Dialect::Torch`] it must have PyTorch. Fails if it does not
    /// start.
    pub fn start(python: &str, dialect: Dialect) -> Result<Reference> {
        let running = Running::start(python, dialect)?;
        Ok(Reference { python: python.to_owned(), dialect, limit: LIMIT, running })
    }

    /// Runs a program and returns its outcome as text; one that begins with `refused` says why the program is
    /// none of the dialect, or that it does not end in time. Fails if the process has ended.
    pub fn run(&mut self, program: &str) -> Result<String> {
        let wrong = |error: std::io::Error| err!(Io, "the Python process has ended: {error}");
        write!(self.running.input, "{}\n{program}", program.len()).map_err(wrong)?;
        self.running.input.flush().map_err(wrong)?;
        match self.running.lines.recv_timeout(self.limit) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => {
                self.running = Running::start(&self.python, self.dialect)?;
                Ok(format!("refused it does not end within {} ms", self.limit.as_millis()))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(err!(Io, "the Python process has ended in the program\n{program}"))
            }
        }
    }
}

impl Running {
    fn start(python: &str, dialect: Dialect) -> Result<Running> {
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
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                let Ok(line) = line else { return };
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Running { process, input, lines })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A process that has ended already is what we want.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
