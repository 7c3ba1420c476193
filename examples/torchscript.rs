//! A program of PyTorch with loops and state, run without PyTorch.
//!
//! `torch.jit.save` wrote the two archives; see tests/data/torchscript. `LoopRNN` runs an LSTM over the steps of a
//! sequence, appends each result to a list, and takes and returns its state. `Counter` keeps its state in itself:
//! a tensor that it changes in place, a number, and a list.
//!
//! `cargo run --release --example torchscript`
#![allow(clippy::print_stdout, reason = "an example prints what it found")]

use std::path::{Path, PathBuf};

use fx::prelude::*;
use fx::script::AtenOperators;
use fx::torchscript::load::Session;
use fx::torchscript::value::{Value, shown};
use fx::{Array, Generator, with_generator};

fn main() -> Result<()> {
    streaming()?;
    counting()
}

/// Returns the path of an archive.
fn archive(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torchscript").join(name)
}

/// Runs a sequence as a whole, and in three pieces, each with the state that the one before returned.
fn streaming() -> Result<()> {
    // Reading an archive runs nothing of it. Printed, it is the tree of its modules and the code of its methods.
    let program = fx::import::torchscript(archive("sc_loop_rnn.pt"))?;
    let listing = program.to_string();
    println!("{}\n", listing.lines().take(12).collect::<Vec<_>>().join("\n"));

    // A session compiles the code for the virtual machine. Operators on tensors are the operations of fx.
    let operators = AtenOperators::new(fx::registry());
    let mut rnn = Session::new(program, &operators)?;

    let x = with_generator(&Generator::seeded(0), || fx::randn([2, 9, 3]));
    let steps = |from: i64, to: i64| -> Result<Value> { Value::of(&x.narrow(1, from, to - from)) };
    // forward(x, state: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tuple[Tensor, Tensor]]
    let (whole, _): (Tensor, (Tensor, Tensor)) = rnn.call("forward", vec![steps(0, 9)?], vec![])?.to()?;

    let mut pieces = Vec::new();
    let mut state = Value::None;
    for (from, to) in [(0, 2), (2, 7), (7, 9)] {
        let result = rnn.call("forward", vec![steps(from, to)?, state], vec![])?;
        let [outputs, next] = &result.to_items()?[..] else { return Err(fx::err!(Check, "expected a pair")) };
        pieces.push(outputs.to::<Tensor>()?);
        state = next.clone();
    }
    let joined = fx::cat(pieces, 1);
    let difference = (&joined - &whole).abs().max().to_vec::<f32>()?[0];
    println!("9 steps at once and in pieces of 2, 5 and 2: the greatest difference is {difference:.1e}\n");
    assert!(difference < 1e-6);
    Ok(())
}

/// Calls methods of a program that counts its calls.
fn counting() -> Result<()> {
    let operators = AtenOperators::new(fx::registry());
    let mut counter = Session::new(fx::import::torchscript(archive("sc_state.pt"))?, &operators)?;
    for rows in [2, 3] {
        let x = Value::tensor(Array::zeros(DType::F32, &[rows, 3])?)?;
        counter.call("forward", vec![x], vec![])?;
    }
    // stats() -> Tuple[Tensor, Tensor, int, List[int]]: calls, a running mean, rows, and the rows of each call
    let stats = counter.call("stats", vec![], vec![])?.to_items()?;
    println!("{} rows in calls of {}", shown(&stats[2])?, shown(&stats[3])?);

    // A call that fails leaves everything as it was, also what it had changed before it failed.
    let wrong = Value::tensor(Array::zeros(DType::F32, &[7, 4])?)?;
    let error = counter.call("forward", vec![wrong], vec![]).unwrap_err();
    println!("a call with 4 columns: {error}");
    let after = counter.call("stats", vec![], vec![])?.to_items()?;
    println!("{} rows in calls of {}", shown(&after[2])?, shown(&after[3])?);
    assert_eq!(shown(&after[3])?, shown(&stats[3])?);
    Ok(())
}
