//! Saved modules: what is written is read again, and damaged files are errors.
#![allow(missing_docs)]

use std::io::{Cursor, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use expect_test::{Expect, expect};
use fx::prelude::*;
use fx::saved::{Load, Save};
use fx::{Array, Attribute, GraphModule};

/// Returns a path in the folder for temporary files that only this test uses.
fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("fx-saved-{}-{name}", std::process::id()))
}

/// Returns a module that reads a tied parameter, a view of it, a buffer that it updates, and calls a child twice.
fn module() -> GraphModule {
    let text = "graph main(%x: f32[2, 3]) -> f32[2, 2] {
  %w: f32[3, 2] = self.w
  %again: f32[3, 2] = self.tied
  %column: f32[3] = self.column
  %count: i64[] = self.count
  %next: i64[] = add(%count, 1)
  %set: none = set_buffer(\"count\", %next)
  %sum: f32[3, 2] = add(%w, %again)
  %scaled: f32[2, 3] = mul(%x, %column)
  %a: f32[2, 3] = self.act(%scaled)
  %b: f32[2, 3] = self.other.act(%a)
  %y: f32[2, 2] = matmul(%b, %sum)
  return %y
}";
    let mut gm = GraphModule::new("net", fx::parse(text).unwrap());
    let weight = Tensor::from(Array::from([[1f32, 2.], [3., 4.], [5., 6.]]));
    gm.set_attribute("w", Attribute::Parameter(Parameter::new(weight.clone()))).unwrap();
    gm.set_attribute("tied", Attribute::Parameter(Parameter::new(weight.clone()))).unwrap();
    gm.set_attribute("column", Attribute::Constant(weight.i((.., 0)))).unwrap();
    gm.set_attribute("count", Attribute::Buffer(Buffer::transient(Tensor::from(Array::from(7i64))))).unwrap();
    let child =
        fx::parse("graph act(%x: f32[2, 3]) -> f32[2, 3] {\n  %y: f32[2, 3] = relu(%x)\n  return %y\n}");
    let child: Arc<dyn Forward> = Arc::new(GraphModule::new("act", child.unwrap()));
    gm.add_shared_submodule("act", child.clone()).unwrap();
    gm.add_shared_submodule("other.act", child).unwrap();
    assert!(gm.lint().is_empty(), "{:?}", gm.lint());
    gm
}

#[test]
fn a_saved_module_is_the_same_module() {
    let (gm, path) = (module(), temporary("same.fx"));
    fx::save(&gm, &path).unwrap();
    let again = fx::load(&path).unwrap();
    assert_eq!(again.graph().to_text(), gm.graph().to_text());
    assert_eq!(again.name(), "net");
    let x = Tensor::from(Array::from([[1f32, -2., 3.], [0.5, 1., -1.]]));
    let run = |gm: &GraphModule| gm.call(std::slice::from_ref(&x)).unwrap().array().unwrap().clone();
    assert!(run(&again).bits_eq(&run(&gm)));
    let count = again.attribute("count").unwrap();
    assert!(matches!(count, Attribute::Buffer(buffer) if !buffer.is_persistent()));
    assert_eq!(count.tensor().array().unwrap().to_vec::<i64>().unwrap(), [8]);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn ties_views_and_shared_modules_stay_shared() {
    let path = temporary("ties.fx");
    fx::save(&module(), &path).unwrap();
    let gm = fx::load(&path).unwrap();
    let array = |name: &str| gm.attr(name).unwrap().array().unwrap().clone();
    let (tensor, tied) = (gm.attr("w").unwrap(), gm.attr("tied").unwrap());
    assert!(std::ptr::eq(tensor.array().unwrap(), tied.array().unwrap()));
    assert!(array("w").shares_storage(&array("column")));
    assert_eq!(array("column").to_vec::<f32>().unwrap(), [1., 3., 5.]);
    let child = |path: &str| std::ptr::from_ref(gm.child(path).unwrap()).cast::<()>();
    assert_eq!(child("act"), child("other.act"));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn equal_modules_give_equal_files() {
    let (a, b, c) = (temporary("a.fx"), temporary("b.fx"), temporary("c.fx"));
    fx::save(&module(), &a).unwrap();
    fx::save(&module(), &b).unwrap();
    fx::save(&fx::load(&a).unwrap(), &c).unwrap();
    let [first, second, third] = [&a, &b, &c].map(|path| std::fs::read(path).unwrap());
    assert!(first == second && first == third);
    for path in [a, b, c] {
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn added_files_come_back() {
    let (gm, path) = (module(), temporary("extra.fx"));
    Save::new(&gm).extra("labels.txt", "cat\ndog").extra("a/b.bin", [1, 2, 3]).write(&path).unwrap();
    let saved = Load::new(&path).read().unwrap();
    assert_eq!(saved.extra["labels.txt"], b"cat\ndog");
    assert_eq!(saved.extra["a/b.bin"], [1, 2, 3]);
    let error = Save::new(&gm).extra("../up", "").write(&path).unwrap_err();
    assert!(error.message().contains("is not the name of an added file"), "{error}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_layer_is_refused_until_it_is_inlined() {
    let layers = nn::Sequential::new().push(nn::Linear::new(3, 2));
    let mut gm = fx::trace(&layers).input("x", "f32[n, 3]").build().unwrap();
    let path = temporary("layer.fx");
    let error = fx::save(&gm, &path).unwrap_err();
    expect![[r#"
        the sub-module "0" is a Linear, not a graph
          help: replace its calls by operations with `pass::INLINE_LEAVES`, or trace with `.leaf(|_, _| false)`"#]]
    .assert_eq(&error.to_string());
    fx::pass::INLINE_LEAVES.apply(&mut gm).unwrap();
    fx::save(&gm, &path).unwrap();
    assert_eq!(fx::load(&path).unwrap().graph().to_text(), gm.graph().to_text());
    std::fs::remove_file(path).unwrap();
}

/// Checks the error of a file in which the text of a member was changed.
fn refused(member: &str, change: impl Fn(String) -> String, expected: Expect) {
    let path = temporary(&format!("{}.fx", member.replace('/', "-")));
    fx::save(&module(), &path).unwrap();
    let mut zip = zip::ZipArchive::new(Cursor::new(std::fs::read(&path).unwrap())).unwrap();
    let mut out = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for index in 0..zip.len() {
        let mut file = zip.by_index(index).unwrap();
        let name = file.name().unwrap().into_owned();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        if name == member {
            bytes = change(String::from_utf8(bytes).unwrap()).into_bytes();
        }
        out.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        out.write_all(&bytes).unwrap();
    }
    std::fs::write(&path, out.finish().unwrap().into_inner()).unwrap();
    let message = fx::load(&path).unwrap_err().to_string();
    expected.assert_eq(&message.replace(&path.display().to_string(), "FILE"));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn wrong_files_are_refused_with_their_place() {
    refused(
        "module.json",
        |text| text.replace("\"version\": 1", "\"version\": 2"),
        expect![[r#"
            expected a saved module of version 1 or older, got version 2  in FILE, module.json
              help: read it with the fx that wrote it, or with a newer one"#]],
    );
    refused(
        "module.json",
        |text| text.replace("fx module", "mine"),
        expect![[
            r#"expected the manifest of a saved module: the format is "mine", not "fx module"  in FILE, module.json"#
        ]],
    );
    refused(
        "module.json",
        |text| text.replacen("\"tensor\": 0", "\"tensor\": 99", 1),
        expect![[r#"the attribute "column" of module 0 has no tensor 99  in FILE, module.json"#]],
    );
    refused(
        "module.json",
        |text| text.replacen("\"offset\": 0", "\"offset\": 5", 1),
        expect![[r#"
            shape [3] with strides [2] from 5 is out of range for f32[6]  in FILE, module.json, tensor 0
              help: there are 6 elements"#]],
    );
    refused(
        "graphs/1.fx",
        |text| text.replace("relu", "no_such_operation"),
        expect![[r#"
            unknown operation "no_such_operation"  at FILE, graphs/1.fx:2:19
              help: check the spelling; operations of your own are given to `fx::saved::Load::registry`"#]],
    );
}

#[test]
fn a_changed_bit_is_found() {
    let path = temporary("bit.fx");
    fx::save(&module(), &path).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    // Elements of the weight: 1.0 and 2.0 in a row.
    let elements = [1f32, 2.].map(f32::to_le_bytes).concat();
    let at = bytes.windows(8).position(|window| window == elements).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let error = fx::load(&path).unwrap_err();
    assert!(error.message().contains("checksum"), "{error}");
    std::fs::remove_file(path).unwrap();
}
