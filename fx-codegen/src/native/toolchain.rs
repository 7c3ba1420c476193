//! [`Toolchain`]: the compiler that native code is made with, and what its code depends on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fx_core::native::ABI;
use fx_core::{Error, Result, err};

use super::cache::{Cache, hash};

/// A Rust compiler.
#[derive(Clone, Debug)]
pub(super) struct Toolchain {
    rustc: PathBuf,
    /// What `rustc -vV` says.
    version: String,
}

fn missing(what: &str) -> Error {
    err!(Unresolved, "there is no Rust compiler: {what}").help(
        "install one (https://rustup.rs), or set RUSTC to the path of rustc; `Engine::Fused` needs none, and `Engine::Best` takes it then",
    )
}

/// Returns the file that runs as `name`: a path, or a program of `$PATH`.
fn program(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return name.is_file().then(|| name.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// Returns the compiler: the one that is asked for, that of `$RUSTC`, that of `$PATH`, or the one beside cargo.
fn find(wanted: Option<&Path>) -> Result<PathBuf> {
    let named = wanted.map(Path::to_owned).or_else(|| std::env::var_os("RUSTC").map(PathBuf::from));
    if let Some(named) = named {
        return program(&named).ok_or_else(|| missing(&format!("{} is no program", named.display())));
    }
    let name = format!("rustc{}", std::env::consts::EXE_SUFFIX);
    let var = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let beside_cargo = || var("CARGO").and_then(|cargo| Some(cargo.parent()?.join(&name)));
    let home = || var("CARGO_HOME").or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    program(Path::new(&name))
        .or_else(|| beside_cargo().filter(|file| file.is_file()))
        .or_else(|| home().map(|home| home.join("bin").join(&name)).filter(|file| file.is_file()))
        .ok_or_else(|| missing("neither RUSTC nor PATH names one, and there is none in ~/.cargo/bin"))
}

/// Returns path, size and time of a file as text.
fn stamp(path: &Path) -> String {
    let Ok(found) = fs::metadata(path) else { return format!("{} absent", path.display()) };
    let time = found.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    format!("{} {} {}", path.display(), found.len(), time.map_or(0, |time| time.as_nanos()))
}

/// Returns what decides which compiler a proxy of rustup runs.
fn proxy_stamp() -> String {
    let var = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let home = var("RUSTUP_HOME").or_else(|| Some(std::env::home_dir()?.join(".rustup")));
    let settings = home.map_or(String::new(), |home| stamp(&home.join("settings.toml")));
    format!("{:?} {settings}", var("RUSTUP_TOOLCHAIN"))
}

impl Toolchain {
    /// Finds the compiler. What it says of itself is kept in the cache, for to ask it takes longer than to
    /// load a library.
    pub(super) fn find(wanted: Option<&Path>, cache: &Cache) -> Result<Toolchain> {
        let proxy = find(wanted)?;
        let asked = format!("{}\n{}", stamp(&proxy), proxy_stamp().replace('\n', " "));
        let name = format!("rustc-{}", hash(proxy.as_os_str().as_encoded_bytes()));
        if let Some(note) = cache.note(&name)
            && let Some(rest) = note.strip_prefix(&asked)
            && let mut lines = rest.trim_start_matches('\n').splitn(3, '\n')
            && let (Some(rustc), Some(seen), Some(version)) = (lines.next(), lines.next(), lines.next())
            && stamp(Path::new(rustc)) == seen
        {
            return Ok(Toolchain { rustc: rustc.into(), version: version.to_owned() });
        }
        let ask = |rustc: &Path, args: &[&str]| -> Result<String> {
            let output = Command::new(rustc)
                .args(args)
                .current_dir(cache.dir())
                .stdin(Stdio::null())
                .output()
                .map_err(|error| missing(&format!("{} does not run: {error}", rustc.display())))?;
            match String::from_utf8(output.stdout) {
                Ok(text) if output.status.success() => Ok(text),
                _ => {
                    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                    Err(missing(&format!("{} does not run: {said}", rustc.display())))
                }
            }
        };
        // A proxy looks for the compiler each time; the compiler itself starts faster.
        let root = ask(&proxy, &["--print", "sysroot"])?;
        let own = Path::new(root.trim()).join("bin").join(format!("rustc{}", std::env::consts::EXE_SUFFIX));
        let rustc = if own.is_file() { own } else { proxy };
        let version = ask(&rustc, &["-vV"])?;
        cache.set_note(&name, &format!("{asked}\n{}\n{}\n{version}", rustc.display(), stamp(&rustc)))?;
        Ok(Toolchain { rustc, version })
    }

    /// Returns what compiled code depends on besides its text, as lines of comments.
    pub(super) fn describe(&self, flags: &[String]) -> String {
        let lines = format!(
            "tensor-fx {}, version {ABI} of calls\n{}\n{}\n{}",
            env!("CARGO_PKG_VERSION"),
            self.version.trim(),
            features(),
            flags.join(" ")
        );
        lines.lines().map(|line| format!("// {line}\n")).collect()
    }

    /// Compiles a file to a library.
    pub(super) fn compile(&self, flags: &[String], source: &Path, library: &Path) -> Result<()> {
        let output = Command::new(&self.rustc)
            .args(flags)
            .arg("-o")
            .args([library, source])
            .current_dir(source.parent().unwrap_or(Path::new(".")))
            .stdin(Stdio::null())
            .output()
            .map_err(|error| missing(&format!("{} does not run: {error}", self.rustc.display())))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).take(12).collect();
        let status = output.status;
        Err(err!(Load, "rustc did not compile the kernels of a program ({status}):\n{}", said.join("\n"))
            .help("if a linker is missing, install one (a C compiler has it); anything else is a mistake of fx, and `Engine::Fused` runs the program"))
    }
}

/// Returns the flags of the compiler for a text of some functions.
pub(super) fn flags(n_functions: usize) -> Vec<String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let units = n_functions.div_ceil(2).clamp(1, threads * 4);
    let mut flags: Vec<String> =
        ["--edition=2024", "--crate-type=cdylib", "--crate-name=fx_native", "--cap-lints=allow"]
            .map(String::from)
            .to_vec();
    for option in ["opt-level=3", "target-cpu=native", "panic=abort", "strip=symbols"] {
        flags.extend(["-C".to_owned(), option.to_owned()]);
    }
    flags.extend(["-C".to_owned(), format!("codegen-units={units}")]);
    // LLVM takes half of each register of AVX-512 on Intel's processors unless it is told otherwise.
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        flags.extend(["-C", "target-feature=-prefer-256-bit"].map(String::from));
    }
    flags
}

/// Returns the features of this processor that compilers use.
fn features() -> String {
    macro_rules! found {
        ($test:ident: $($name:tt)*) => {
            [$(($name, std::arch::$test!($name))),*]
                .iter().filter(|(_, found)| *found).map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
        };
    }
    #[cfg(target_arch = "x86_64")]
    let list = found!(is_x86_feature_detected: "sse3" "ssse3" "sse4.1" "sse4.2" "sse4a" "avx" "avx2" "avx512f" "avx512cd"
        "avx512bw" "avx512dq" "avx512vl" "avx512ifma" "avx512vbmi" "avx512vbmi2" "avx512vnni" "avx512bitalg" "avx512vpopcntdq"
        "avx512bf16" "avx512fp16" "avx512vp2intersect" "f16c" "fma" "bmi1" "bmi2" "lzcnt" "popcnt" "movbe" "adx" "aes"
        "pclmulqdq" "vaes" "vpclmulqdq" "gfni" "sha" "rdrand" "rdseed" "tbm" "fxsr" "xsave" "xsaveopt" "xsavec" "xsaves");
    #[cfg(target_arch = "aarch64")]
    let list = found!(is_aarch64_feature_detected: "asimd" "fp" "fp16" "fhm" "dotprod" "i8mm" "bf16" "sve" "sve2" "lse" "rdm"
        "crc" "aes" "sha2" "sha3" "rcpc" "fcma" "jsconv");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let list = String::new();
    format!("{} {list}", std::env::consts::ARCH)
}
