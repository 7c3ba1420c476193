//! The proc macros of fx: `#[derive(Module)]`, `#[derive(Tree)]`, `#[fx::forward]`, `#[fx::script]` and
//! `#[fx::wrap]`.
//!
//! A macro parses, checks and calls: what it emits are calls of functions in `fx::__private`, which is the
//! only path it uses. Where the library has another name, `crate = path` gives it:
//! `#[module(crate = fx_core)]`, `#[fx::wrap(crate = fx_core)]`. A mistake is reported at the token of the
//! user's that makes it, with what to do.

mod compile;
mod forward;
mod function;
mod module;
mod options;
mod script;
mod signature;
mod tree;
mod wrap;

use proc_macro::TokenStream;

/// Makes a type a module: its parameters, buffers and sub-modules are its fields, by name.
///
/// ```ignore
/// #[derive(Module)]
/// struct Block {
///     attention: Attention,                         // "attention"
///     #[module(rename = "mlp.0")] up: Linear,       // "mlp.0", as in the weights
///     #[module(rename = "mlp.2")] down: Linear,
///     scale: Parameter,
///     #[module(skip)] heads: usize,                 // plain data
///     #[module(training)] training: bool,           // set by `train` and `eval`
/// }
/// ```
///
/// Structs, tuple structs (fields are named `"0"`, `"1"`) and enums (the fields of the active variant) are
/// taken, also generic ones. A field may be a `Parameter`, a `Buffer`, a `Tensor` (a constant), a module, and
/// an `Option`, `Vec`, array, map or tuple of these.
///
/// It implements `Module`, `Display` (the tree of modules), `FromWeights` (for structs all of whose fields
/// weights can make), and `Clone`. So a module does not derive `Clone` itself; the two would conflict.
///
/// Options of the type:
/// - `leaf`: a trace records a call as one node and does not look inside.
/// - `impure`: a call has an effect, so that it stays even if its result is not used; `impure = "function"`:
///   it has one if this `fn(&Self) -> bool` says so.
/// - `repr = "function"`: a `fn(&Self) -> String` that describes the settings in the printed tree.
/// - `no_load`: weights alone do not make the type, because a skipped field is a setting without which it
///   would compute something else; or `FromWeights` is written by hand.
/// - `crate = path`: where fx is, if it is not `::fx`.
///
/// Options of a field:
/// - `skip`: plain data. Its type needs `Clone`; if the struct is made from weights, it is the type's default.
/// - `rename = "name"`: the name in paths. It may be dotted.
/// - `training`: the `bool` that `set_training` sets. It is skipped.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    module::derive(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct a structure that traced functions may take and return.
///
/// ```ignore
/// #[derive(Tree)]
/// struct Prediction { logits: Tensor, hidden: Vec<Tensor> }
/// ```
///
/// A struct with named fields is a dictionary of them in order, a tuple struct is a tuple, a unit struct is
/// `()`. Every field must be a `Tree`. An enum is refused: its structure would depend on its value.
///
/// `#[tree(crate = path)]` says where fx is, if it is not `::fx`.
#[proc_macro_derive(Tree, attributes(tree))]
pub fn derive_tree(input: TokenStream) -> TokenStream {
    tree::derive(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a module callable: goes on the `impl` block with its method `forward`.
///
/// ```ignore
/// #[fx::forward]
/// impl Mlp {
///     fn forward(&self, x: &Tensor, mask: Option<&Tensor>) -> Tensor {
///         self.fc2.call(&self.fc1.call(x).relu())
///     }
/// }
/// ```
///
/// It adds `call`, with the arguments and visibility of `forward`: modules call one another by it, so that a
/// trace knows whose node is whose, and a leaf becomes one node. And it implements `Forward`, by which a
/// graph calls the module; the names of the arguments become the names of the graph's inputs.
///
/// An argument is `&T`, `&[T]`, `&str`, `Option` of one of these, or `T`, where `T` is a `Tree`; so is the
/// result, which may be a `Result` and must own its data. `forward` takes `&self` and is not generic itself,
/// but the block may be.
///
/// An error has the line of `forward` on which it happened. With `#[track_caller]` on `forward` it has the line
/// of the call: so do the layers of `fx::nn`.
///
/// `#[fx::forward(script)]` makes the body of `forward` a [script](macro@script). `crate = path` says where fx
/// is, if it is not `::fx`.
#[proc_macro_attribute]
pub fn forward(options: TokenStream, item: TokenStream) -> TokenStream {
    forward::expand(options.into(), item.into()).into()
}

/// Captures the control flow of a function that depends on tensors: `if`, `while`, `loop` and `for`.
///
/// ```ignore
/// #[fx::script]
/// fn settle(x: &Tensor) -> Tensor {
///     let mut x = x.clone();
///     while x.abs().max().gt(1.0) {
///         x = x * 0.5;
///     }
///     x
/// }
/// ```
///
/// The type of a condition decides. A `bool` runs natively, also while a function is traced. A tensor that is a
/// symbol becomes `cond`, `while_loop` or `for_loop` in the graph. A tensor that has a value chooses one side,
/// so an eager call computes the same. `for` records a loop over a range of sizes, `0..x.dim(0)`, and over the
/// rows of a tensor; other iterators run natively. `match` and `if let` are always of the host.
///
/// `break`, `continue`, `return` and `?` work in all of them. A variable that a recorded branch or loop changes
/// must be a `Tree` whose tensors change only: numbers have one value while a function is traced. The result is
/// a `Tree`, too.
///
/// It goes on functions and methods, also on `forward` within an [`macro@forward`] block. `crate = path` says
/// where fx is, if it is not `::fx`.
#[proc_macro_attribute]
pub fn script(options: TokenStream, item: TokenStream) -> TokenStream {
    script::expand(options.into(), item.into()).into()
}

/// Compiles the tensor work of a function, as [`fx::compile`] does for a closure: the Rust code runs on every
/// call, the operations between its reads of values run as programs.
///
/// ```ignore
/// #[fx::compile]
/// fn settle(x: &Tensor, rate: f64) -> fx::Result<Tensor> {
///     let mut x = x.clone();
///     while x.abs().max().item::<f32>()? > 1.0 {
///         x = x * rate;
///     }
///     Ok(x)
/// }
///
/// let y = settle(&x, 0.5)?;
/// println!("{}", settle::compiled().explain());
/// ```
///
/// The function keeps its signature, and the names of its arguments are those in messages. Arguments and result
/// are as in [`macro@forward`]. `settle::compiled()` is the compiled function: it explains, counts and resets.
/// Within another compiled function, or a trace, the function is part of that.
///
/// Options:
/// - `pure`: the function has no effects, and depends on its arguments only, so its Rust code need not run for a
///   call that is like an earlier one. What evidently breaks this promise is refused: a print, a clock, a file,
///   a static that changes. `verify = 100` checks each hundredth call of a kind.
/// - `whole`: a read of a value is an error, so the function is one graph.
/// - `backend = "name"`: who runs the graphs.
/// - `crate = path`: where fx is, if it is not `::fx`.
///
/// [`fx::compile`]: ../fx/fn.compile.html
#[proc_macro_attribute]
pub fn compile(options: TokenStream, item: TokenStream) -> TokenStream {
    compile::expand(options.into(), item.into()).into()
}

/// Makes a function one node: a trace records a call of it and does not look inside.
///
/// ```ignore
/// /// Divides by the root of the mean of squares.
/// #[fx::wrap]
/// fn my_norm(x: &Tensor, eps: f64) -> Tensor {
///     x * ((x * x).mean(-1, true) + eps).rsqrt()
/// }
/// ```
///
/// The function becomes an operation with a row of its own, `my_norm::OP`, named like the function: the
/// arguments are its parameters, the doc comment is its documentation, and its shapes are found by tracing
/// the body. Arguments and result are as in [`macro@forward`]. It may stand inside another function. The row
/// hangs on a type named like the function, so no module or type of that name can stand beside it.
///
/// Options:
/// - `name = "other"`: the name of the operation.
/// - `effects = random`, `effects = host`: what it does besides computing its result, so that no pass drops
///   or moves it.
/// - `crate = path`: where fx is, if it is not `::fx`.
#[proc_macro_attribute]
pub fn wrap(options: TokenStream, item: TokenStream) -> TokenStream {
    wrap::expand(options.into(), item.into()).into()
}
