//! IR as text.

use fx_script::ir::*;

const TEXT: &str = r#"func "__torch__.f"(%x.0: Tensor, %n.1: int) -> Tuple[int, Tensor] {
  %2: int = constant 0()
  %3: bool = constant true()
  %4: int = loop(%n.1, %3, %2) {(%i.5: int, %acc.6: int)
    %7: int = aten::add.int(%acc.6, %i.5) at "net.py":3:9
    yield %3, %7
  }
  %8: Optional[Tensor] = if(%3) {()
    yield %x.0
  } {()
    %9: NoneType = constant None()
    yield %9
  }
  %10: float = constant 0.1()
  %11: complex = constant complex -0.0 inf()
  %12: str = constant "a\n\"\u{1}"()
  %13: Dict[str, List[class "C"]] = dict()
  %14: bool = isinstance int List[float](%8)
  prim::Print(%12)
  %15: Tuple[int, Tensor] = tuple(%4, %x.0)
  return %15
}
"#;

#[test]
fn text_reads_back() {
    let program = parse(TEXT).unwrap();
    assert_eq!(program.to_string(), TEXT);
    assert_eq!(parse(&program.to_string()).unwrap(), program);
}

#[test]
fn values_are_seen_in_their_regions_only() {
    let error = parse(&TEXT.replace("return %15", "return %7")).unwrap_err();
    assert_eq!(error.message(), "the value %7 is used in \"__torch__.f\" where it is not defined");
}

#[test]
fn cut_texts_are_errors() {
    for end in 1..TEXT.len() - 2 {
        assert!(parse(&TEXT[..end]).is_err(), "{}", &TEXT[..end]);
    }
}

#[test]
fn deep_nesting_is_an_error() {
    let text = format!("func \"f\"(%0: {}int", "List[".repeat(100_000));
    assert!(parse(&text).unwrap_err().message().contains("nested"));
}
