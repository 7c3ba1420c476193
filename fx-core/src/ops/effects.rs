//! Effects: printing, checking, updating buffers. Every pass keeps them and their order.

use std::cell::RefCell;
use std::io::Write;

use crate::{Arg, Array, Category, Op, Result, TypeTree, Value, bail, err, functions};

functions! {
    pub(super) static EFFECTS;

    /// Prints `label` and the value to standard output when it runs, and returns the value.
    #[effects = HOST]
    print(x: Any, label: Str = "") -> Value = infer_print, eval_print;

    /// Fails with `message` when it runs unless the condition, a bool or a tensor of one element, holds;
    /// returns the condition.
    #[effects = HOST]
    check(condition: Any, message: Str = "a check failed") -> Value = infer_check, eval_check;

    /// Sets the buffer at `path`. The update becomes visible when the call of the graph has succeeded.
    #[effects = STATE]
    set_buffer(path: Str, value: Tensor) -> Value = infer_set, eval_set;

    /// Sets the state at `path`: a number, text, a list or anything else that is no single tensor. The update
    /// becomes visible when the call of the graph has succeeded.
    #[effects = STATE]
    set_state(path: Str, value: Any) -> Value = infer_set_state, eval_set_state;
}

/// Returns whether an operation stores a value at the end of the call: that of a buffer or of state.
pub fn is_store(op: Op) -> bool {
    op == set_buffer::OP || op == set_state::OP
}

fn infer_print(x: &TypeTree, _label: &str) -> Result<TypeTree> {
    Ok(x.clone())
}

thread_local! {
    /// What is printed by this thread, if it is not to be written out.
    static PRINTED: RefCell<Option<Vec<(String, Value)>>> = const { RefCell::new(None) };
}

/// Runs `f` and returns the values that it printed on this thread; they are not written to standard output.
pub fn with_printed<T>(f: impl FnOnce() -> T) -> (T, Vec<(String, Value)>) {
    struct Restore(Option<Vec<(String, Value)>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            PRINTED.set(self.0.take());
        }
    }
    let restore = Restore(PRINTED.replace(Some(Vec::new())));
    let result = f();
    let printed = PRINTED.take().unwrap_or_default();
    drop(restore);
    (result, printed)
}

fn eval_print(x: &Value, label: &str) -> Result<Value> {
    let is_captured = PRINTED.with_borrow_mut(|printed| match printed {
        Some(printed) => {
            printed.push((label.to_owned(), x.clone()));
            true
        }
        None => false,
    });
    if is_captured {
        return Ok(x.clone());
    }
    let mut out = std::io::stdout().lock();
    let separator = if label.is_empty() { "" } else { " " };
    writeln!(out, "{label}{separator}{x}").map_err(|error| err!(Io, "cannot print: {error}"))?;
    Ok(x.clone())
}

fn infer_check(condition: &TypeTree, _message: &str) -> Result<TypeTree> {
    Ok(condition.clone())
}

fn eval_check(condition: &Value, message: &str) -> Result<Value> {
    let holds = match condition {
        Arg::Leaf(tensor) => tensor.array()?.iter_scalars().all(|x| x.to_bool()),
        Arg::Bool(_) | Arg::Int(_) => {
            condition.scalar().is_some_and(|x| x.category() != Category::Float && x.to_bool())
        }
        other => bail!(Argument, "a condition is a bool or a tensor, got {}", other.kind_name()),
    };
    if !holds {
        bail!(Check, "{message}");
    }
    Ok(condition.clone())
}

fn infer_set(_path: &str, _value: &crate::TensorType) -> Result<TypeTree> {
    Ok(Arg::None)
}

/// Only a graph module has buffers; its interpreter performs the update.
fn eval_set(path: &str, _value: &Array) -> Result<Value> {
    bail!(Graph, "the buffer {path:?} is updated outside of a graph module")
}

fn infer_set_state(_path: &str, _value: &TypeTree) -> Result<TypeTree> {
    Ok(Arg::None)
}

/// Only a graph module has state; its interpreter performs the update.
fn eval_set_state(path: &str, _value: &Value) -> Result<Value> {
    bail!(Graph, "the state {path:?} is updated outside of a graph module")
}
