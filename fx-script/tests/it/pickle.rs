//! Pickles: reading, writing and damaged ones.

use std::fmt::Write;
use std::sync::Arc;

use expect_test::{Expect, expect};
use fx_core::ErrorKind;
use fx_script::pickle::*;
use proptest::prelude::*;

/// Writes the nodes below a node, with the storage of tensors.
fn show(pickle: &Pickle, node: NodeRef) -> String {
    let list =
        |items: &[NodeRef]| items.iter().map(|&item| show(pickle, item)).collect::<Vec<_>>().join(", ");
    match pickle.node(node) {
        Node::Tuple(items) => format!("({})", list(items)),
        Node::List(items) => format!("[{}]", list(items)),
        Node::Dict(entries) => {
            let mut text = String::new();
            for &(key, value) in entries {
                write!(text, "{}: {}, ", show(pickle, key), show(pickle, value)).unwrap();
            }
            format!("{{{}}}", text.trim_end_matches(", "))
        }
        Node::Tagged { value, ty } => format!("{} as {ty}", show(pickle, *value)),
        Node::Object { class, state } => format!("{class} {}", show(pickle, *state)),
        Node::Enum { class, value } => format!("{class}({})", show(pickle, *value)),
        Node::Tensor(tensor) => {
            let storage = show(pickle, tensor.storage);
            format!("tensor{:?}{:?} at {} of {storage}", tensor.sizes, tensor.strides, tensor.offset)
        }
        Node::Storage(storage) => format!("{:?} of {} {}", &*storage.key, storage.numel, storage.scalar_type),
        other => format!("{other:?}"),
    }
}

fn check(bytes: &[u8], expected: Expect) {
    let shown = match read("data.pkl", bytes) {
        Ok(pickle) => show(&pickle, pickle.root()),
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&shown);
}

#[test]
fn an_object_has_its_attributes_by_name() {
    check(
        b"\x80\x02c__torch__\nNet\nq\x00)\x81}(X\x08\x00\x00\x00trainingq\x01\x89X\x01\x00\x00\x00nK\x05ubq\x02.",
        expect![[r#"__torch__.Net {Str("training"): Bool(false), Str("n"): Int(5)}"#]],
    );
}

#[test]
fn numbers_have_all_their_widths() {
    check(
        b"\x80\x02(K\xffM\xff\xffJ\xfd\xff\xff\xff\x8a\x06\x00\x00\x00\x00\x00\x01\x8a\x01\xff\x8a\x00G\x3f\xf8\x00\x00\x00\x00\x00\x00t.",
        expect![
            "(Int(255), Int(65535), Int(-3), Int(1099511627776), Int(-1), Int(0), Float(1.5))"
        ],
    );
}

#[test]
fn a_name_outside_of_the_table_is_refused() {
    check(
        b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.",
        expect![[r#"
            the name "os.system" has no place in a pickle of TorchScript  in data.pkl, byte 2
              help: the file is hostile, or was not written by `torch.jit.save`; nothing in it was run"#]],
    );
}

#[test]
fn an_instruction_outside_of_the_subset_is_refused() {
    check(
        b"\x80\x02]\x93.",
        expect![[r#"
            the instruction 0x93 of pickles is not one of TorchScript  in data.pkl, byte 3
              help: the file is damaged, or was not written by `torch.jit.save`; nothing in it was run"#]],
    );
}

#[test]
fn a_name_is_no_value() {
    check(
        b"\x80\x02ctorch\nFloatStorage\n.",
        expect!["expected a value, got the name of a class or a function  in data.pkl, byte 2"],
    );
}

#[test]
fn a_list_that_contains_itself_is_refused() {
    check(b"\x80\x02]q\x00h\x00a.", expect!["the value contains itself  in data.pkl, byte 2"]);
}

#[test]
fn a_truncated_pickle_says_how_much_is_missing() {
    check(
        b"\x80\x02X\x08\x00\x00\x00tra",
        expect![[r#"
            the pickle ends too early: expected 8 more bytes, got 3  in data.pkl, byte 2
              help: the file is truncated; copy or save it again"#]],
    );
}

#[test]
fn instructions_need_values_above_the_mark() {
    check(
        b"\x80\x02N(\x85.",
        expect!["the instruction needs a value, but the stack holds none  in data.pkl, byte 4"],
    );
    check(b"\x80\x02t.", expect!["the instruction needs a mark, but there is none  in data.pkl, byte 2"]);
    check(b"\x80\x02h\x07.", expect!["there is no memo 7  in data.pkl, byte 2"]);
    check(
        b"\x80\x02N(.",
        expect!["the instruction needs a value, but the stack holds none  in data.pkl, byte 4"],
    );
    check(b"\x80\x02NN.", expect!["the pickle ends with 1 more values on its stack  in data.pkl, byte 4"]);
}

#[test]
fn deep_nesting_is_refused_and_shared_nodes_stay_one() {
    let nested = |n: usize| [&b"\x80\x02N"[..], &b"\x85".repeat(n), b"."].concat();
    assert!(read("data.pkl", &nested(MAX_DEPTH - 1)).is_ok());
    for n in [MAX_DEPTH, 1_000_000] {
        assert_eq!(read("data.pkl", &nested(n)).unwrap_err().kind(), ErrorKind::Limit);
    }
    // Each of 60 tuples holds the one before it twice; as a tree that would be 2^60 nodes.
    let doubled: Vec<u8> = (0..60u8).flat_map(|i| [b'q', i, b'h', i, b'\x86']).collect();
    let pickle = read("data.pkl", &[&b"\x80\x02]"[..], &doubled, b"."].concat()).unwrap();
    assert_eq!(write(&pickle).len(), 2 + 3 + 60 * 5 + 1);
}

#[test]
fn too_many_values_are_refused() {
    let bytes = [&b"\x80\x02("[..], &b"K\x01".repeat(MAX_NODES + 1), b"t."].concat();
    assert_eq!(read("data.pkl", &bytes).unwrap_err().kind(), ErrorKind::Limit);
}

/// Returns a pickle of a tensor over 6 floats.
fn tensor_bytes(offset: i64, sizes: &[usize], strides: &[usize]) -> Vec<u8> {
    let mut builder = Builder::default();
    let info = StorageInfo { scalar_type: ScalarType::Float, key: "0".into(), numel: 6 };
    let storage = builder.add(Node::Storage(info));
    let tensor = builder.add(Node::Tensor(TensorInfo {
        storage,
        offset: offset as usize,
        sizes: sizes.to_vec(),
        strides: strides.to_vec(),
        quantizer: None,
        requires_grad: false,
    }));
    write(&builder.finish(tensor).unwrap())
}

#[test]
fn tensors_are_views_inside_their_storage() {
    check(
        &tensor_bytes(1, &[2, 1], &[3, 100]),
        expect![[r#"tensor[2, 1][3, 100] at 1 of "0" of 6 float32"#]],
    );
    check(
        &tensor_bytes(1, &[3, 2], &[2, 1]),
        expect![[r#"
            a tensor with sizes [3, 2] and strides [2, 1] from 1 reaches beyond the 6 elements of storage "0"  in data.pkl, byte 144
              help: the file is damaged; save it again"#]],
    );
    check(&tensor_bytes(7, &[0, 2], &[2, 1]), expect![[r#"tensor[0, 2][2, 1] at 7 of "0" of 6 float32"#]]);
    check(
        &tensor_bytes(0, &[1000, 7], &[0, 0]),
        expect![[r#"tensor[1000, 7][0, 0] at 0 of "0" of 6 float32"#]],
    );
    let huge = read("data.pkl", &tensor_bytes(0, &[1 << 40, 1 << 40], &[0, 0])).unwrap_err();
    assert_eq!(huge.kind(), ErrorKind::Limit);
    let far = read("data.pkl", &tensor_bytes(0, &[1 << 40, 2], &[1 << 40, 1])).unwrap_err();
    assert_eq!(far.kind(), ErrorKind::Load);
    let negative = read("data.pkl", &tensor_bytes(-1, &[1], &[1])).unwrap_err();
    assert!(negative.message().contains("offset"), "{negative}");
}

/// Returns random nodes below a root; each refers to nodes before it.
fn pickles() -> impl Strategy<Value = Pickle> {
    let step = (
        0..14u8,
        any::<i64>(),
        any::<f64>(),
        "[a-zé\"\n]{0,6}",
        proptest::collection::vec(any::<u16>(), 0..5),
    );
    proptest::collection::vec(step, 1..40).prop_map(|steps| {
        let mut builder = Builder::default();
        let mut last = builder.add(Node::None);
        let mut nodes = vec![last];
        let mut deep = 0;
        for (kind, int, float, text, picks) in steps {
            // Fewer containers the deeper the value is already.
            let kind = if deep > 40 { kind % 7 } else { kind };
            let pick = |pick: &u16| nodes[usize::from(*pick) % nodes.len()];
            let items: Vec<NodeRef> = picks.iter().map(pick).chain([last]).collect();
            let text: Arc<str> = text.into();
            let node = match kind {
                0 => Node::Bool(int % 2 == 0),
                1 => Node::Int(int >> (int & 63)),
                2 => Node::Float(float),
                3 => Node::Complex(float, int as f64),
                4 | 5 => Node::Str(text),
                6 => Node::Device("cpu".into()),
                7 | 8 => Node::Tuple(items),
                9 => Node::List(items),
                10 => Node::Dict(items.iter().map(|&item| (item, last)).collect()),
                11 => Node::Object { class: "__torch__.a.B".into(), state: last },
                12 => Node::Enum { class: "__torch__.E".into(), value: last },
                _ => {
                    let list = builder.add(Node::List(items));
                    let node =
                        Node::Tagged { value: list, ty: if int > 0 { "List[int]".into() } else { text } };
                    last = builder.add(node);
                    nodes.extend([list, last]);
                    deep += 2;
                    continue;
                }
            };
            deep += usize::from(kind > 6);
            last = builder.add(node);
            nodes.push(last);
        }
        builder.finish(last).expect("the depth is bounded")
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_the_same_value(pickle in pickles()) {
        let bytes = write(&pickle);
        let again = read("data.pkl", &bytes).unwrap();
        prop_assert_eq!(write(&again), bytes);
    }

    #[test]
    fn mutated_pickles_are_values_or_errors(
        pickle in pickles(),
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..8),
        cut in any::<u16>(),
    ) {
        let mut bytes = write(&pickle);
        for (at, byte) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        if cut & 1 == 1 {
            bytes.truncate(usize::from(cut) % bytes.len());
        }
        if let Ok(pickle) = read("data.pkl", &bytes) {
            write(&pickle);
        }
    }
}
