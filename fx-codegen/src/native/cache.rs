//! [`Cache`]: libraries on disk by the text that they were compiled from, private to the user.
//!
//! An entry is a folder named by the hash of its *recipe*: the text with compiler, processor and flags. It
//! holds the recipe, the library and the library's checksum, and appears at once, complete, so that several
//! processes may share a cache. An entry that does not fit is built anew; an entry that another user could
//! have written is refused. The least recently used entries are removed when the cache grows too large.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use fx_core::{Result, err};
use xxhash_rust::xxh3::xxh3_128;

/// A folder of libraries.
#[derive(Debug)]
pub(super) struct Cache {
    dir: PathBuf,
}

/// The files of an entry.
const RECIPE: &str = "recipe.rs";
const LIBRARY: &str = "library";
const CHECKSUM: &str = "checksum";

/// How old the folder of an unfinished build is that nobody works on any more.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// The bytes that entries may take; then those go that were used longest ago,
const MOST_BYTES: u64 = 1 << 30;
/// unless it was a short time ago.
const FRESH: Duration = Duration::from_secs(60 * 60);

fn io(path: &Path) -> impl Fn(std::io::Error) -> fx_core::Error {
    move |error| err!(Io, "cannot use {}: {error}", path.display())
}

/// Returns a hash as text.
pub(super) fn hash(bytes: &[u8]) -> String {
    format!("{:032x}", xxh3_128(bytes))
}

/// Refuses what belongs to another user, or what other users can write.
#[cfg(unix)]
fn trust(path: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(path).map_err(io(path))?;
    let user = super::load::user();
    let what = match () {
        () if found.uid() != user => format!("it belongs to user {}, not to {user}", found.uid()),
        () if found.mode() & 0o022 != 0 => {
            format!("other users can write to it (its mode is {:o})", found.mode() & 0o7777)
        }
        () => return Ok(()),
    };
    Err(err!(Load, "will not load code from {}: {what}", path.display())
        .help("remove it or make it private (chmod go-w), or set FX_CACHE_DIR to a folder of your own"))
}

#[cfg(not(unix))]
fn trust(_path: &Path) -> Result<()> {
    Ok(())
}

/// Makes a folder that only this user can use.
fn make(path: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(io(path))
}

impl Cache {
    /// Opens a folder, which is made if it is not there.
    pub(super) fn open(dir: &Path) -> Result<Cache> {
        make(dir)?;
        trust(dir)?;
        Ok(Cache { dir: dir.to_owned() })
    }

    /// Returns the folder that the environment asks for: `$FX_CACHE_DIR`, `$XDG_CACHE_HOME/fx` or `~/.cache/fx`.
    pub(super) fn usual() -> Result<PathBuf> {
        let var = |name: &str| std::env::var_os(name).filter(|text| !text.is_empty()).map(PathBuf::from);
        var("FX_CACHE_DIR")
            .or_else(|| Some(var("XDG_CACHE_HOME")?.join("fx")))
            .or_else(|| Some(std::env::home_dir()?.join(".cache").join("fx")))
            .ok_or_else(|| {
                err!(Io, "there is no folder for compiled code").help("set FX_CACHE_DIR to a folder")
            })
    }

    /// Returns the folder.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the library that was compiled of a recipe, if it is there and whole.
    pub(super) fn find(&self, recipe: &str) -> Result<Option<PathBuf>> {
        let entry = self.dir.join(hash(recipe.as_bytes()));
        let library = entry.join(LIBRARY);
        if !entry.exists() {
            return Ok(None);
        }
        for path in [&entry, &entry.join(RECIPE), &entry.join(CHECKSUM), &library] {
            if path.exists() {
                trust(path)?;
            }
        }
        let read = |name: &str| fs::read(entry.join(name)).unwrap_or_default();
        let is_whole = read(RECIPE) == recipe.as_bytes() && {
            let bytes = read(LIBRARY);
            !bytes.is_empty() && read(CHECKSUM) == hash(&bytes).as_bytes()
        };
        if is_whole {
            // When it was used last; what cannot be noted is only forgotten sooner.
            let _ = fs::File::options()
                .write(true)
                .open(entry.join(CHECKSUM))
                .and_then(|file| file.set_modified(SystemTime::now()));
        }
        Ok(is_whole.then_some(library))
    }

    /// Returns the library of a recipe; if it is not there, `compile` makes it of the file of the recipe, the
    /// second path.
    pub(super) fn find_or(
        &self,
        recipe: &str,
        compile: impl FnOnce(&Path, &Path) -> Result<()>,
    ) -> Result<PathBuf> {
        if let Some(library) = self.find(recipe)? {
            return Ok(library);
        }
        self.sweep();
        self.evict(MOST_BYTES);
        let work = self.temporary();
        make(&work)?;
        let result = self.fill(&work, recipe, compile).and_then(|()| self.enter(&work, recipe));
        let _ = fs::remove_dir_all(&work);
        result
    }

    fn fill(
        &self,
        work: &Path,
        recipe: &str,
        compile: impl FnOnce(&Path, &Path) -> Result<()>,
    ) -> Result<()> {
        let (source, library) = (work.join(RECIPE), work.join(LIBRARY));
        fs::write(&source, recipe).map_err(io(&source))?;
        compile(&source, &library)?;
        let bytes = fs::read(&library).map_err(io(&library))?;
        fs::write(work.join(CHECKSUM), hash(&bytes)).map_err(io(work))?;
        for name in [RECIPE, LIBRARY, CHECKSUM] {
            private(&work.join(name))?;
        }
        Ok(())
    }

    /// Gives a finished folder its name, in the place of an entry that is not whole.
    fn enter(&self, work: &Path, recipe: &str) -> Result<PathBuf> {
        let entry = self.dir.join(hash(recipe.as_bytes()));
        let mut failed = None;
        for _ in 0..8 {
            match fs::rename(work, &entry) {
                Ok(()) => break,
                Err(error) => failed = Some(error),
            }
            // Another process may have been faster; what it made is as good.
            if let Some(library) = self.find(recipe)? {
                return Ok(library);
            }
            let broken = self.temporary();
            if fs::rename(&entry, &broken).is_ok() {
                let _ = fs::remove_dir_all(&broken);
            }
        }
        match (self.find(recipe)?, failed) {
            (Some(library), _) => Ok(library),
            (None, Some(error)) => Err(io(&entry)(error)),
            (None, None) => Err(err!(Io, "{} changed while it was used", entry.display())),
        }
    }

    /// Returns a path that nobody else uses.
    fn temporary(&self) -> PathBuf {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        self.dir.join(format!("tmp-{}-{n}-{}", std::process::id(), nanoseconds()))
    }

    /// Removes what was left by processes that did not finish.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            let is_old = || {
                let age = entry.metadata().and_then(|found| found.modified()).ok()?.elapsed().ok()?;
                Some(age > ABANDONED)
            };
            if entry.file_name().to_string_lossy().starts_with("tmp-") && is_old() == Some(true) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Removes entries that were not used for long if all of them take more than some bytes, until they take
    /// three quarters of that.
    fn evict(&self, most: u64) {
        let Ok(folders) = fs::read_dir(&self.dir) else { return };
        let mut entries: Vec<(SystemTime, u64, PathBuf)> = folders
            .flatten()
            .filter_map(|folder| {
                let path = folder.path();
                let used = fs::metadata(path.join(CHECKSUM)).and_then(|found| found.modified()).ok()?;
                let size = |name: &str| fs::metadata(path.join(name)).map_or(0, |found| found.len());
                Some((used, size(RECIPE) + size(LIBRARY), path))
            })
            .collect();
        let mut total: u64 = entries.iter().map(|entry| entry.1).sum();
        if total <= most {
            return;
        }
        entries.sort_unstable();
        for (used, size, path) in entries {
            let is_fresh = used.elapsed().map_or(true, |age| age < FRESH);
            if total <= most / 4 * 3 || is_fresh {
                return;
            }
            // Others find an entry whole, or none.
            let gone = self.temporary();
            if fs::rename(&path, &gone).is_ok() {
                let _ = fs::remove_dir_all(&gone);
                total -= size;
            }
        }
    }

    /// Returns a small text that was kept under a name, if the file can be trusted.
    pub(super) fn note(&self, name: &str) -> Option<String> {
        let path = self.dir.join(name);
        trust(&path).ok()?;
        let text = fs::read_to_string(path).ok()?;
        let (checksum, text) = text.split_once('\n')?;
        (hash(text.as_bytes()) == checksum).then(|| text.to_owned())
    }

    /// Keeps a small text under a name.
    pub(super) fn set_note(&self, name: &str, text: &str) -> Result<()> {
        let (path, work) = (self.dir.join(name), self.temporary());
        fs::write(&work, format!("{}\n{text}", hash(text.as_bytes()))).map_err(io(&work))?;
        private(&work)?;
        fs::rename(&work, &path).map_err(io(&path))
    }
}

/// Takes the right to write from everybody else.
fn private(path: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(path).map_err(io(path))?.permissions().mode() & 0o700;
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(io(path))?;
    }
    Ok(())
}

fn nanoseconds() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_go_that_were_used_longest_ago() {
        let dir = std::env::temp_dir().join(format!("fx-cache-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let cache = Cache::open(&dir).unwrap();
        let recipes: Vec<String> = (0..6).map(|i| format!("recipe {i}")).collect();
        let compile = |_: &Path, library: &Path| fs::write(library, [7; 992]).map_err(io(library));
        for (i, recipe) in recipes.iter().enumerate() {
            let library = cache.find_or(recipe, compile).unwrap();
            // The first one was used 6 hours ago.
            let hours = Duration::from_secs(60 * 60 * (recipes.len() - i) as u64);
            let file = fs::File::options().write(true).open(library.with_file_name(CHECKSUM)).unwrap();
            file.set_modified(SystemTime::now() - hours).unwrap();
        }
        let found =
            || recipes.iter().filter(|recipe| dir.join(hash(recipe.as_bytes())).exists()).collect::<Vec<_>>();
        cache.evict(6 * 1000);
        assert_eq!(found().len(), 6, "they are few enough");
        assert!(cache.find(&recipes[0]).unwrap().is_some(), "the first one is used again");
        cache.evict(6 * 1000 - 1);
        assert_eq!(found(), [&recipes[0], &recipes[3], &recipes[4], &recipes[5]]);
        cache.evict(0);
        assert_eq!(found(), [&recipes[0]], "what was used just now stays");
        fs::remove_dir_all(&dir).unwrap();
    }
}
