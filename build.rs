//! Gives the linker the order of functions in the program `fx`; see tools/order.py.
//!
//! A program of many megabytes is mapped by the system in pieces of 64 KiB and more. In the order of compilation, what a run needs
//! is spread over all of them; in this order it is in a few.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const ORDER: &str = "src/bin/fx/order.txt";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={ORDER}");
    let is_meant = env::var("PROFILE").is_ok_and(|profile| profile == "release")
        && env::var("TARGET").is_ok_and(|target| target == "x86_64-unknown-linux-gnu");
    let folder = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let option = format!("-Wl,--symbol-ordering-file={}", folder.join(ORDER).display());
    if is_meant && links(&option) {
        println!("cargo:rustc-link-arg-bin=fx={option}");
        // That some functions are not there is not worth a line each.
        println!("cargo:rustc-link-arg-bin=fx=-Wl,--no-warn-symbol-ordering");
    }
}

/// Returns whether the linker in use, which may be any, knows an option.
fn links(option: &str) -> bool {
    let (Some(rustc), Some(out)) = (env::var_os("RUSTC"), env::var_os("OUT_DIR")) else { return false };
    let source = Path::new(&out).join("links.rs");
    if std::fs::write(&source, "fn main() {}\n").is_err() {
        return false;
    }
    let mut command = Command::new(rustc);
    command.arg(&source).arg("--out-dir").arg(&out).arg("--target").args(env::var_os("TARGET"));
    command.args(["-C", &format!("link-arg={option}"), "-C", "link-arg=-Wl,--no-warn-symbol-ordering"]);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        command.arg("-C").arg(format!("linker={}", Path::new(&linker).display()));
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    command.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    command.output().is_ok_and(|output| output.status.success())
}
