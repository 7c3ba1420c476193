//! Events of compiled functions as they happen: lines on standard error that `FX_LOG` asks for, and the files in
//! the folder that `FX_TRACE` names.
//!
//! `trace.jsonl` has an object a line, `index.html` the same objects in a page that shows them. Both are appended
//! to, so they are complete whenever the program ends. Only what is rare is told: a call that hits writes nothing.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use fx_core::logging::{self, Stage};
use serde::Serialize;

use super::report::{Break, Miss, PathReport, SegmentReport};
use crate::view::in_script;
use crate::{Error, ErrorKind, Result, SourceLoc};

/// The version of the objects.
const VERSION: u32 = 1;

/// The environment variable that names the folder.
const VARIABLE: &str = "FX_TRACE";

const PAGE: &str = include_str!("report.html");

/// An event.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Told<'a> {
    /// A call that no compiled code fitted.
    Miss(&'a Miss),
    /// A place at which a graph ends, or code runs otherwise.
    Break(Broken<'a>),
    /// A graph that was made ready.
    Compiled(&'a SegmentReport),
    /// A path of a pure function.
    Path(&'a PathReport),
}

/// A break with what its code means.
#[derive(Serialize)]
pub(super) struct Broken<'a> {
    #[serde(flatten)]
    found: &'a Break,
    meaning: &'static str,
    advice: &'static str,
}

impl<'a> Broken<'a> {
    pub(super) fn new(found: &'a Break) -> Broken<'a> {
        Broken { found, meaning: found.code.meaning(), advice: found.code.advice() }
    }
}

/// An event with the function in which it happened.
#[derive(Serialize)]
struct Line<'a> {
    version: u32,
    function: &'a str,
    compiled_at: &'a str,
    #[serde(flatten)]
    told: &'a Told<'a>,
}

/// Tells the events of one function.
pub(super) struct Teller {
    function: String,
    place: String,
}

impl Teller {
    pub(super) fn new(function: &str, place: &SourceLoc) -> Teller {
        Teller { function: function.to_owned(), place: place.to_string() }
    }

    pub(super) fn tell(&self, told: Told<'_>) {
        self.log(&told);
        if let Ok(Some(files)) = files() {
            let line =
                Line { version: VERSION, function: &self.function, compiled_at: &self.place, told: &told };
            files.append(&serde_json::to_string(&line).expect("names, numbers and texts are JSON"));
        }
    }

    fn log(&self, told: &Told<'_>) {
        // A bad `FX_LOG` is the error of every call.
        let function = &self.function;
        let show = |stage: Stage, of: &str, artefact: &dyn Fn() -> String| {
            let _ = logging::dump(stage, &format!("{function}: {of}"), |_| artefact());
        };
        match told {
            Told::Miss(miss) => show(Stage::Misses, &miss.to_string(), &String::new),
            Told::Break(broken) => show(Stage::Breaks, &broken.found.to_string(), &String::new),
            Told::Path(path) => show(Stage::Guards, &path.to_string(), &String::new),
            Told::Compiled(segment) => {
                show(Stage::Graphs, &segment.name, &|| segment.graph.clone());
                show(Stage::Kernels, &segment.name, &|| segment.program.clone());
                let (graph, backend) = (segment.graph_time, segment.backend_time);
                let times = format!("{} graph {graph:.1?}, backend {backend:.1?}", segment.name);
                show(Stage::Times, &times, &String::new);
            }
        }
    }
}

/// The files of `FX_TRACE`.
struct Files {
    folder: PathBuf,
    open: Mutex<Option<(File, File)>>,
}

impl Files {
    fn create(folder: PathBuf) -> std::io::Result<Files> {
        std::fs::create_dir_all(&folder)?;
        let lines = File::create(folder.join("trace.jsonl"))?;
        let mut page = File::create(folder.join("index.html"))?;
        page.write_all(PAGE.as_bytes())?;
        Ok(Files { folder, open: Mutex::new(Some((lines, page))) })
    }

    fn append(&self, line: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((lines, page)) = &mut *open else { return };
        let written = lines
            .write_all(format!("{line}\n").as_bytes())
            .and_then(|()| page.write_all(element(line).as_bytes()));
        if let Err(error) = written {
            // A full disk must not stop the program, and is said once.
            eprintln!("{VARIABLE}={}: {error}; no more is written", self.folder.display());
            *open = None;
        }
    }
}

fn files() -> Result<Option<&'static Files>> {
    static FILES: OnceLock<Result<Option<Files>>> = OnceLock::new();
    let files = FILES.get_or_init(|| {
        let Some(folder) = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) else {
            return Ok(None);
        };
        let folder = PathBuf::from(folder);
        Files::create(folder.clone()).map(Some).map_err(|error| {
            Error::new(ErrorKind::Argument, format!("{VARIABLE}={}: {error}", folder.display()))
                .help("name a folder in which files can be written")
        })
    });
    files.as_ref().map(Option::as_ref).map_err(Clone::clone)
}

/// Returns the folder of `FX_TRACE`, if it names one.
pub(super) fn folder() -> Option<&'static Path> {
    files().ok().flatten().map(|files| &*files.folder)
}

/// Fails if `FX_LOG` or `FX_TRACE` says what cannot be done.
pub(super) fn check() -> Result<()> {
    logging::check()?;
    files().map(|_| ())
}

/// Returns whether anybody wants to know of events.
pub(super) fn is_told() -> bool {
    let stages = [Stage::Graphs, Stage::Breaks, Stage::Misses, Stage::Guards, Stage::Kernels, Stage::Times];
    matches!(files(), Ok(Some(_))) || stages.iter().any(|stage| logging::level(*stage).is_ok_and(|n| n > 0))
}

/// Writes an event into the page, where it is data.
fn element(line: &str) -> String {
    format!("<script type=\"application/json\" class=\"event\">{}</script>\n", in_script(line))
}

/// Makes the page of a file `trace.jsonl`, which `FX_TRACE` wrote. Fails with the number of a line that is none of
/// its events.
///
/// ```
/// let line = r#"{"version":1,"function":"f","compiled_at":"a.rs:1:1","event":"miss","call":1,
///     "reason":"first call","at":null,"outcome":"recorded s0"}"#.replace('\n', "");
/// assert!(fx::compile::report_page(&line)?.contains("first call"));
/// let error = fx::compile::report_page("{\"version\":1}").unwrap_err();
/// assert!(error.message().starts_with("line 1 is no event"), "{error}");
/// # Ok::<(), fx::Error>(())
/// ```
pub fn report_page(lines: &str) -> Result<String> {
    let mut page = PAGE.to_owned();
    for (at, line) in lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let bad = |why: &str| {
            Error::new(ErrorKind::Parse, format!("line {} is no event of a compiled function: {why}", at + 1))
                .help("give a file trace.jsonl that a program with FX_TRACE=folder wrote")
        };
        let event: serde_json::Value = serde_json::from_str(line).map_err(|error| bad(&error.to_string()))?;
        let has = |key: &str| event.get(key).is_some_and(serde_json::Value::is_string);
        if !has("event") || !has("function") || !has("compiled_at") {
            return Err(bad("it has no event, function and compiled_at"));
        }
        match event.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {}
            version => return Err(bad(&format!("version {VERSION} is known, got {version:?}"))),
        }
        page += &element(line);
    }
    Ok(page)
}
