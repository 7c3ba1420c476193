//! Gives the linker the order of functions in the program `fx`; see tools/order.py.
//!
//! A program of many megabytes is mapped by the system in pieces of 64 KiB and more. In the order of compilation, what a run needs
//! is spread over all of them; in this order it is in a few.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

const ORDER: &str = "src/bin/fx/order.txt";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={ORDER}");
    let is_meant = env::var("PROFILE").is_ok_and(|profile| profile == "release")
        && env::var("TARGET").is_ok_and(|target| target == "x86_64-unknown-linux-gnu");
    let (true, Some(out), Ok(order)) = (is_meant, env::var_os("OUT_DIR"), fs::read_to_string(ORDER)) else {
        return;
    };
    let (out, path) = (Path::new(&out), Path::new(&out).join("order.ld"));
    let option = format!("-Wl,-T,{}", path.display());
    if fs::write(&path, script(&order)).is_ok() && links(&option, out) {
        println!("cargo:rustc-link-arg-bin=fx={option}");
    }
}

/// Returns a linker script that puts the sections of functions before all others. Those that are seldom called have a prefix.
fn script(order: &str) -> String {
    let mut script = String::from("SECTIONS {\n  .text.fx : {\n");
    for name in order.lines() {
        writeln!(script, "    *(.text.{name} .text.unlikely.{name})").expect("a string takes all");
    }
    script + "  }\n} INSERT BEFORE .text;\n"
}

/// Returns whether the linker in use, which may be any, takes an option.
fn links(option: &str, out: &Path) -> bool {
    let (Some(rustc), Some(target)) = (env::var_os("RUSTC"), env::var_os("TARGET")) else { return false };
    let source = out.join("links.rs");
    if fs::write(&source, "fn main() {}\n").is_err() {
        return false;
    }
    let mut command = Command::new(rustc);
    command.arg(&source).arg("--out-dir").arg(out).arg("--target").arg(target);
    command.arg("-C").arg(format!("link-arg={option}"));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        command.arg("-C").arg(format!("linker={}", Path::new(&linker).display()));
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    command.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    command.output().is_ok_and(|output| output.status.success())
}
