//! Native code: the pointwise and row loops of plans as Rust, compiled by rustc into a library and loaded.
//!
//! [`Native`] makes functions of loop bodies ([`fx_core::native`]): `emit` writes them, `toolchain` finds the
//! compiler, `cache` keeps libraries on disk, `load` loads them. Invariant: what is loaded was compiled from
//! text that this module wrote, by this user.

mod body;
mod cache;
mod emit;
mod load;
mod toolchain;

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use fx_core::native::{ABI, Assemble, Function, LoopBody, Routine};
use fx_core::{Result, err};

pub(crate) use self::body::{gufunc_stands_alone, pasted, row_stands_alone, stands_alone};
use self::cache::Cache;
use self::emit::Emitted;
use self::toolchain::Toolchain;

/// Makes functions of the loops of programs, by rustc.
///
/// Functions are cached by their text: in the process, where a library stays until the end, and on disk.
/// Clones share this cache. Text does not depend on sizes, but on the strides of operands: whether rows are
/// contiguous, or one element serves a whole row.
#[derive(Clone, Debug, Default)]
pub struct Native(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    rustc: Option<PathBuf>,
    cache: Option<PathBuf>,
    state: Mutex<State>,
    /// Held while a library is made, so that one process makes it once.
    building: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    functions: HashMap<Arc<str>, Function>,
    made: Made,
}

/// What [`Native`] has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Made {
    /// The loop bodies that were asked for.
    pub bodies: usize,
    /// The functions in the libraries that were loaded.
    pub functions: usize,
    /// The bytes of text of these libraries.
    pub source: usize,
    /// The libraries that were compiled.
    pub compiled: usize,
    /// The libraries that were loaded.
    pub loaded: usize,
    /// The time in rustc.
    pub compiling: Duration,
    /// The time in which texts were written, and libraries found and loaded.
    pub loading: Duration,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the folder for compiled code: `$FX_CACHE_DIR`, `$XDG_CACHE_HOME/fx` or `~/.cache/fx`. Fails if the
/// environment names none.
pub fn cache_dir() -> Result<PathBuf> {
    Cache::usual()
}

impl Native {
    /// Reads the environment: the compiler is `$RUSTC`, else `rustc` of `$PATH`, else the one in
    /// `~/.cargo/bin`; libraries are kept in `$FX_CACHE_DIR`, else `$XDG_CACHE_HOME/fx`, else `~/.cache/fx`.
    pub fn new() -> Native {
        Native::default()
    }

    /// Returns the one that programs share unless they ask for another.
    pub fn shared() -> &'static Native {
        static SHARED: OnceLock<Native> = OnceLock::new();
        SHARED.get_or_init(Native::new)
    }

    /// Uses this compiler, a path or the name of a program.
    pub fn with_rustc(&self, rustc: impl Into<PathBuf>) -> Native {
        let cache = self.0.cache.clone();
        Native(Arc::new(Inner { rustc: Some(rustc.into()), cache, ..Inner::default() }))
    }

    /// Keeps libraries in this folder.
    pub fn with_cache(&self, dir: impl Into<PathBuf>) -> Native {
        let rustc = self.0.rustc.clone();
        Native(Arc::new(Inner { rustc, cache: Some(dir.into()), ..Inner::default() }))
    }

    /// Returns the work done so far.
    pub fn made(&self) -> Made {
        lock(&self.0.state).made
    }

    /// Finds compiler and cache. Fails if one is missing.
    pub fn check(&self) -> Result<()> {
        self.tools().map(|_| ())
    }

    fn tools(&self) -> Result<(Toolchain, Cache)> {
        let dir = match &self.0.cache {
            Some(dir) => dir.clone(),
            None => Cache::usual()?,
        };
        let cache = Cache::open(&dir)?;
        Ok((Toolchain::find(self.0.rustc.as_deref(), &cache)?, cache))
    }

    /// Writes the functions of loop bodies as one file, without what it was compiled with.
    pub fn source(&self, bodies: &[LoopBody]) -> String {
        let emitted: Vec<Emitted> = bodies.iter().filter_map(emit::emit).collect();
        source(&unique(emitted.iter()))
    }

    /// Compiles or loads texts that are not known yet.
    fn load(&self, texts: &[Arc<str>]) -> Result<()> {
        let _building = lock(&self.0.building);
        if texts.iter().all(|text| lock(&self.0.state).functions.contains_key(text)) {
            return Ok(());
        }
        let (toolchain, cache) = self.tools()?;
        let flags = toolchain::flags(texts.len());
        let recipe = toolchain.describe(&flags) + &source(texts);
        let mut spent = None;
        let library = cache.find_or(&recipe, |source: &Path, library: &Path| {
            let started = Instant::now();
            let result = toolchain.compile(&flags, source, library);
            spent = Some(started.elapsed());
            result
        })?;
        let functions = load::load(&library, texts.len())?;
        let mut state = lock(&self.0.state);
        state.made.loaded += 1;
        state.made.functions += texts.len();
        state.made.source += recipe.len();
        state.made.compiled += usize::from(spent.is_some());
        state.made.compiling += spent.unwrap_or_default();
        for (text, function) in texts.iter().zip(functions) {
            state.functions.entry(text.clone()).or_insert(function);
        }
        Ok(())
    }
}

impl Assemble for Native {
    /// Units of one call are compiled together, those with the same text once. Units that cannot be written
    /// are left to the engine.
    fn assemble(&self, bodies: &[LoopBody]) -> Result<Vec<Option<Routine>>> {
        let started = Instant::now();
        let before = self.made().compiling;
        let emitted: Vec<Option<Emitted>> = bodies.iter().map(emit::emit).collect();
        let texts = unique(emitted.iter().flatten());
        let is_known = texts.iter().all(|text| lock(&self.0.state).functions.contains_key(text));
        if !is_known {
            self.load(&texts)?;
        }
        let mut state = lock(&self.0.state);
        state.made.bodies += bodies.len();
        let compiling = state.made.compiling.saturating_sub(before);
        state.made.loading += started.elapsed().saturating_sub(compiling);
        let routine = |emitted: Option<Emitted>| -> Result<Option<Routine>> {
            let Some(emitted) = emitted else { return Ok(None) };
            let Some(&function) = state.functions.get(&*emitted.text) else {
                return Err(err!(Load, "a function was not compiled"));
            };
            let Emitted { loads, slots, numbers, calls_engine, .. } = emitted;
            Ok(Some(Routine { function, loads, slots, numbers, calls_engine }))
        };
        emitted.into_iter().map(routine).collect()
    }
}

/// Returns the texts in order, each once.
fn unique<'a>(emitted: impl Iterator<Item = &'a Emitted>) -> Vec<Arc<str>> {
    let mut seen = std::collections::HashSet::new();
    emitted
        .filter(|emitted| seen.insert(emitted.text.as_str()))
        .map(|emitted| emitted.text.as_str().into())
        .collect()
}

/// Writes functions as a file, each in a module of its own, so that they are compiled side by side.
fn source(texts: &[Arc<str>]) -> String {
    let mut source = PRELUDE.to_owned();
    if texts.iter().any(|text| text.contains("math")) {
        let _ = write!(source, "mod math {{\n{}\n}}\n", fx_core::math_source::SOURCE);
    }
    let mut table = String::new();
    for (i, text) in texts.iter().enumerate() {
        let _ = write!(source, "mod k{i} {{\nuse super::*;\n{text}}}\n");
        let _ = write!(table, "k{i}::run, ");
    }
    let n = texts.len();
    let _ = writeln!(
        source,
        "#[repr(C)]\npub struct Table(u32, u32, [unsafe extern \"C\" fn(&Call); {n}]);\n#[unsafe(no_mangle)]\n\
         pub static {}: Table = Table({ABI}, {n}, [{table}]);",
        load::TABLE
    );
    source
}

/// What each file begins with: [`fx_core::native::Call`] as compiled code sees it, and slices of what it
/// points to.
const PRELUDE: &str = r#"#![allow(warnings)]
use std::ffi::c_void;
use std::ptr::null;

#[repr(C)]
#[derive(Clone, Copy)]
struct Source {
    at: *const u8,
    row: usize,
}

#[repr(C)]
pub struct Call {
    loads: *const Source,
    stores: *const *mut u8,
    slots: *const *mut u8,
    numbers: *const u64,
    len: usize,
    rows: usize,
    step: unsafe extern "C" fn(*const c_void, u32, *const *const u8, *mut u8),
    host: *const c_void,
}

impl Call {
    #[inline(always)]
    unsafe fn load(&self, i: usize) -> *const u8 {
        unsafe { (*self.loads.add(i)).at }
    }
    #[inline(always)]
    unsafe fn splat<T: Copy>(&self, i: usize, row: usize) -> T {
        unsafe {
            let source = *self.loads.add(i);
            *source.at.add(row * source.row).cast()
        }
    }
    #[inline(always)]
    unsafe fn load_slice<'a, T>(&self, i: usize, row: usize, n: usize) -> &'a [T] {
        unsafe {
            let source = *self.loads.add(i);
            std::slice::from_raw_parts(source.at.add(row * source.row).cast(), n)
        }
    }
    #[inline(always)]
    unsafe fn store(&self, i: usize) -> *mut u8 {
        unsafe { *self.stores.add(i) }
    }
    #[inline(always)]
    unsafe fn slot(&self, i: usize) -> *mut u8 {
        unsafe { *self.slots.add(i) }
    }
    #[inline(always)]
    unsafe fn number(&self, i: usize) -> u64 {
        unsafe { *self.numbers.add(i) }
    }
    #[inline(always)]
    unsafe fn host(&self, step: u32, operands: &[*const u8], out: *mut u8) {
        unsafe { (self.step)(self.host, step, operands.as_ptr(), out) }
    }
}

#[inline(always)]
unsafe fn element<'a, T>(from: *mut u8, row: usize) -> &'a T {
    unsafe { &*from.cast::<T>().add(row) }
}
#[inline(always)]
unsafe fn slice<'a, T>(from: *mut u8, row: usize, n: usize) -> &'a [T] {
    unsafe { std::slice::from_raw_parts(from.cast::<T>().add(row * n), n) }
}
#[inline(always)]
unsafe fn slice_mut<'a, T>(from: *mut u8, row: usize, n: usize) -> &'a mut [T] {
    unsafe { std::slice::from_raw_parts_mut(from.cast::<T>().add(row * n), n) }
}
"#;
