//! [`Lazy`]: a tensor whose value is computed when Rust code asks for it.
//!
//! A [`Follower`] is in force on a thread while [`follow`] runs a function. Operations then go to the follower,
//! which says what they return, and buffers and random generators tell it of their uses. fx-core knows nothing
//! else of a follower; `fx::compile` is the one that there is.
//!
//! A follower may make a tensor of one call that of a later call, once nobody else has it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::tensor::Repr;
use crate::{Arg, Array, Buffer, Dim, Error, Given, Op, Result, SourceLoc, Tensor, TensorType, Value, err};

/// A tensor of known type whose value is computed when Rust code asks for it.
pub struct Lazy {
    run: AtomicU64,
    index: u32,
    /// The value of a tensor that was made with it.
    ready: Option<Arc<Array>>,
    /// The type of a tensor that was made without its value.
    ty: Option<Arc<TensorType>>,
    /// The type of a tensor that was made with its value, when somebody asks.
    found_type: OnceLock<Arc<TensorType>>,
    /// The type that Rust code sees, if its sizes are observed; each read of the value is then told.
    watched: Option<Arc<TensorType>>,
    link: Option<Arc<Link>>,
    value: OnceLock<Result<Arc<Array>>>,
    was_read: AtomicBool,
}

/// Where the tensors of a call find its follower while the call lasts.
#[derive(Default)]
pub struct Link(Mutex<Option<Weak<dyn Follower>>>);

impl Link {
    /// Enters the follower of a call, or `None` at its end.
    pub fn set(&self, follower: Option<Weak<dyn Follower>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = follower;
    }

    fn follower(&self) -> Option<Arc<dyn Follower>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.upgrade()
    }
}

impl Lazy {
    /// Makes a tensor that a follower computes. Its run and index tell it from all others.
    pub fn pending(link: Arc<Link>, run: u64, index: u32, ty: Arc<TensorType>) -> Lazy {
        Lazy { ty: Some(ty), link: Some(link), ..Lazy::new(run, index) }
    }

    /// Lets the follower watch the tensor: Rust code sees this type, and the follower learns of each read of the
    /// value.
    pub fn watched(self, ty: TensorType, link: Arc<Link>) -> Lazy {
        Lazy { watched: Some(Arc::new(ty)), link: Some(link), ..self }
    }

    /// Makes a tensor that was made as pending the one of another run. Returns `false`, and changes nothing, if
    /// somebody else has it.
    #[inline]
    pub fn renew(self: &mut Arc<Self>, run: u64, ty: &Arc<TensorType>) -> bool {
        let is_like = self.ty.as_ref().is_some_and(|other| Arc::ptr_eq(other, ty));
        let is_new = self.watched.is_none() && self.value.get().is_none() && !self.was_read();
        if !is_like || !is_new {
            return Lazy::renew_whole(self, run, ty);
        }
        if Arc::strong_count(self) != 1 {
            return false;
        }
        // Whatever other threads did with the tensor before they dropped it has happened.
        fence(Ordering::Acquire);
        self.run.store(run, Ordering::Relaxed);
        true
    }

    fn renew_whole(this: &mut Arc<Self>, run: u64, ty: &Arc<TensorType>) -> bool {
        let Some(lazy) = Arc::get_mut(this) else { return false };
        let (index, link) = (lazy.index, lazy.link.take());
        *lazy = Lazy { ty: Some(ty.clone()), link, ..Lazy::new(run, index) };
        true
    }

    /// Makes a tensor that has its value. Its run and index tell it from all others, also from those of the
    /// same memory.
    pub fn ready(run: u64, index: u32, value: Arc<Array>) -> Lazy {
        Lazy { ready: Some(value), ..Lazy::new(run, index) }
    }

    fn new(run: u64, index: u32) -> Lazy {
        Lazy {
            run: AtomicU64::new(run),
            index,
            ready: None,
            ty: None,
            found_type: OnceLock::new(),
            watched: None,
            link: None,
            value: OnceLock::new(),
            was_read: AtomicBool::new(false),
        }
    }

    /// Returns the run of a segment that makes this tensor.
    #[inline]
    pub fn run(&self) -> u64 {
        self.run.load(Ordering::Relaxed)
    }

    /// Returns the number of this tensor in its run.
    #[inline]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the dtype and shape.
    pub fn ty(&self) -> &Arc<TensorType> {
        self.ty.as_ref().unwrap_or_else(|| {
            self.found_type.get_or_init(|| match &self.ready {
                Some(value) => Arc::new(TensorType::new(value.dtype(), value.shape())),
                None => unreachable!("a tensor without a value is made with its type"),
            })
        })
    }

    /// Returns the dtype and shape for Rust code; the sizes of a watched tensor are observed.
    pub fn seen_type(&self) -> &Arc<TensorType> {
        self.watched.as_ref().unwrap_or_else(|| self.ty())
    }

    /// Returns the value, if it is there already. Fails with the error of the operation that should make it.
    #[inline]
    pub fn known(&self) -> Option<Result<&Arc<Array>>> {
        match &self.ready {
            Some(value) => Some(Ok(value)),
            None => self.value.get().map(|value| value.as_ref().map_err(Error::clone)),
        }
    }

    /// Enters the value; a second value is ignored.
    pub fn set(&self, value: Result<Arc<Array>>) {
        let _ = self.value.set(value);
    }

    /// Returns whether somebody asked for the value.
    #[inline]
    pub fn was_read(&self) -> bool {
        self.was_read.load(Ordering::Relaxed)
    }

    /// Returns the value, which is computed first if it is not there. Fails with the error of the operation
    /// that should make it.
    pub fn force(&self, what: &'static str, at: Option<SourceLoc>) -> Result<&Arc<Array>> {
        self.was_read.store(true, Ordering::Relaxed);
        let is_pending = self.known().is_none();
        if (is_pending || self.watched.is_some())
            && let Some(follower) = self.link.as_ref().and_then(|link| link.follower())
        {
            if is_pending {
                follower.compute(self, what, at.clone());
            }
            if self.watched.is_some() {
                follower.read(self, what, at);
            }
        }
        match self.known() {
            Some(value) => value,
            None => Err(err!(
                Trace,
                "this tensor has no value: the call that should compute it has not ended well"
            )
            .help("return tensors from the compiled function, or read them inside of it")),
        }
    }
}

impl fmt::Debug for Lazy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.ty(), f)
    }
}

/// An operation that is applied.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The row.
    pub op: Op,
    /// Whether it is written as a method.
    pub method: bool,
    /// The positional arguments; none is an error or a symbol.
    pub args: &'a [Value],
    /// The keyword arguments; none is an error or a symbol.
    pub kwargs: &'a [(&'a str, Value)],
    /// The line of the user's program.
    pub source: &'a SourceLoc,
}

/// What happens to the operations of a function that is followed.
pub trait Follower: Send + Sync {
    /// Applies an operation. Fails if the arguments do not fit it.
    fn apply(&self, call: Call<'_>) -> Result<Value>;

    /// Applies an operation that gives one tensor, if it is the one that is expected next. Otherwise, nothing has
    /// happened. The arguments may also be errors or symbols, which are never expected.
    fn apply_expected(&self, op: Op, method: bool, args: &[Given<'_>], source: &SourceLoc) -> Option<Tensor>;

    /// Computes the value of a tensor, on any thread, and enters it.
    fn compute(&self, lazy: &Lazy, what: &'static str, at: Option<SourceLoc>);

    /// Learns that Rust code reads the value of a watched tensor, on any thread.
    fn read(&self, lazy: &Lazy, what: &'static str, at: Option<SourceLoc>);

    /// Returns the value of a size of watched tensors for code that cannot keep its expression.
    fn size(&self, size: &Dim) -> Option<i64>;

    /// Returns what takes the place of a buffer's value, such as what the call has set.
    fn read_buffer(&self, buffer: &Buffer) -> Option<Tensor>;

    /// Sets a buffer when the call has succeeded. Fails if the type is another one.
    fn write_buffer(&self, buffer: &Buffer, value: &Tensor) -> Result<()>;

    /// Learns that a buffer is stored to at once, whatever the call has set.
    fn forget_buffer(&self, buffer: &Buffer);

    /// Learns that Rust code is about to use a random generator.
    fn before_random(&self);

    /// Computes at once what is pending, at the user's wish.
    fn cut(&self, at: SourceLoc);
}

pub use crate::dim::observed::{Observer, Relation, SizeUse, with_observer};

thread_local! {
    static FOLLOWER: RefCell<Option<Arc<dyn Follower>>> = const { RefCell::new(None) };
    static IS_FOLLOWING: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether a function is followed on this thread.
#[inline]
pub fn is_following() -> bool {
    IS_FOLLOWING.get()
}

/// Returns the follower of this thread, unless it is suspended.
pub fn follower() -> Option<Arc<dyn Follower>> {
    if is_following() { FOLLOWER.with_borrow(Clone::clone) } else { None }
}

/// Restores the follower before, also after a panic.
struct Restore {
    follower: Option<Arc<dyn Follower>>,
    was_following: bool,
}

impl Drop for Restore {
    fn drop(&mut self) {
        FOLLOWER.replace(self.follower.take());
        IS_FOLLOWING.set(self.was_following);
    }
}

/// Runs `f` while `follower` gets the operations of this thread; also a panic restores the one before.
pub fn follow<T>(follower: Arc<dyn Follower>, f: impl FnOnce() -> T) -> T {
    let before = FOLLOWER.replace(Some(follower));
    let _restore = Restore { follower: before, was_following: IS_FOLLOWING.replace(true) };
    f()
}

/// Runs `f` as if nobody followed: operations on values compute at once.
pub fn without_following<T>(f: impl FnOnce() -> T) -> T {
    struct Resume(bool);
    impl Drop for Resume {
        fn drop(&mut self) {
            IS_FOLLOWING.set(self.0);
        }
    }
    let _resume = Resume(IS_FOLLOWING.replace(false));
    f()
}

/// Gives an operation to the follower of this thread. `None` if a symbol of a trace is among the arguments.
/// Fails with the first error among them, or as the follower does.
pub(crate) fn apply(
    op: Op,
    method: bool,
    args: &[Value],
    kwargs: &[(&str, Value)],
    source: &SourceLoc,
) -> Option<Result<Value>> {
    let follower = Taken::new()?;
    let mut failure: Option<Error> = None;
    let mut has_symbol = false;
    let mut see = |arg: &Value| match arg {
        Arg::Leaf(Tensor(Repr::Failed(error))) | Arg::Failed(error) if failure.is_none() => {
            failure = Some(error.clone());
        }
        Arg::Leaf(Tensor(Repr::Proxy(_))) => has_symbol = true,
        _ => {}
    };
    for arg in args.iter().chain(kwargs.iter().map(|(_, arg)| arg)) {
        if arg.depth() > 0 { arg.walk(&mut see) } else { see(arg) }
    }
    match failure {
        _ if has_symbol => None,
        Some(error) => Some(Err(error)),
        None => Some(follower.apply(Call { op, method, args, kwargs, source })),
    }
}

/// Gives an operation to the follower of this thread, if it is the one that is expected next.
#[inline]
pub(crate) fn apply_expected(op: Op, method: bool, args: &[Given<'_>], source: &SourceLoc) -> Option<Tensor> {
    FOLLOWER.with_borrow(|follower| follower.as_ref()?.apply_expected(op, method, args, source))
}

/// The follower of this thread, out of its place: it is put back at the end, also after a panic. What it calls
/// meanwhile is not followed, so nobody looks for it.
struct Taken(Option<Arc<dyn Follower>>);

impl Taken {
    fn new() -> Option<Taken> {
        is_following().then(|| Taken(FOLLOWER.take())).filter(|taken| taken.0.is_some())
    }
}

impl std::ops::Deref for Taken {
    type Target = dyn Follower;
    fn deref(&self) -> &(dyn Follower + 'static) {
        match &self.0 {
            Some(follower) => &**follower,
            None => unreachable!("it is taken out when it is dropped only"),
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        FOLLOWER.set(self.0.take());
    }
}

/// Tells the follower of this thread that Rust code is about to use a random generator.
pub(crate) fn before_random() {
    if let Some(follower) = follower() {
        follower.before_random();
    }
}

impl Tensor {
    /// Makes a tensor of a lazy one.
    #[doc(hidden)]
    #[inline]
    pub fn from_lazy(lazy: Arc<Lazy>) -> Tensor {
        Tensor(Repr::Lazy(lazy))
    }

    /// Returns the lazy tensor, if this is one.
    #[doc(hidden)]
    #[inline]
    pub fn as_lazy(&self) -> Option<&Arc<Lazy>> {
        match &self.0 {
            Repr::Lazy(lazy) => Some(lazy),
            _ => None,
        }
    }

    /// Makes a tensor of a shared array.
    #[doc(hidden)]
    #[inline]
    pub fn from_shared(array: Arc<Array>) -> Tensor {
        Tensor(Repr::Value(array))
    }

    /// Returns the shared array, if the value is there.
    #[doc(hidden)]
    #[inline]
    pub fn shared_array(&self) -> Option<&Arc<Array>> {
        match &self.0 {
            Repr::Value(array) => Some(array),
            Repr::Lazy(lazy) => lazy.known()?.ok(),
            _ => None,
        }
    }

    /// Returns the tensor with its value: a lazy one is computed.
    #[doc(hidden)]
    pub fn settled(self) -> Tensor {
        match self.0 {
            Repr::Lazy(lazy) => match lazy.force("the value", None) {
                Ok(array) => Tensor(Repr::Value(array.clone())),
                Err(error) => Tensor(Repr::Failed(error)),
            },
            repr => Tensor(repr),
        }
    }
}
