//! Exported PyTorch programs run as PyTorch ran them, and damaged ones are errors.
#![allow(missing_docs)]

use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};

use fx::import::Pt2;
use fx::weights::Weights;
use fx::{Arg, CrateOptions, ErrorKind, GraphCode, OpCode, Slicing, Tensor, check};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use zip::write::SimpleFileOptions;

use crate::standalone::{HOSTILE, assert_inert, reproduces};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/zoo").join(name)
}

/// The members of an archive.
fn members(name: &str) -> Vec<(String, Vec<u8>)> {
    // The sample inputs are an archive within the archive.
    let config = zip::read::Config { archive_offset: zip::read::ArchiveOffset::Known(0) };
    let file = Cursor::new(std::fs::read(data(name)).unwrap());
    let mut zip = zip::ZipArchive::with_config(config, file).unwrap();
    (0..zip.len())
        .map(|i| {
            let mut file = zip.by_index(i).unwrap();
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            (file.name().unwrap().into_owned(), bytes)
        })
        .collect()
}

fn pack(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        zip.start_file(name.as_str(), options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// An archive whose members have been changed.
fn changed(name: &str, change: impl Fn(&str, Vec<u8>) -> Option<Vec<u8>>) -> Vec<u8> {
    let members: Vec<(String, Vec<u8>)> = members(name)
        .into_iter()
        .filter_map(|(name, bytes)| Some((name.clone(), change(&name, bytes)?)))
        .collect();
    pack(&members)
}

/// An archive whose program has been changed.
fn edited(name: &str, edit: impl Fn(&mut Json)) -> Vec<u8> {
    changed(name, |member, bytes| {
        if !member.ends_with("models/model.json") && !member.contains("/models/") {
            return Some(bytes);
        }
        let mut program: Json = serde_json::from_slice(&bytes).unwrap();
        edit(&mut program);
        Some(serde_json::to_vec(&program).unwrap())
    })
}

fn error(bytes: Vec<u8>) -> fx::Error {
    Pt2::from_bytes(bytes).load().expect_err("a damaged archive was read")
}

#[test]
fn programs_give_what_pytorch_gave() {
    let report = check::dir(data(""), &check::engines()).unwrap();
    assert_eq!((report.failed(), report.passed()), (0, report.programs.len()), "{report}");
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/zoo");
    if !shared.is_dir() {
        crate::skipped("the larger programs were not run", &format!("put them into {}", shared.display()));
        return;
    }
    let report = check::dir(shared, &check::engines()).unwrap();
    assert_eq!(report.failed(), 0, "{report}");
}

/// Halves, integers and NaN at their limits, `out=`, sizes of 0 and 1: each program on every engine, and after
/// every pass and rule.
#[test]
fn programs_at_the_limits_of_numbers_give_what_pytorch_gave() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/limits");
    let engines: Vec<check::Engine> =
        check::engines().into_iter().chain(check::each_pass().unwrap()).collect();
    let report = check::dir(dir, &engines).unwrap();
    assert_eq!((report.failed(), report.passed()), (0, report.programs.len()), "{report}");
}

#[test]
fn the_hierarchy_of_modules_is_restored() {
    let path = data("mlp.pt2");
    let flat = fx::import::pt2(&path).unwrap();
    let nested = Pt2::new(&path).hierarchy(true).load().unwrap();
    let children: Vec<&str> = nested.children().map(|(path, _)| path).collect();
    assert_eq!(children, ["0", "1", "3", "4"]);
    assert_eq!(nested.graph().find_nodes(OpCode::CallModule, None).len(), 4);
    assert_eq!(nested.attributes().len(), 0);
    assert!(nested.lint().is_empty());
    let io = Weights::open(data("mlp.io.safetensors")).unwrap();
    let args = check::inputs(&flat, &io, 1).unwrap();
    let call = |gm: &fx::GraphModule| Tensor::try_from(gm.call_values(&args).unwrap()).unwrap();
    assert!(call(&flat).bits_eq(&call(&nested)));
}

#[test]
fn names_types_lines_and_structure_are_kept() {
    let gm = fx::import::pt2(data("pytree.pt2")).unwrap();
    let names: Vec<&str> = gm.graph().inputs().iter().map(|input| &*input.name).collect();
    assert_eq!(names, ["x", "d", "k", "mask", "flag"]);
    assert!(
        matches!(gm.graph().inputs()[2].tree, Arg::Int(3))
            && matches!(gm.graph().inputs()[3].tree, Arg::None)
    );
    assert!(matches!(gm.graph().output(), Arg::Dict(entries) if entries.len() == 3));
    let gm = fx::import::pt2(data("mlp.pt2")).unwrap();
    expect_test::expect![[r#"
        graph main<s31: 1..=64>(%input: f32[s31, 20]) -> f32[s31, 5]"#]]
    .assert_eq(gm.graph().to_string().lines().next().unwrap().trim_end_matches(" {"));
    let linear = gm.graph().node(gm.graph().find("linear").unwrap()).unwrap();
    assert_eq!(linear.meta().module_path(), "0");
    assert!(linear.meta().source.as_ref().unwrap().file().ends_with("linear.py"));
    let tied = fx::import::pt2(data("tied.pt2")).unwrap();
    let (a, b) = (tied.attr("e.weight").unwrap(), tied.attr("h.weight").unwrap());
    assert!(a.array().unwrap().shares_storage(b.array().unwrap()));
}

#[test]
fn buffers_keep_what_the_program_writes() {
    let gm = fx::import::pt2(data("buffers.pt2")).unwrap();
    let io = Weights::open(data("buffers.io.safetensors")).unwrap();
    let args = check::inputs(&gm, &io, 0).unwrap();
    gm.call_values(&args).unwrap();
    gm.call_values(&args).unwrap();
    assert_eq!(gm.attr("n").unwrap().item::<i64>().unwrap(), 2);
    assert!(gm.graph().nodes().all(|(_, node)| !node.name().is_empty()));
}

#[test]
fn unknown_operators_are_listed_at_once() {
    let bytes = edited("mlp.pt2", |program| {
        let nodes = program["graph_module"]["graph"]["nodes"].as_array_mut().unwrap();
        nodes[1]["target"] = json!("torch.ops.mylib.gate.default");
        nodes[3]["target"] = json!("torch.ops.aten.no_such_thing.default");
    });
    let error = error(bytes);
    assert_eq!(error.kind(), ErrorKind::Unresolved);
    expect_test::expect![[r#"
        the given bytes: 2 unknown operators: torch.ops.aten.no_such_thing.default at torch/nn/modules/linear.py:134; torch.ops.mylib.gate.default at torch/nn/modules/activation.py:143
          help: give rows called mylib_gate, no_such_thing to `Pt2::registry`"#]]
    .assert_eq(&error.to_string());
}

#[test]
fn what_stays_unsupported_is_named() {
    let target = |i: usize, target: &'static str| {
        edited("mlp.pt2", move |program| {
            program["graph_module"]["graph"]["nodes"][i]["target"] = json!(target);
        })
    };
    let vmap = error(target(1, "torch._functorch.predispatch._add_batch_dim"));
    assert_eq!(vmap.kind(), ErrorKind::Unresolved);
    assert!(vmap.to_string().contains("run_decompositions"), "{vmap}");
    for (code, name) in [(3, "int16"), (10, "complex"), (28, "uint16"), (99, "99")] {
        let error = error(edited("mlp.pt2", |program| {
            program["graph_module"]["graph"]["tensor_values"]["relu"]["dtype"] = json!(code);
        }));
        assert_eq!(error.kind(), ErrorKind::DType);
        assert!(error.message().contains(name) && error.source_loc().is_some(), "{error}");
    }
}

/// Says in an archive that a buffer lies in the memory of another, some elements on.
fn moved(name: &str, from: &'static str, to: &'static str, offset: i64) -> Vec<u8> {
    changed(name, move |member, bytes| {
        if !member.ends_with("weights_config.json") {
            return Some(bytes);
        }
        let mut config: Json = serde_json::from_slice(&bytes).unwrap();
        let mut place = config["config"][to].clone();
        place["tensor_meta"]["storage_offset"] = json!({"as_int": offset});
        place["tensor_meta"]["sizes"] = json!([{"as_int": 3 - offset}]);
        config["config"][from] = place;
        Some(serde_json::to_vec(&config).unwrap())
    })
}

#[test]
fn a_buffer_that_overlaps_an_updated_one_is_an_error() {
    let error = error(moved("one_buffer_twice.pt2", "norm.running_mean", "count", 1));
    assert_eq!(error.kind(), ErrorKind::Load);
    assert!(error.message().contains("shares memory with"), "{error}");
}

#[test]
fn one_tensor_under_two_names_is_updated_once_under_both() {
    let gm = fx::import::pt2(data("one_buffer_twice.pt2")).unwrap();
    let io = Weights::open(data("one_buffer_twice.io.safetensors")).unwrap();
    let args = check::inputs(&gm, &io, 0).unwrap();
    for _ in 0..2 {
        gm.call_values(&args).unwrap();
    }
    let (count, seen) = (gm.attr("count").unwrap(), gm.attr("seen").unwrap());
    let x = Tensor::try_from(args[0].clone()).unwrap();
    let row = x.select(0, 0).select(0, 0);
    assert!(count.bits_eq(&seen) && count.bits_eq(&(&row + &row)));
}

#[test]
fn names_that_are_no_identifiers_get_underscores() {
    let path = data("odd_names.pt2");
    let gm = fx::import::pt2(&path).unwrap();
    let mut names: Vec<&str> =
        gm.attributes().map(|(path, _)| path).filter(|path| path.contains(".weight")).collect();
    names.sort_unstable();
    assert_eq!(names, ["parts.1_2__.weight", "parts.a_b.weight", "parts.a_b.weight_1"]);
    let nested = Pt2::new(&path).hierarchy(true).load().unwrap();
    assert!(nested.lint().is_empty());
    let io = Weights::open(data("odd_names.io.safetensors")).unwrap();
    let args = check::inputs(&gm, &io, 1).unwrap();
    let call = |gm: &fx::GraphModule| check::tensors(&gm.call_values(&args).unwrap()).remove(0);
    assert!(call(&gm).bits_eq(&call(&nested)));
}

#[test]
fn many_steps_are_a_loop_and_few_are_written_out() {
    let gm = fx::import::pt2(data("loops.pt2")).unwrap();
    let loops = gm.graph().find_nodes(OpCode::CallFunction, Some("while_loop")).len();
    assert_eq!(loops, 1);
    assert!(gm.graph().find_nodes(OpCode::CallFunction, Some("tanh")).len() >= 3);
}

#[fx::wrap]
fn mylib_gate(x: &Tensor) -> Tensor {
    x * 2.0
}

#[test]
fn users_supply_operators() {
    let bytes = edited("mlp.pt2", |program| {
        program["graph_module"]["graph"]["nodes"][1]["target"] = json!("torch.ops.mylib.gate.default");
    });
    let registry = fx::registry().with(&[mylib_gate::OP]).unwrap();
    let gm = Pt2::from_bytes(bytes).registry(&registry).load().unwrap();
    assert_eq!(gm.graph().find_nodes(OpCode::CallFunction, Some("mylib_gate")).len(), 1);
}

#[test]
fn damaged_programs_are_errors() {
    type Edit = fn(&mut Json);
    let edits: &[(&str, Edit)] = &[
        ("schema version", |p| p["schema_version"]["major"] = json!(9)),
        ("dangling reference", |p| {
            p["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"]["as_tensor"]["name"] = json!("softmax")
        }),
        ("a name given twice", |p| {
            p["graph_module"]["graph"]["nodes"][1]["outputs"][0]["as_tensor"]["name"] = json!("linear")
        }),
        ("a path out of the module", |p| {
            p["graph_module"]["signature"]["input_specs"][0]["parameter"]["parameter_name"] =
                json!("../../etc/passwd")
        }),
        ("another size", |p| {
            p["graph_module"]["graph"]["tensor_values"]["relu"]["sizes"][1]["as_int"] = json!(33)
        }),
        ("a huge size", |p| {
            p["graph_module"]["graph"]["tensor_values"]["p_0_weight"]["sizes"][0]["as_int"] =
                json!(1i64 << 60)
        }),
        ("a negative size", |p| {
            p["graph_module"]["graph"]["tensor_values"]["input"]["sizes"][1]["as_int"] = json!(-1)
        }),
        ("an unknown dtype", |p| p["graph_module"]["graph"]["tensor_values"]["relu"]["dtype"] = json!(99)),
        ("a bad expression", |p| {
            p["graph_module"]["graph"]["tensor_values"]["relu"]["sizes"][0]["as_expr"]["expr_str"] =
                json!("__import__('os')")
        }),
        ("an empty range", |p| p["range_constraints"]["s31"]["max_val"] = json!(0)),
        ("fewer outputs", |p| p["graph_module"]["graph"]["outputs"] = json!([])),
        ("a wrong tree", |p| {
            p["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = json!("[1, {}]")
        }),
        ("an unknown variant", |p| {
            p["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"] = json!({"as_magic": 1})
        }),
        ("no nodes", |p| p["graph_module"]["graph"]["nodes"] = json!(null)),
    ];
    for (what, edit) in edits {
        let error = error(edited("mlp.pt2", edit));
        assert!(!error.message().is_empty() && error.message().len() < 2000, "{what}: {error}");
    }
}

#[test]
fn damaged_archives_are_errors() {
    let without =
        |part: &'static str| changed("mlp.pt2", move |name, bytes| (!name.contains(part)).then_some(bytes));
    for part in ["models/", "weight_2", "archive_version", "archive_format"] {
        assert_eq!(error(without(part)).kind(), ErrorKind::Load, "{part}");
    }
    let short = changed("mlp.pt2", |name, mut bytes| {
        if name.ends_with("weight_0") {
            bytes.truncate(100);
        }
        Some(bytes)
    });
    assert_eq!(error(short).kind(), ErrorKind::Index);
    let version = changed("mlp.pt2", |name, bytes| {
        Some(if name.ends_with("archive_version") { b"7".to_vec() } else { bytes })
    });
    assert!(error(version).message().contains("archive version"));
    let mut outside = members("mlp.pt2");
    outside.push(("mlp/../../x".to_owned(), Vec::new()));
    assert!(error(pack(&outside)).message().contains("plain relative path"));
    let twice = changed("mlp.pt2", |name, bytes| {
        Some(if name.ends_with("config.json") {
            br#"{"config": {"a": {"path_name": "x"}, "a": {"path_name": "y"}}}"#.to_vec()
        } else {
            bytes
        })
    });
    assert!(error(twice).message().contains("given twice"));
    let bytes = std::fs::read(data("mlp.pt2")).unwrap();
    for n in [0, 10, 1000, bytes.len() / 2, bytes.len() - 1] {
        assert!(Pt2::from_bytes(&bytes[..n]).load().is_err(), "{n} bytes");
    }
}

#[test]
fn a_zip_bomb_is_refused() {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let deflated = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    for (name, bytes) in members("mlp.pt2") {
        zip.start_file(name.as_str(), deflated).unwrap();
        let bomb = if name.ends_with("models/mlp.json") || name.ends_with("models/model.json") {
            vec![b' '; 64 << 20]
        } else {
            bytes
        };
        zip.write_all(&bomb).unwrap();
    }
    let error = error(zip.finish().unwrap().into_inner());
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}

/// Replaces the `n`th value of a document, counted through everything.
fn replace_nth(json: &mut Json, n: &mut usize, new: &Json) {
    if *n == 0 {
        *json = new.clone();
        *n = usize::MAX;
        return;
    }
    *n -= 1;
    let inner: Vec<&mut Json> = match json {
        Json::Array(items) => items.iter_mut().collect(),
        Json::Object(entries) => entries.iter_mut().map(|(_, value)| value).collect(),
        _ => return,
    };
    for value in inner {
        replace_nth(value, n, new);
        if *n == usize::MAX {
            return;
        }
    }
}

fn replacement() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(json!(null)),
        Just(json!([])),
        Just(json!({})),
        Just(json!(-1)),
        Just(json!(i64::MAX)),
        Just(json!(1e300)),
        Just(json!(true)),
        Just(json!("")),
        Just(json!("linear")),
        Just(json!("x\"; } %a\n../..")),
        Just(json!({"as_int": 1i64 << 40})),
        Just(json!({"as_tensor": {"name": "relu"}})),
        Just(json!({"as_none": true})),
        (0i64..20).prop_map(|n| json!(n)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Whatever a program says, reading it ends in a sound module, which prints and parses, or an error.
    #[test]
    fn edited_programs_do_not_break_the_reader(
        name in prop_oneof![Just("mlp.pt2"), Just("chain.pt2"), Just("cond_nested.pt2"), Just("data_dep.pt2")],
        edits in prop::collection::vec((0usize..4000, replacement()), 1..4),
    ) {
        let bytes = edited(name, |program| {
            for (n, new) in &edits {
                replace_nth(program, &mut n.clone(), new);
            }
        });
        if let Ok(gm) = Pt2::from_bytes(bytes).load() {
            prop_assert!(gm.lint().is_empty());
            let text = gm.graph().to_string();
            prop_assert!(fx::Graph::parse(&text, &fx::registry()).is_ok(), "{text}");
        }
    }

    #[test]
    fn flipped_and_truncated_bytes_do_not_break_the_reader(
        flips in prop::collection::vec((0usize..20_000, 1u8..), 0..6),
        length in prop::option::of(0usize..20_000),
    ) {
        let mut bytes = std::fs::read(data("mlp.pt2")).unwrap();
        for (at, mask) in flips {
            let at = at % bytes.len();
            bytes[at] ^= mask;
        }
        bytes.truncate(length.unwrap_or(usize::MAX));
        let _ = Pt2::from_bytes(bytes).load();
    }
}

/// An archive with hostile text in every name, path and trace.
fn hostile(name: &str) -> Vec<u8> {
    fn names(json: &Json, out: &mut Vec<String>) {
        let Json::Object(entries) = json else {
            return json.as_array().into_iter().flatten().for_each(|item| names(item, out));
        };
        for (key, value) in entries {
            match value {
                Json::Object(values) if key == "tensor_values" => out.extend(values.keys().cloned()),
                Json::String(name) if key == "parameter_name" || key == "buffer_name" => {
                    out.push(name.clone())
                }
                _ => names(value, out),
            }
        }
    }
    fn renamed(json: &Json, known: &[String]) -> Json {
        let rename = |name: &String| match known.iter().position(|known| known == name) {
            Some(i) => format!("{name}{}", HOSTILE[i % HOSTILE.len()]),
            None => name.clone(),
        };
        match json {
            Json::String(text) => rename(text).into(),
            Json::Array(items) => items.iter().map(|item| renamed(item, known)).collect(),
            Json::Object(entries) => entries
                .iter()
                .map(|(key, value)| {
                    let evil = HOSTILE.concat();
                    let value = match key.as_str() {
                        "stack_trace" => format!("File \"{evil}\", line 3, in {evil}\n    {evil}").into(),
                        "nn_module_stack" => format!("L__self__,{evil},{evil};{evil},a.{evil},{evil}").into(),
                        "torch_fn" => format!("{evil};{evil}").into(),
                        _ => renamed(value, known),
                    };
                    (rename(key), value)
                })
                .collect(),
            other => other.clone(),
        }
    }
    let mut known = Vec::new();
    let read = |bytes: &[u8]| serde_json::from_slice::<Json>(bytes).unwrap();
    let members = members(name);
    members
        .iter()
        .filter(|(member, _)| member.ends_with("model.json"))
        .for_each(|(_, bytes)| names(&read(bytes), &mut known));
    changed(name, |member, bytes| match member.ends_with(".json") {
        true => Some(serde_json::to_vec(&renamed(&read(&bytes), &known)).unwrap()),
        false => Some(bytes),
    })
}

#[test]
fn hostile_text_of_an_archive_is_no_code() {
    for name in ["mlp", "odd_names", "dyn_conv"] {
        let bytes = hostile(&format!("{name}.pt2"));
        assert!(bytes.windows(13).any(|part| part == b"process::exit"));
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile").join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("hostile.pt2");
        std::fs::write(&file, bytes).unwrap();
        std::fs::copy(data(&format!("{name}.io.safetensors")), dir.join("hostile.io.safetensors")).unwrap();
        let ran = check::file(&file, &check::engines());
        assert!(ran.passed(), "{ran}");
        for restore in [false, true] {
            let gm = Pt2::new(&file).hierarchy(restore).load().unwrap();
            assert_inert("code.rs", gm.code().unwrap().text().as_bytes());
        }
        let gm = fx::import::pt2(&file).unwrap();
        let io = Weights::open(dir.join("hostile.io.safetensors")).unwrap();
        let options = CrateOptions::new().io(&gm, &io).unwrap();
        let crate_dir = reproduces(&gm, &format!("hostile_{name}"), options);
        for folder in ["src", "src/kernels", "tests"] {
            for entry in std::fs::read_dir(crate_dir.join(folder)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    assert_inert(path.file_name().unwrap().to_str().unwrap(), &std::fs::read(&path).unwrap());
                }
            }
        }
    }
}
