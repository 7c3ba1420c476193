//! Compiled functions that are saved and loaded.

use std::path::PathBuf;

use fx::compile::{Function, compile};
use fx::prelude::*;
use fx::{DType, Result, Tensor, nn};

use super::{filled, vector};

/// A file that is removed in the end.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> File {
        File(std::env::temp_dir().join(format!("fx-{name}-{}.fxc", std::process::id())))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn settle(x: &Tensor, rate: f64) -> Result<Tensor> {
    let mut x = x.clone();
    while x.abs().max().item::<f32>()? > 1.0 {
        x *= rate;
    }
    let n = x.dim(0);
    Ok(x.reshape((n, 1)).sum(1, false) + x.slice(0, 0, 2, 1).sum((), false))
}

#[test]
fn what_was_seen_compiles_nothing_after_loading() {
    let file = File::new("settle");
    let calls = |f: &Function<_, _>| {
        let results = [(2, 0.5), (3, 0.5), (5, 0.25), (7, 0.125)].map(|(n, rate)| {
            let x = filled(&[n]) * 8.0;
            let got = f.run::<_, Tensor>((x.clone(), rate)).unwrap();
            got.all_close(&settle(&x, rate).unwrap(), 1e-5, 1e-6).unwrap();
            got.to_vec::<f32>().unwrap()
        });
        results.concat()
    };
    let f = compile(settle);
    let expected = calls(&f);
    f.save(&file.0).unwrap();
    let g = compile(settle).load(&file.0).unwrap();
    assert_eq!(calls(&g), expected);
    let counters = g.counters();
    assert_eq!((counters.compiled, counters.misses), (0, 0), "{}", g.explain());
    assert!(counters.loaded > 0);
    // Pure, it is followed before it replays.
    let pure = compile(settle).verify(0).load(&file.0).unwrap();
    assert_eq!(calls(&pure), expected);
    assert_eq!(pure.counters().compiled, 0, "{}", pure.explain());
    // What is new is recorded as ever.
    g.run::<_, Tensor>((filled(&[4]).to(DType::F64), 0.5)).unwrap_err();
    assert!(g.counters().compiled > 0);
}

#[test]
fn weights_are_those_of_the_module() {
    let file = File::new("weights");
    let model = nn::Linear::new(4, 3);
    let f = compile(&model);
    f.call(&[filled(&[2, 4])]).unwrap();
    f.save(&file.0).unwrap();
    assert!(!std::fs::read_to_string(&file.0).unwrap().contains(&format!("{:?}", model.weight.tensor())));
    let other = nn::Linear::new(4, 3);
    let g = compile(&other).load(&file.0).unwrap();
    let x = filled(&[2, 4]);
    g.call(std::slice::from_ref(&x)).unwrap().all_close(&other.forward(&x), 1e-5, 1e-6).unwrap();
    assert_eq!((g.counters().compiled, g.counters().misses), (0, 0));
    // A module of other sizes cannot use the file.
    let wide = nn::Linear::new(4, 5);
    let h = compile(&wide).load(&file.0).unwrap();
    h.call(std::slice::from_ref(&x)).unwrap().all_close(&wide.forward(&x), 1e-5, 1e-6).unwrap();
    assert_eq!(h.counters().compiled, 1);
}

#[test]
fn a_file_of_another_function_changes_no_result() {
    let file = File::new("foreign");
    let f = compile(|x: &Tensor| (x * 2.0).relu() + 1.0);
    f.call(&[filled(&[3])]).unwrap();
    f.save(&file.0).unwrap();
    let g = compile(|x: &Tensor| (x * 2.0).relu() - 1.0).load(&file.0).unwrap();
    let x = filled(&[3]);
    let expected = (&x * 2.0).relu() - 1.0;
    assert!(g.call(std::slice::from_ref(&x)).unwrap().bits_eq(&expected));
    assert_eq!(g.counters().compiled, 1);
    let late = compile(|x: &Tensor| x + 1.0).load(&file.0).unwrap().pure().call(&[x]).unwrap_err();
    assert!(late.message().contains("before its first call"), "{late}");
}

/// Returns the body with the head that it needs, so that damage is not found by its checksum.
fn sealed(body: &str) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in body.trim_end().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "{{\"fx\":1,\"version\":\"{version}\",\"function\":\"f\",\"checksum\":\"{hash:016x}\"}}\n{body}\n"
    )
}

#[test]
fn damaged_files_are_errors_or_cost_time() {
    let file = File::new("damaged");
    let function = |x: &Tensor, rate: f64| -> Result<Tensor> { settle(x, rate) };
    let f = compile(function);
    for (n, rate) in [(2, 0.5), (3, 0.25)] {
        f.run::<_, Tensor>((filled(&[n]) * 4.0, rate)).unwrap();
    }
    f.save(&file.0).unwrap();
    let text = std::fs::read_to_string(&file.0).unwrap();
    let (head, body) = text.split_once('\n').unwrap();
    let load = |text: &str| {
        std::fs::write(&file.0, text).unwrap();
        compile(function).load(&file.0)
    };
    for (bad, why) in [
        ("", "it has one line"),
        ("{}\n[]", "format 1 is known, got null"),
        (&*format!("{head}\n{}", &body[..body.len() / 2]), "it is damaged"),
        ("nothing\n[]", "expected"),
    ] {
        let error = load(bad).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("damaged-"), "{error}");
    }
    let old = text.replace(env!("CARGO_PKG_VERSION"), "0.0.1");
    assert_eq!(load(&old).unwrap().explain().segments.len(), 0);

    // Changes that the checksum does not see: each is ignored, or changes nothing.
    let x = filled(&[5]) * 4.0;
    let expected = settle(&x, 0.125).unwrap();
    let bytes = body.trim_end().as_bytes();
    let mut seed = 1u64;
    let mut below = |n: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((seed >> 33) % n as u64) as usize
    };
    let mut loaded = 0;
    for _ in 0..300 {
        let mut bytes = bytes.to_vec();
        let at = below(bytes.len());
        match below(3) {
            0 => bytes[at] = b"0123456789\"[]{},nx"[below(18)],
            1 => drop(bytes.drain(at..(at + 1 + below(20)).min(bytes.len()))),
            _ => {
                let from = below(bytes.len());
                let part = bytes[from..(from + below(30)).min(bytes.len())].to_vec();
                bytes.splice(at..at, part);
            }
        }
        let Ok(body) = String::from_utf8(bytes) else { continue };
        if let Ok(f) = load(&sealed(&body)) {
            loaded += usize::from(!f.explain().segments.is_empty());
            let got = f.run::<_, Tensor>((x.clone(), 0.125)).unwrap();
            got.all_close(&expected, 1e-5, 1e-6).unwrap_or_else(|error| panic!("{error}\n{body}"));
        }
    }
    assert!(loaded > 50, "{loaded}");
}

#[test]
fn a_folder_keeps_what_processes_record() {
    let folder = std::env::temp_dir().join(format!("fx-folder-{}", std::process::id()));
    let make = || compile(settle).cached_in(&folder);
    let files = || -> Vec<PathBuf> {
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let call = |f: &Function<_, _>, x: Tensor| f.run::<_, Tensor>((x, 0.5)).unwrap();
    let f = make();
    let expected = call(&f, filled(&[5]) * 8.0);
    let size = std::fs::metadata(&files()[0]).unwrap().len();
    call(&f, filled(&[6]) * 8.0);
    assert!(std::fs::metadata(&files()[0]).unwrap().len() > size);
    let g = make();
    call(&g, filled(&[5]) * 8.0).all_close(&expected, 1e-6, 1e-6).unwrap();
    assert_eq!((g.counters().misses, g.counters().compiled), (0, 0), "{}", g.explain());
    // A damaged file costs time only, and is replaced.
    std::fs::write(&files()[0], "no").unwrap();
    let h = make();
    call(&h, filled(&[5]) * 8.0).all_close(&expected, 1e-6, 1e-6).unwrap();
    assert!(h.counters().misses > 0);
    assert!(std::fs::metadata(&files()[0]).unwrap().len() > 100);
    assert_eq!(files().len(), 1, "{:?}", files());
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::write(&folder, "a file").unwrap();
    let error = make().run::<_, Tensor>((filled(&[5]), 0.5)).unwrap_err().to_string();
    std::fs::remove_file(&folder).unwrap();
    assert!(error.contains("cannot make the folder") && error.contains("stored.rs"), "{error}");
}

/// Shows that the test would see a difference.
#[test]
fn the_sealed_body_is_a_file() {
    let file = File::new("sealed");
    let f = compile(|x: &Tensor| x + 1.0);
    f.call(&[vector(&[1.0])]).unwrap();
    f.save(&file.0).unwrap();
    let text = std::fs::read_to_string(&file.0).unwrap();
    std::fs::write(&file.0, sealed(text.split_once('\n').unwrap().1.trim_end())).unwrap();
    let g = compile(|x: &Tensor| x + 1.0).load(&file.0).unwrap();
    assert_eq!(g.explain().segments.len(), 1);
}
