//! Files that lie: every one is an error, without a panic and without memory for what the header merely claims.
#![allow(missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use fx_core::{Array, DType, Tensor};
use fx_ops::weights::Weights;
use proptest::prelude::*;

/// The allocator of the system; remembers the greatest request.
struct Watched;
static GREATEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        GREATEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        GREATEST.fetch_max(size, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static WATCHED: Watched = Watched;

const MAX_REQUEST: usize = 4 << 20;

fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

#[track_caller]
fn refused(file: Vec<u8>, expected: &str) {
    let message = Weights::from_bytes(file).expect_err("a hostile file").to_string();
    assert!(message.contains(expected), "expected {expected:?} in {message:?}");
    assert!(GREATEST.load(Ordering::Relaxed) < MAX_REQUEST);
}

#[test]
fn truncated_files() {
    refused(Vec::new(), "expected a header of at least 8 bytes, got 0");
    refused(vec![1, 2, 3], "expected a header of at least 8 bytes, got 3");
    refused(100u64.to_le_bytes().to_vec(), "expected a header of 100 bytes, got 0");
    refused(file(r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#, &[1]), "at bytes 0..2 of 1");
}

#[test]
fn huge_lengths() {
    refused(u64::MAX.to_le_bytes().to_vec(), "18446744073709551615 bytes long, more than the limit");
    refused(99_999_999u64.to_le_bytes().to_vec(), "expected a header of 99999999 bytes, got 0");
    let a = r#"{"a":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}"#;
    refused(file(a, &[]), "at bytes 0..4000000000000 of 0");
    let b = r#"{"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}}"#;
    refused(file(b, &[]), "\"a\": ");
    let c = r#"{"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,18446744073709551615]}}"#;
    refused(file(c, &[]), "at bytes 0..18446744073709551615 of 0");
    let d = r#"{"a":{"dtype":"U8","shape":[1e30],"data_offsets":[0,0]}}"#;
    refused(file(d, &[]), "invalid type");
    let ones = vec!["1"; 65].join(",");
    let e = format!(r#"{{"a":{{"dtype":"U8","shape":[{ones}],"data_offsets":[0,1]}}}}"#);
    refused(file(&e, &[0]), "65 axes, more than the limit of 64");
}

#[test]
fn sums_of_offsets_that_overflow() {
    let tensor = |i: u64, from: u64, to: u64| {
        format!(r#""t{i:02}":{{"dtype":"U8","shape":[{}],"data_offsets":[{from},{to}]}}"#, to - from)
    };
    let step = 1u64 << 60;
    let mut tensors: Vec<String> = (0..15).map(|i| tensor(i, i * step, (i + 1) * step)).collect();
    tensors.push(tensor(15, 15 * step, u64::MAX));
    refused(file(&format!("{{{}}}", tensors.join(",")), &[]), "at bytes 0..1152921504606846976 of 0");
}

#[test]
fn wrong_ranges() {
    let two = |a: &str, b: &str| {
        format!(
            r#"{{"a":{{"dtype":"U8","shape":[2],"data_offsets":{a}}},"b":{{"dtype":"U8","shape":[2],"data_offsets":{b}}}}}"#
        )
    };
    refused(file(&two("[0,2]", "[1,3]"), &[0; 3]), "\"b\" overlaps the tensor before it");
    refused(file(&two("[0,2]", "[0,2]"), &[0; 2]), "\"b\" overlaps the tensor before it");
    refused(file(&two("[0,2]", "[3,5]"), &[0; 5]), "1 bytes before \"b\" belong to no tensor");
    refused(file(&two("[0,2]", "[2,4]"), &[0; 6]), "2 bytes at the end belong to no tensor");
    refused(file(&two("[2,0]", "[2,4]"), &[0; 4]), "at bytes 2..0 of 4");
    refused(file(&two("[0,2]", "[-1,1]"), &[0; 2]), "invalid value");
    refused(file(&two("[0,3]", "[3,5]"), &[0; 5]), "expected 2 bytes for u8[2], got 3");
}

#[test]
fn malformed_headers() {
    refused(file("", &[]), "EOF");
    refused(file("[]", &[]), "expected an object with a tensor for each name");
    refused(file(r#"{"a":1}"#, &[]), "invalid type");
    refused(file(r#"{"a":{"dtype":"U8","shape":[0]}}"#, &[]), "missing field `data_offsets`");
    refused(file(r#"{"__metadata__":{"a":1}}"#, &[]), "invalid type");
    let twice = r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}}"#;
    refused(file(twice, &[0]), "there are two tensors called \"a\"");
    let mut latin = file(r#"{"aa":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#, &[0]);
    latin[10] = 0xe4;
    refused(latin, "not UTF-8");
    refused(file(&format!("{{\"a\":{}", "[".repeat(100_000)), &[]), "the header: ");
    refused(file(&format!("{{\"a\":{{\"dtype\":{}", "{\"a\":".repeat(100_000)), &[]), "the header: ");
    refused(file(&format!("{{\"__metadata__\":{}", "[".repeat(100_000)), &[]), "the header: ");
}

#[test]
fn a_dtype_that_fx_does_not_have_is_an_error_when_asked_for() {
    let header = r#"{"a":{"dtype":"I16","shape":[2],"data_offsets":[0,4]},"b":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[4,6]},"c":{"dtype":"NEW","shape":[1],"data_offsets":[6,7]},"d":{"dtype":"I8","shape":[1],"data_offsets":[7,8]}}"#;
    let weights = Weights::from_bytes(file(header, &[1; 8])).unwrap();
    assert_eq!(weights.require("d").unwrap().to_vec::<i8>().unwrap(), [1]);
    assert_eq!(weights.describe("a").unwrap(), "I16[2]");
    assert_eq!(
        weights.get("b").unwrap_err().to_string(),
        "cannot read \"b\" of the given bytes: fx has no dtype F8_E4M3\n  \
         help: convert the tensor to one that fx has, such as F32 or I64"
    );
    assert!(weights.get("c").is_err());
}

#[test]
fn a_bool_that_is_neither_0_nor_1_is_an_error_when_asked_for() {
    let weights =
        Weights::from_bytes(file(r#"{"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}}"#, &[2]))
            .unwrap();
    assert!(weights.get("a").unwrap_err().message().contains("expected 0 or 1 for a bool, got 2"));
}

fn small_file() -> Vec<u8> {
    let header = concat!(
        r#"{"__metadata__":{"format":"pt"},"a.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"#,
        r#""a.flag":{"dtype":"BOOL","shape":[3],"data_offsets":[16,19]},"b":{"dtype":"I8","shape":[],"data_offsets":[19,20]}}"#
    );
    file(header, &[1; 20])
}

proptest! {
    #[test]
    fn changed_bytes_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        digits in any::<bool>(),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = small_file();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = if digits { b'0' + byte % 10 } else { byte };
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(weights) = Weights::from_bytes(bytes) {
            for name in weights.names() {
                if let Ok(Some(tensor)) = weights.get(name) {
                    prop_assert!(tensor.array().unwrap().nbytes() <= 20);
                }
            }
        }
        prop_assert!(GREATEST.load(Ordering::Relaxed) < MAX_REQUEST);
    }
}

#[test]
fn the_unchanged_file_is_read() {
    let weights = Weights::from_bytes(small_file()).unwrap();
    assert_eq!(weights.names().collect::<Vec<_>>(), ["a.flag", "a.weight", "b"]);
    assert_eq!(weights.metadata()["format"], "pt");
    let expected = Array::full(DType::I8, &[], fx_core::Scalar::Int(1)).unwrap();
    assert!(weights.require("b").unwrap().bits_eq(&Tensor::new(expected)));
}
