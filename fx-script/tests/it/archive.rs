//! TorchScript archives.

use expect_test::expect;
use fx_core::{ErrorKind, Scalar};
use fx_script::archive::*;
use fx_script::pickle::{Builder, Node, ScalarType, StorageInfo, TensorInfo};

/// Returns the members of a module with a weight of 6 floats, and of its transpose.
fn members() -> MemoryMembers {
    let mut builder = Builder::default();
    let info = StorageInfo { scalar_type: ScalarType::Float, key: "0".into(), numel: 6 };
    let storage = builder.add(Node::Storage(info));
    let mut tensor = |sizes: [usize; 2], strides: [usize; 2]| {
        builder.add(Node::Tensor(TensorInfo {
            storage,
            offset: 0,
            sizes: sizes.into(),
            strides: strides.into(),
            quantizer: None,
            requires_grad: true,
        }))
    };
    let (weight, transposed) = (tensor([2, 3], [3, 1]), tensor([3, 2], [1, 3]));
    let entries = vec![(builder.text("weight"), weight), (builder.text("transposed"), transposed)];
    let state = builder.add(Node::Dict(entries));
    let object = builder.add(Node::Object { class: "__torch__.Net".into(), state });
    let data = pickle_bytes(builder.finish(object).unwrap());
    let floats = [1f32, 2., 3., 4., 5., 6.].iter().flat_map(|x| x.to_le_bytes()).collect();
    let members = [
        ("m/data.pkl", data),
        ("m/data/0", floats),
        ("m/constants.pkl", b"\x80\x02).".to_vec()),
        ("m/version", b"3\n".to_vec()),
        ("m/byteorder", b"little".to_vec()),
        ("m/code/__torch__/a/b.py", b"class Net(Module):\n  pass\n".to_vec()),
        ("m/extra/labels.txt", b"cat\ndog".to_vec()),
    ];
    MemoryMembers(members.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect())
}

fn pickle_bytes(pickle: fx_script::pickle::Pickle) -> Vec<u8> {
    fx_script::pickle::write(&pickle)
}

/// Returns the error of an archive in which a member was replaced, or removed.
fn refused(name: &str, bytes: Option<&[u8]>) -> String {
    let mut members = members();
    match bytes {
        Some(bytes) => members.0.insert(name.to_owned(), bytes.to_vec()),
        None => members.0.remove(name),
    };
    let outcome = Archive::open(members).and_then(|archive| {
        archive.data()?;
        archive.constants()?;
        archive.code()
    });
    outcome.expect_err("the archive is wrong").to_string()
}

#[test]
fn tensors_that_share_a_storage_share_it() {
    let archive = Archive::open(members()).unwrap();
    let values = archive.data().unwrap();
    let pickle = values.pickle();
    let Node::Object { class, state } = pickle.node(pickle.root()) else { panic!("an object") };
    let Node::Dict(entries) = pickle.node(*state) else { panic!("a dictionary") };
    let [weight, transposed] = [0, 1].map(|i| values.tensor(entries[i].1).unwrap());
    assert_eq!(&**class, "__torch__.Net");
    assert!(weight.array.shares_storage(&transposed.array) && weight.requires_grad);
    assert_eq!(weight.array.get(&[1, 0]), Some(Scalar::Float(4.)));
    assert_eq!(transposed.array.get(&[2, 1]), Some(Scalar::Float(6.)));
}

#[test]
fn code_and_extra_files_are_found_by_name() {
    let archive = Archive::open(members()).unwrap();
    let code = archive.code().unwrap();
    assert_eq!((code.len(), code[0].module.as_str()), (1, "__torch__.a.b"));
    assert_eq!(archive.extra_files().collect::<Vec<_>>(), ["labels.txt"]);
    assert_eq!(archive.extra_file("labels.txt").unwrap(), b"cat\ndog");
    assert_eq!(archive.version(), 3);
    assert!(archive.debug_records(&code[0]).is_empty());
}

#[test]
fn wrong_members_are_refused_by_name() {
    expect![[r#"
        expected 24 bytes for 6 elements of float32, got 8  in the given members, data/0
          help: the file is damaged; copy or save it again"#]]
    .assert_eq(&refused("m/data/0", Some(&[0; 8])));
    expect![[r#"
        there is no member "m/data/0" in the given members
          help: the archive is incomplete, or is no program; save it again with `torch.jit.save`"#]]
    .assert_eq(&refused("m/data/0", None));
    expect![[r#"
        there is no member "m/constants.pkl" in the given members
          help: the archive is incomplete, or is no program; save it again with `torch.jit.save`"#]]
    .assert_eq(&refused("m/constants.pkl", None));
    expect![[r#"
        expected a format version from 1 to 10, got 11  in the given members, version
          help: save the program with PyTorch 2.15, or use a newer fx"#]]
    .assert_eq(&refused("m/version", Some(b"11\n")));
    expect![[r#"expected a version number, got "three"  in the given members, version"#]]
        .assert_eq(&refused("m/version", Some(b"three")));
    expect![[r#"
        expected the byte order "little", got "big"  in the given members, byteorder
          help: save the program on a machine with little-endian numbers"#]]
    .assert_eq(&refused("m/byteorder", Some(b"big")));
    expect![
        "expected text, got bytes that are not UTF-8 from byte 1  in the given members, code/__torch__/a/b.py"
    ]
    .assert_eq(&refused("m/code/__torch__/a/b.py", Some(b"a\xff")));
    expect![[r#"
        the given members: the member "n/data.pkl" is outside of "m/"
          help: save the program again with `torch.jit.save`"#]]
    .assert_eq(&refused("n/data.pkl", Some(b"")));
}

#[test]
fn complex_tensors_are_pairs_of_reals() {
    let mut builder = Builder::default();
    let info = StorageInfo { scalar_type: ScalarType::ComplexFloat, key: "0".into(), numel: 3 };
    let storage = builder.add(Node::Storage(info));
    let tensor = builder.add(Node::Tensor(TensorInfo {
        storage,
        offset: 1,
        sizes: vec![2],
        strides: vec![1],
        quantizer: None,
        requires_grad: false,
    }));
    let mut members = members();
    members.0.insert("m/data.pkl".into(), pickle_bytes(builder.finish(tensor).unwrap()));
    let values = Archive::open(members).unwrap().data().unwrap();
    let tensor = values.tensor(values.pickle().root()).unwrap();
    assert_eq!(tensor.array.to_vec::<f32>().unwrap(), [3., 4., 5., 6.]);
    assert_eq!(tensor.array.shape(), [2, 2]);
}

#[test]
fn huge_expanded_tensors_are_refused() {
    let mut builder = Builder::default();
    let info = StorageInfo { scalar_type: ScalarType::Float, key: "0".into(), numel: 6 };
    let storage = builder.add(Node::Storage(info));
    let tensor = builder.add(Node::Tensor(TensorInfo {
        storage,
        offset: 0,
        sizes: vec![1 << 20, 1 << 20],
        strides: vec![0, 0],
        quantizer: None,
        requires_grad: false,
    }));
    let mut members = members();
    members.0.insert("m/data.pkl".into(), pickle_bytes(builder.finish(tensor).unwrap()));
    let error = Archive::open(members).unwrap().data().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
}

/// Returns the pickle of records: each is a byte, the start in the text, and whether the file is known.
fn records(table: &[&str], list: &[(i64, i64, bool)]) -> Vec<u8> {
    let mut builder = Builder::default();
    let numbers = |builder: &mut Builder, n: i64| builder.add(Node::Int(n));
    let head = builder.text("FORMAT_WITH_STRING_TABLE");
    let strings = table.iter().map(|text| builder.text(*text)).collect();
    let strings = builder.add(Node::Tuple(strings));
    let mut items = Vec::new();
    for &(byte, start, known) in list {
        let pieces = (1..table.len() as i64 - 1).map(|n| numbers(&mut builder, n)).collect();
        let pieces = builder.add(Node::List(pieces));
        let pieces = builder.add(Node::Tagged { value: pieces, ty: "List[int]".into() });
        let file = numbers(&mut builder, if known { table.len() as i64 - 1 } else { 0 });
        let line = numbers(&mut builder, 10);
        let source = builder.add(Node::Tuple(vec![pieces, file, line]));
        let (start, end) = (numbers(&mut builder, start), numbers(&mut builder, start.saturating_add(1)));
        let place = builder.add(Node::Tuple(vec![source, start, end]));
        let (byte, tag) = (numbers(&mut builder, byte), numbers(&mut builder, 0));
        items.push(builder.add(Node::Tuple(vec![byte, place, tag])));
    }
    let items = builder.add(Node::Tuple(items));
    let root = builder.add(Node::Tuple(vec![head, strings, items]));
    pickle_bytes(builder.finish(root).unwrap())
}

#[test]
fn debug_records_lead_to_lines_of_python() {
    let table = ["", "def é(x):\n", "  return x\n", "net.py"];
    let bytes = records(&table, &[(0, 0, false), (7, 4, true), (20, 12, true), (30, 0, false)]);
    let records = DebugRecords::read("code/__torch__.py.debug_pkl", &bytes);
    let at = |byte| records.locate(byte).map(ToString::to_string);
    assert_eq!(at(0), None);
    assert_eq!(at(7).as_deref(), Some("net.py:10:5"));
    assert_eq!(at(25).as_deref(), Some("net.py:11:3"));
    assert_eq!(at(99), None);
}

#[test]
fn wrong_debug_records_are_harmless() {
    let table = ["", "net.py"];
    let far = records(&table, &[(0, i64::MAX, true), (-5, -5, true), (3, 7, true)]);
    assert!(DebugRecords::read("d", &far).locate(3).is_some());
    assert!(DebugRecords::read("d", b"\x80\x02N.").is_empty());
    assert!(DebugRecords::read("d", b"junk").is_empty());
}
