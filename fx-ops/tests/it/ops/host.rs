//! The rows of text, lists, dictionaries and optional values against results that Python computed
//! (`host_cases.txt`), and their types against their values.

use fx_core::ops::join_types;
use fx_core::{Arg, Dim, ErrorKind, Graph, Symbol, Tensor, Type, TypeTree, Value};

/// Reads a call of a row, or a value if there is no row.
fn parsed(text: &str) -> Graph {
    let text = match text.contains("(") && text.starts_with(|c: char| c.is_alphabetic()) {
        true => format!("graph main() {{\n  %r = {text}\n  return %r\n}}\n"),
        false => format!("graph main() {{\n  return {text}\n}}\n"),
    };
    Graph::parse(&text, &fx_ops::registry()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn literal(text: &str) -> Value {
    parsed(text).output().try_flat_map(&mut |_| panic!("{text} has a node")).unwrap()
}

/// A type that says no more than how a value is built: literals become general, lists are of unknown length.
fn general(value: &Value) -> Option<TypeTree> {
    Some(match value {
        Arg::List(items) => {
            let types = items.iter().map(general).collect::<Option<Vec<_>>>()?;
            let (first, rest) = types.split_first()?;
            rest.iter().try_fold(first.clone(), |joined, ty| join_types(&joined, ty)).ok()?.list_of()
        }
        Arg::Tuple(items) => Arg::tuple(items.iter().map(general).collect::<Option<Vec<_>>>()?),
        other => other.try_flat_map(&mut |_: &Tensor| unreachable!("no tensors")).ok()?.general(),
    })
}

#[test]
fn results_are_those_of_python() {
    let mut n = 0;
    for line in include_str!("host_cases.txt").lines().filter(|line| !line.starts_with('#')) {
        let (call, expected) = line.rsplit_once(") = ").unwrap();
        let graph = parsed(&format!("{call})"));
        let (_, node) = graph.nodes().find(|(_, node)| node.op().is_some()).unwrap();
        let op = node.op().unwrap();
        let bound = op.bind(node.args(), node.kwargs()).unwrap_or_else(|error| panic!("{line}: {error}"));
        let args: Vec<Value> =
            bound.iter().map(|arg| arg.try_flat_map(&mut |_| panic!("{line}")).unwrap()).collect();
        let types: Vec<TypeTree> =
            args.iter().map(|arg| arg.try_flat_map(&mut |_: &Tensor| unreachable!()).unwrap()).collect();
        let general: Option<Vec<TypeTree>> = args.iter().map(general).collect();
        let result = (op.eval)(&args);
        if let Some(eval) = op.eval_in_place {
            let again = eval(&mut args.clone());
            let written = |result: &fx_core::Result<Value>| match result {
                Ok(value) => value.to_string(),
                Err(error) => error.to_string(),
            };
            assert_eq!(written(&again), written(&result), "{line}");
        }
        match result {
            Ok(got) => {
                assert!(expected != "error", "{line}: got {got}");
                let expected = literal(expected);
                assert!(got.same_literal(&expected), "{line}: got {got}");
                let of_value: TypeTree = got.try_flat_map(&mut |_: &Tensor| unreachable!()).unwrap();
                for types in [Some(types), general].into_iter().flatten() {
                    let Ok(Some(ty)) = op.infer(&types) else { continue };
                    let joined = join_types(&ty, &of_value).unwrap_or_else(|e| panic!("{line}: {ty}: {e}"));
                    assert_eq!(
                        joined.general().to_string(),
                        ty.general().to_string(),
                        "{line}: {of_value} is no {ty}"
                    );
                }
            }
            Err(error) => {
                assert_eq!(expected, "error", "{line}: {error}");
                assert!(matches!(error.kind(), ErrorKind::Argument | ErrorKind::Index), "{line}: {error}");
            }
        }
        n += 1;
    }
    assert!(n > 3000, "{n} cases");
}

fn inferred(name: &str, args: &[TypeTree]) -> String {
    let registry = fx_ops::registry();
    match registry.get(name).unwrap().infer(args) {
        Ok(Some(ty)) => ty.to_string(),
        Ok(None) => "unknown".to_owned(),
        Err(error) => error.message().to_owned(),
    }
}

#[test]
fn lists_of_unknown_length_keep_the_type_of_their_items() {
    let ints = || Arg::Leaf(Type::Int).list_of();
    assert_eq!(inferred("list_push", &[ints(), Arg::Int(3)]), "list(int)");
    assert_eq!(inferred("list_push", &[ints(), Arg::None]), "list(optional(int))");
    assert_eq!(
        inferred("list_push", &[ints(), Arg::Leaf(Type::Str)]),
        "expected values of one type, got int and str"
    );
    assert_eq!(inferred("list_get", &[ints(), Arg::Leaf(Type::Int)]), "int");
    assert_eq!(inferred("list_get", &[Arg::list([Arg::Int(1), Arg::Int(2)]), Arg::Leaf(Type::Int)]), "int");
    assert_eq!(inferred("list_pop", &[ints(), Arg::Int(-1)]), "(int, list(int))");
    assert_eq!(inferred("list_slice", &[ints(), Arg::Int(1), Arg::None, Arg::Int(1)]), "list(int)");
    let n = Arg::dim(Dim::symbol(Symbol::new("n")));
    assert_eq!(inferred("list_repeat", &[Arg::list([Arg::Float(0.0)]), n]), "list(float)");
    assert_eq!(inferred("list_len", &[Arg::list([Arg::Int(1)])]), "1");
}

#[test]
fn dictionaries_of_unknown_keys_keep_the_types_of_entries() {
    let d = || Arg::tuple([Arg::Leaf(Type::Str), Arg::Leaf(Type::Float)]).list_of();
    assert_eq!(inferred("dict_set", &[d(), Arg::str("a"), Arg::Float(1.0)]), "list((str, float))");
    assert_eq!(inferred("dict_get", &[d(), Arg::str("a")]), "float");
    assert_eq!(inferred("dict_get_or", &[d(), Arg::str("a"), Arg::None]), "optional(float)");
    assert_eq!(inferred("dict_keys", &[d()]), "list(str)");
    assert_eq!(inferred("dict_contains", &[d(), Arg::str("a")]), "boolean");
}
