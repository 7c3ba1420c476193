//! TorchScript archives: what PyTorch wrote is read, and damaged archives are errors.
#![allow(missing_docs)]

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use fx::import::{torchscript_archive, torchscript_archive_from_bytes};
use fx::torchscript::load::{Program, Session};
use fx::torchscript::pickle;
use fx::torchscript::vm::NoOperators;
use proptest::prelude::*;
use zip::write::SimpleFileOptions;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torchscript").join(name)
}

/// Returns the archives that must be read.
fn sound() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(data("")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "pt"));
    paths.retain(|path| !path.file_name().unwrap().to_string_lossy().starts_with("bad_"));
    paths.sort();
    paths
}

/// Reads everything that an archive holds.
fn read_all(archive: &fx::torchscript::archive::Archive) -> fx::Result<()> {
    Program::load(archive).map(|_| ())
}

#[test]
fn pickles_are_written_as_pytorch_wrote_them() {
    for path in sound() {
        let archive = torchscript_archive(&path).unwrap();
        for member in ["data.pkl", "constants.pkl"] {
            let bytes = archive.read(member).unwrap();
            let again = pickle::write(&pickle::read(member, &bytes).unwrap());
            assert!(again == *bytes, "{}: {member}", path.display());
        }
        read_all(&archive).unwrap();
    }
}

#[test]
fn debug_records_lead_to_python() {
    let archive = torchscript_archive(data("sc_class.pt")).unwrap();
    let file = &archive.code().unwrap()[0];
    let records = archive.debug_records(file);
    let at = |text: &str| records.locate(file.text.find(text).unwrap()).map(ToString::to_string);
    assert_eq!(at("torch.zeros_like").as_deref(), Some("gen_ts_zoo.py:309:22"));
    assert_eq!(at("class Classes"), None);
}

#[test]
fn damaged_archives_are_refused_with_their_place() {
    let message = |name: &str| {
        let outcome = torchscript_archive(data(name)).and_then(|archive| read_all(&archive));
        outcome.unwrap_err().to_string().replace(&data("").display().to_string(), "")
    };
    expect_test::expect![[r#"
        the name "os.system" has no place in a pickle of TorchScript  in bad_global.pt, data.pkl, byte 2
          help: the file is hostile, or was not written by `torch.jit.save`; nothing in it was run"#]]
    .assert_eq(&message("bad_global.pt"));
    expect_test::expect![[r#"
        expected 24 bytes for 6 elements of float32, got 8  in bad_short_storage.pt, data/0
          help: the file is damaged; copy or save it again"#]]
    .assert_eq(&message("bad_short_storage.pt"));
    expect_test::expect![[r#"
        PyTorch has no operator "aten::no_such_operator"
                _0 = torch.no_such_operator(x, w)
                     ^^^^^^^^^^^^^^^^^^^^^^
           at bad_operator.pt, code/__torch__.py:11:10
          help: the code is damaged, or calls an operator of another library, which fx does not know"#]]
    .assert_eq(&message("bad_operator.pt"));
}

/// Writes a zip file of these members.
fn pack(members: &[(&str, &[u8])], method: zip::CompressionMethod) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        zip.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn bombs_and_loops_are_refused_at_once() {
    let started = Instant::now();
    let zeros = vec![b' '; 64 << 20];
    let bomb: &[(&str, &[u8])] = &[
        ("m/data.pkl", b"\x80\x02N."),
        ("m/constants.pkl", b"\x80\x02)."),
        ("m/version", b"3\n"),
        ("m/code/__torch__.py", &zeros),
    ];
    let packed = pack(bomb, zip::CompressionMethod::Deflated);
    let error = torchscript_archive_from_bytes(packed).and_then(|archive| read_all(&archive)).unwrap_err();
    assert!(error.message().contains("claims 67108864 bytes"), "{error}");
    let cyclic: &[(&str, &[u8])] = &[
        ("m/data.pkl", b"\x80\x02]q\x00h\x00a."),
        ("m/constants.pkl", b"\x80\x02)."),
        ("m/version", b"3\n"),
    ];
    let packed = pack(cyclic, zip::CompressionMethod::Stored);
    let error = torchscript_archive_from_bytes(packed).and_then(|archive| read_all(&archive)).unwrap_err();
    assert!(error.to_string().contains("contains itself"), "{error}");
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn a_program_prints_its_hierarchy_and_code() {
    let program = fx::import::torchscript(data("sc_tied.pt")).unwrap();
    expect_test::expect![[r#"
        Tied
          view: Tensor, parameter = f32[3, 6]
          col: Tensor, buffer = f32[11]
          t: Tensor, buffer = f32[6, 11]
          training: bool = False
          _is_full_backward_hook: Optional[bool] = None
          e: torch.nn.modules.sparse.Embedding
            weight: Tensor, parameter = f32[11, 6]
            training: bool = False
            _is_full_backward_hook: NoneType = None
            padding_idx: NoneType, final = None
            norm_type: float, final = 2.
            sparse: bool, final = False
            embedding_dim: int, final = 6
            max_norm: NoneType, final = None
            num_embeddings: int, final = 11
            scale_grad_by_freq: bool, final = False
          o: torch.nn.modules.linear.Linear
            weight: Tensor, parameter = f32[11, 6]
            bias: NoneType, parameter = None
            training: bool = False
            _is_full_backward_hook: NoneType = None
            in_features: int, final = 6
            out_features: int, final = 11
          l2: torch.nn.modules.linear.Linear
            weight: Tensor, parameter = f32[11, 6]
            bias: NoneType, parameter = None
            training: bool = False
            _is_full_backward_hook: NoneType = None
            in_features: int, final = 6
            out_features: int, final = 11

        class Tied:
          def forward(s: Tied,
              i: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
            e = s.e
            h = (e).forward(i, )
            o = s.o
            _0 = (o).forward(h, )
            l2 = s.l2
            _1 = (l2).forward(torch.mul(h, 2), )
            view = s.view
            _2 = torch.matmul(h, torch.t(view))
            col = s.col
            _3 = torch.sum(col)
            t = s.t
            return (_0, _1, _2, _3, torch.sum(t, [0]))

        class torch.nn.modules.sparse.Embedding:
          def forward(self: torch.nn.modules.sparse.Embedding,
              input: Tensor) -> Tensor:
            _0 = torch.nn.functional.embedding
            weight = self.weight
            _1 = _0(input, weight, None, None, 2., False, False, )
            return _1

        class torch.nn.modules.linear.Linear:
          def forward(self: torch.nn.modules.linear.Linear,
              input: Tensor) -> Tensor:
            weight = self.weight
            bias = self.bias
            return torch.linear(input, weight, bias)
    "#]]
    .assert_eq(&program.to_string());
}

#[test]
fn programs_become_bytecode() {
    for path in sound() {
        let program = fx::import::torchscript(&path).unwrap();
        let session = Session::new(program, &NoOperators);
        assert!(session.is_ok(), "{}: {}", path.display(), session.err().unwrap());
    }
}

#[test]
fn hand_made_archives_are_read() {
    let members: &[(&str, &[u8])] = &[
        ("any name/data.pkl", b"\x80\x02c__torch__\nM\n)\x81}(ub."),
        ("any name/constants.pkl", b"\x80\x02)."),
        ("any name/.data/version", b"10\n"),
        ("any name/code/__torch__.py", b"class M(Module):\n  pass\n"),
    ];
    for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        let archive = torchscript_archive_from_bytes(pack(members, method)).unwrap();
        assert_eq!(archive.version(), 10);
        read_all(&archive).unwrap();
    }
}

proptest! {
    #[test]
    fn mutated_archives_are_read_or_refused(
        which in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in proptest::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let paths = sound();
        let mut bytes = std::fs::read(which.get(&paths)).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(archive) = torchscript_archive_from_bytes(bytes) {
            let _ = read_all(&archive);
        }
    }
}

/// A text with all that stands outside of functions: imports, constants, classes of all kinds.
const TEXT: &str = "import torch.nn.functional as F
from typing import List, NamedTuple as N
EPS = 1e-6
PAIR: Tuple[float, int] = (EPS * 2, -3)

class Stack(object):
    def __init__(self, n: int):
        self.items: List[int] = []
        self.limit = n
        self.point = Point(n, EPS)
    def push(self, x: int):
        if len(self.items) >= self.limit:
            raise ValueError('full')
        self.items.append(x)

@dataclass
class Point:
    x: int
    y: float = EPS

class Color(Enum):
    RED = 1

class Pair(NamedTuple):
    a: Tensor
    b: int = 2

def f(x, n: int = 3, *, k: float = EPS) -> List[Tensor]:
    s = Stack(n)
    out: List[Tensor] = []
    for i in range(n):
        s.push(i)
        out.append(F.relu(x) + k if i % 2 == 0 else x * s.point.y)
    return out
";

proptest! {
    #[test]
    fn mutated_texts_are_compiled_or_refused(
        changes in proptest::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0usize..24), 1..6),
    ) {
        let mut text = TEXT.to_owned();
        for (from, to, length) in changes {
            // Parts of the text go elsewhere, or go.
            let (from, to) = (from.index(text.len()), to.index(text.len()));
            let part = text[from..(from + length).min(text.len())].to_owned();
            match length % 3 {
                0 => text.replace_range(from..(from + length).min(text.len()), ""),
                1 => text.insert_str(to, &part),
                _ => text.replace_range(to..(to + part.len()).min(text.len()), &part),
            }
        }
        if let Ok(script) = fx::script(text) {
            let code = script.code();
            prop_assert_eq!(fx::script(code.clone()).map(|script| script.code()).unwrap(), code);
        }
    }
}
