//! The three table macros. Each row gives a documented function, a documented method where there is a first
//! tensor, the schema, and a handle `name::OP`; see the example in fx-ops.

/// Defines operations by a shape rule and a kernel, as methods and functions.
///
/// ```ignore
/// kernels! {
///     /// Reductions.
///     pub trait Reduce; pub static REDUCE;
///
///     /// Sums over `dim`, or over all axes.
///     #[class = Reduce]
///     sum(x: Tensor, dim: Axes = None, keepdim: Bool = false; dtype: OptDType = None) -> Tensor = infer::sum,
/// kernel::sum; }
/// ```
/// Parameters before `;` are those of the Rust function; the others can be given by name with
/// [`call!`](crate::call). The kernel and the shape rule take all of them, as
/// [`ParamKind`](crate::op::ParamKind) says. `#[class = ..]`, `#[effects = ..]`, `#[flops = ..]`, `#[rows = ..]`
/// and `#[in_place = ..]`, in this order, set the fields of the row; see [`Flops`](crate::op::Flops) and
/// [`OpDef`](crate::OpDef). A view names the rule of its windows: `#[class = View(rule)]`; see
/// [`window`](crate::window).
#[macro_export]
macro_rules! kernels {
    (
        $(#[$tdoc:meta])*
        pub trait $trait:ident; pub static $table:ident;
        $(
            $(#[doc = $doc:literal])+
            $(#[class = $class:ident $(($windows:path))?])?
            $(#[effects = $effects:ident])?
            $(#[flops = $flops:expr])?
            $(#[rows = $rows:path])?
            $(#[in_place = $in_place:path])?
            $name:ident($x:ident: Tensor $(, $p:ident: $k:ident $(= $d:expr)?)* $(; $($q:ident: $l:ident = $e:expr),*)?) $(-> $ret:ty)? = $infer:expr, $kernel:expr;
        )*
    ) => {
        $(
            $crate::__op_row! {
                [$($doc)+] [$($class $(($windows))?)?] [$($effects)?] [$($flops)?] [$($rows)?] [$($in_place)?] [true] $name
                ($x: Tensor $(, $p: $k $(= $d)?)*) ($($($q: $l = $e),*)?) [$($ret)?] $infer, $kernel
            }
        )*
        $(#[$tdoc])*
        pub trait $trait: ::core::convert::AsRef<$crate::Tensor> {
            $(
                $(#[doc = $doc])+
                #[allow(clippy::too_many_arguments, reason = "the parameters are those of the schema")]
                #[track_caller]
                fn $name(&self $(, $p: impl $crate::ToArg<$crate::op::kind::$k>)*) -> $crate::__ret!($($ret)?) {
                    $crate::trace::apply_given($name::OP, true, [$crate::Given::Tensor(self.as_ref()) $(, $p.given())*])
                }
            )*
        }
        impl $trait for $crate::Tensor {}
        #[doc = concat!("The operations of [`", stringify!($trait), "`].")]
        pub static $table: &[$crate::Op] = &[$($name::OP),*];
    };
}

/// Defines operations by a shape rule and a kernel, as functions only: factories, and operations on lists of
/// tensors.
///
/// The form is that of [`kernels!`](crate::kernels) without the trait.
#[macro_export]
macro_rules! functions {
    (
        $tvis:vis static $table:ident;
        $(
            $(#[doc = $doc:literal])+
            $(#[class = $class:ident $(($windows:path))?])?
            $(#[effects = $effects:ident])?
            $(#[flops = $flops:expr])?
            $(#[rows = $rows:path])?
            $(#[in_place = $in_place:path])?
            $name:ident($($p:ident: $k:ident $(= $d:expr)?),* $(; $($q:ident: $l:ident = $e:expr),*)?) $(-> $ret:ty)? = $infer:expr, $kernel:expr;
        )*
    ) => {
        $(
            $crate::__op_row! {
                [$($doc)+] [$($class $(($windows))?)?] [$($effects)?] [$($flops)?] [$($rows)?] [$($in_place)?] [false] $name
                ($($p: $k $(= $d)?),*) ($($($q: $l = $e),*)?) [$($ret)?] $infer, $kernel
            }
        )*
        #[doc = "The operations of this table."]
        $tvis static $table: &[$crate::Op] = &[$($name::OP),*];
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __op_row {
    (
        [$($doc:literal)+] [$($class:ident $(($windows:path))?)?] [$($effects:ident)?] [$($flops:expr)?] [$($rows:path)?] [$($in_place:path)?] [$method:literal] $name:ident
        ($($p:ident: $k:ident $(= $d:expr)?),*) ($($q:ident: $l:ident = $e:expr),*) [$($ret:ty)?] $infer:expr, $kernel:expr
    ) => {
        #[doc(hidden)]
        #[allow(non_camel_case_types, reason = "the handle is named as the operation")]
        pub enum $name {}
        impl $name {
            /// The operation.
            pub const OP: $crate::Op = {
                static DEF: $crate::OpDef = $crate::OpDef {
                    name: $crate::op::op_name(stringify!($name)),
                    doc: concat!($($doc, "\n"),+),
                    path: concat!(module_path!(), "::", stringify!($name)),
                    $(returns: stringify!($ret),)?
                    params: &[
                        $($crate::Param {
                            name: stringify!($p),
                            kind: <$crate::op::kind::$k as $crate::op::ParamKind>::KIND,
                            default: $crate::__default!($k $($d)?),
                            keyword_only: false,
                        },)*
                        $($crate::Param {
                            name: stringify!($q),
                            kind: <$crate::op::kind::$l as $crate::op::ParamKind>::KIND,
                            default: $crate::__default!($l $e),
                            keyword_only: true,
                        },)*
                    ],
                    $(class: $crate::Class::$class,)?
                    $($(windows: ::core::option::Option::Some($windows),)?)?
                    $(effects: $crate::Effects::$effects,)?
                    $(flops: $flops,)?
                    $(rows: ::core::option::Option::Some($rows),)?
                    $(eval_in_place: ::core::option::Option::Some($in_place),)?
                    method: $method,
                    infer: &|args| {
                        let [$($p,)* $($q,)*] = args else { return $crate::op::wrong_arity(&DEF, args.len()) };
                        let ty = $infer(
                            $(<$crate::op::kind::$k as $crate::op::ParamKind>::ty($p)?,)*
                            $(<$crate::op::kind::$l as $crate::op::ParamKind>::ty($q)?,)*
                        )?;
                        Ok($crate::op::kind::IntoType::into_type(ty))
                    },
                    eval: &|args| {
                        let [$($p,)* $($q,)*] = args else { return $crate::op::wrong_arity(&DEF, args.len()) };
                        let value = $kernel(
                            $(<$crate::op::kind::$k as $crate::op::ParamKind>::value($p)?,)*
                            $(<$crate::op::kind::$l as $crate::op::ParamKind>::value($q)?,)*
                        )?;
                        Ok($crate::op::kind::IntoValue::into_value(value))
                    },
                    ..$crate::OpDef::BASE
                };
                $crate::Op::new(&DEF)
            };
        }
        $(#[doc = $doc])+
        #[allow(clippy::too_many_arguments, reason = "the parameters are those of the schema")]
        #[track_caller]
        pub fn $name($($p: impl $crate::ToArg<$crate::op::kind::$k>),*) -> $crate::__ret!($($ret)?) {
            $crate::trace::apply_given($name::OP, false, [$($p.given()),*])
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __default {
    ($k:ident) => {
        ::core::option::Option::None
    };
    (Number $d:expr) => {
        ::core::option::Option::Some($crate::op::Written($d).default())
    };
    ($k:ident $d:expr) => {
        ::core::option::Option::Some($crate::op::kind::$k::default($d))
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __ret {
    () => {
        $crate::Tensor
    };
    ($ret:ty) => {
        $ret
    };
}

/// Calls an operation with positional and keyword arguments, as in Python: `call!(sum(&x, 1, keepdim = true))`.
///
/// The result is of the type that the context asks for, a [`Tensor`](crate::Tensor) or any [`Tree`](crate::Tree).
#[macro_export]
macro_rules! call {
    ($op:ident $(:: $rest:ident)* ($($args:tt)*)) => {
        $crate::__call!(@ $op $(:: $rest)*, [] [] $($args)*)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __call {
    (@ $op:path, [$($p:tt)*] [$($kw:tt)*] $key:ident = $value:expr $(, $($rest:tt)*)?) => {
        $crate::__call!(@ $op, [$($p)*] [$($kw)* (stringify!($key), $crate::ToArg::<$crate::op::kind::Any>::to_arg($value)),] $($($rest)*)?)
    };
    (@ $op:path, [$($p:tt)*] [$($kw:tt)*] $value:expr $(, $($rest:tt)*)?) => {
        $crate::__call!(@ $op, [$($p)* $crate::ToArg::<$crate::op::kind::Any>::to_arg($value),] [$($kw)*] $($($rest)*)?)
    };
    (@ $op:path, [$($p:tt)*] [$($kw:tt)*]) => {
        $crate::trace::apply_with(<$op>::OP, false, [$($p)*], &[$($kw)*])
    };
}

/// Defines pointwise operations: one scalar body is the eager kernel, the block kernel of fused groups, and
/// the text of generated Rust.
///
/// ```ignore
/// pointwise! {
///     /// Operations that act element by element.
///     pub trait Pointwise; pub static POINTWISE;
///
///     /// The greater of each element and zero; NaN stays NaN.
///     relu(x) -> Same { real: if x < 0.0 { 0.0 } else { x }, int: if x < 0 { 0 } else { x } }
///     /// `x` where positive, `negative_slope * x` elsewhere.
///     leaky_relu(x; negative_slope: 0.01) -> Same { real: if x > 0.0 { x } else { x * negative_slope } }
/// }
/// ```
/// The default of a parameter is a number or bool, such as `0.01` or `1`, or a [`Default`](crate::op::Default).
///
/// The result has the promoted dtype (`Same`), the same but a number (`Number`) or at least a float
/// (`Float`), or is `Bool`. Arms are `real` (f32, f64; f16 and bf16 are computed in f32), `int` (u8, i8, i32,
/// i64), `bool`, `num` (real and int) and `any`; a later arm replaces an earlier one. An operand with `= x`,
/// such as `clamp(x, min = f64::NEG_INFINITY)`, may be left out and is `x` then, without a part in promotion;
/// see [`PointwiseDef::absent_value`](crate::pointwise::PointwiseDef::absent_value). `#[numbers = ..]` says
/// how numbers are taken that the dtype cannot hold; see [`Numbers`](crate::pointwise::Numbers).
/// `#[fused_affine = f32]`, for a function of one operand whose first arm is `real`, makes kernels that add
/// and multiply before and after it in the same loop; see [`fused_affine`](crate::pointwise::fused_affine).
/// `#[blocks = path]` names a function of [`blocks`](crate::blocks) or one like them, which replaces some
/// block kernels by faster ones with the same bits. `#[instead = path]` names a function from the last
/// operand, if that is a number, to the row of the others that this one is there; see
/// [`PointwiseDef::instead`](crate::pointwise::PointwiseDef::instead). A body may name only its operands and
/// parameters, literals, and functions of [`math`](crate::math), as `math::exp` or `fx::math::exp`. Parameters
/// have the type of the elements.
#[macro_export]
macro_rules! pointwise {
    (
        $(#[$tdoc:meta])*
        pub trait $trait:ident; pub static $table:ident;
        $(
            $(#[doc = $doc:literal])+
            $(#[commutative = $commutative:literal])?
            $(#[check = $check:expr])?
            $(#[numbers = $numbers:expr])?
            $(#[instead = $instead:path])?
            $(#[fused_affine = $fused_affine:ident])?
            $(#[blocks = $blocks:path])?
            $name:ident($x:ident $(, $y:ident $(= $absent:expr)?)* $(; $($p:ident: $d:expr),*)?) -> $rule:ident { $($arm:ident: $body:expr),+ $(,)? }
        )*
    ) => {
        $(
            #[doc(hidden)]
            #[allow(non_camel_case_types, reason = "the handle is named as the operation")]
            pub enum $name {}
            impl $name {
                /// The operation.
                pub const OP: $crate::Op = {
                    #[allow(clippy::needless_update, reason = "rows without a check need the base")]
                    static BODY: $crate::pointwise::PointwiseDef = $crate::pointwise::PointwiseDef {
                        operands: &[stringify!($x) $(, stringify!($y))*],
                        absent: &[None $(, $crate::__operand!(absent $($absent)?))*],
                        params: &[$($(stringify!($p)),*)?],
                        rule: $crate::pointwise::Rule::$rule,
                        kernels: $crate::__blocks!(
                            [$($blocks)?]
                            $crate::__pointwise_fused_affine!(
                                [$($fused_affine)?]
                                $crate::__pointwise_arms!($crate::pointwise::Kernels::NONE; $rule; [$x $($y)*] [$($($p)*)?]; $($arm: $body,)+);
                                [$x $($y)*] [$($($p)*)?] $($arm: $body,)+
                            )
                        ),
                        sources: &[$((stringify!($arm), stringify!($body))),+],
                        $(check: Some($check),)?
                        $(numbers: $numbers,)?
                        $(instead: Some($instead),)?
                        ..$crate::pointwise::PointwiseDef::BASE
                    };
                    static DEF: $crate::OpDef = $crate::OpDef {
                        name: $crate::op::op_name(stringify!($name)),
                        doc: concat!($($doc, "\n"),+),
                        path: concat!(module_path!(), "::", stringify!($name)),
                        params: &[
                            $crate::Param { name: stringify!($x), kind: $crate::Kind::Operand, default: None, keyword_only: false },
                            $($crate::Param {
                                name: stringify!($y),
                                kind: $crate::__operand!(kind $($absent)?),
                                default: $crate::__operand!(default $($absent)?),
                                keyword_only: false,
                            },)*
                            $($($crate::Param {
                                name: stringify!($p),
                                kind: $crate::Kind::Number,
                                default: Some($crate::op::Written($d).default()),
                                keyword_only: false,
                            },)*)?
                        ],
                        class: $crate::Class::Pointwise(&BODY),
                        $(commutative: $commutative,)?
                        method: true,
                        infer: &|args| BODY.infer(args),
                        eval: &|args| BODY.eval(args),
                        ..$crate::OpDef::BASE
                    };
                    $crate::Op::new(&DEF)
                };
            }
        )*
        $crate::__tensor_functions! {
            [$(#[$tdoc])*] $trait $table
            $(
                [$($doc)+] $name ($x: $crate::op::kind::Operand
                $(, $y: $crate::__operand!(type $($absent)?))* $($(, $p: $crate::op::kind::Number)*)?) -> $crate::Tensor
            )*
        }
    };
}

/// Writes a function and a method for each operation, and the table of the operations.
#[doc(hidden)]
#[macro_export]
macro_rules! __tensor_functions {
    (
        [$(#[$tdoc:meta])*] $trait:ident $table:ident
        $([$($doc:literal)+] $name:ident ($x:ident: $kind:ty $(, $y:ident: $other:ty)*) -> $ret:ty)*
    ) => {
        $(
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name($x: impl $crate::ToArg<$kind> $(, $y: impl $crate::ToArg<$other>)*) -> $ret {
                $crate::trace::apply_given($name::OP, false, [$x.given() $(, $y.given())*])
            }
        )*
        $(#[$tdoc])*
        pub trait $trait: ::core::convert::AsRef<$crate::Tensor> {
            $(
                $(#[doc = $doc])+
                #[track_caller]
                fn $name(&self $(, $y: impl $crate::ToArg<$other>)*) -> $ret {
                    $crate::trace::apply_given(
                        $name::OP, true, [$crate::Given::Tensor(self.as_ref()) $(, $y.given())*],
                    )
                }
            )*
        }
        impl $trait for $crate::Tensor {}
        #[doc = concat!("The operations of [`", stringify!($trait), "`].")]
        pub static $table: &[$crate::Op] = &[$($name::OP),*];
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __operand {
    (kind) => {
        $crate::Kind::Operand
    };
    (kind $absent:expr) => {
        $crate::Kind::OptOperand
    };
    (type) => {
        $crate::op::kind::Operand
    };
    (type $absent:expr) => {
        $crate::op::kind::OptOperand
    };
    (default) => {
        ::core::option::Option::None
    };
    (default $absent:expr) => {
        ::core::option::Option::Some($crate::op::Default::None)
    };
    (absent) => {
        ::core::option::Option::None
    };
    (absent $absent:expr) => {
        ::core::option::Option::Some($absent)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __blocks {
    ([] $kernels:expr) => {
        $kernels
    };
    ([$blocks:path] $kernels:expr) => {
        $blocks($kernels)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __pointwise_arms {
    ($k:expr; $rule:ident; $xs:tt $ps:tt;) => { $k };
    ($k:expr; $rule:ident; $xs:tt $ps:tt; real: $body:expr, $($rest:tt)*) => {
        $crate::__pointwise_arms!($k; $rule; $xs $ps; @f32: $body, @f64: $body, $($rest)*)
    };
    ($k:expr; $rule:ident; $xs:tt $ps:tt; int: $body:expr, $($rest:tt)*) => {
        $crate::__pointwise_arms!($k; $rule; $xs $ps; @u8: $body, @i8: $body, @i32: $body, @i64: $body, $($rest)*)
    };
    ($k:expr; $rule:ident; $xs:tt $ps:tt; num: $body:expr, $($rest:tt)*) => {
        $crate::__pointwise_arms!($k; $rule; $xs $ps; real: $body, int: $body, $($rest)*)
    };
    ($k:expr; $rule:ident; $xs:tt $ps:tt; any: $body:expr, $($rest:tt)*) => {
        $crate::__pointwise_arms!($k; $rule; $xs $ps; real: $body, int: $body, bool: $body, $($rest)*)
    };
    ($k:expr; $rule:ident; $xs:tt $ps:tt; bool: $body:expr, $($rest:tt)*) => {
        $crate::__pointwise_arms!($k; $rule; $xs $ps; @bool: $body, $($rest)*)
    };
    ($k:expr; $rule:ident; $xs:tt $ps:tt; u8: $body:expr, $($rest:tt)*) => {
        $crate::__pointwise_arms!($k; $rule; $xs $ps; @u8: $body, $($rest)*)
    };
    ($k:expr; Bool; $xs:tt $ps:tt; @$t:ident: $body:expr, $($rest:tt)*) => {
        $crate::__pointwise_arms!(
            $k.$t($crate::pointwise::Block::Bool($crate::__pointwise_block!($t, bool, $xs $ps, $body)));
            Bool; $xs $ps; $($rest)*
        )
    };
    ($k:expr; $rule:ident; $xs:tt $ps:tt; @$t:ident: $body:expr, $($rest:tt)*) => {
        $crate::__pointwise_arms!(
            $k.$t($crate::pointwise::Block::Same($crate::__pointwise_block!($t, $t, $xs $ps, $body)));
            $rule; $xs $ps; $($rest)*
        )
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __pointwise_block {
    ($t:ident, $out:ident, [$($x:ident)*] [$($p:ident)*], $body:expr) => {{
        #[allow(unused_variables, unused_comparisons, clippy::all, reason = "the body is the user's expression")]
        fn block<'a>(xs: &[&[$t]], ps: &[$t], out: $crate::__private::UninitSlice<'a, $out>) -> $crate::__private::Filled<'a> {
            struct Loop<'a, 'b>(&'b [&'b [$t]], &'b [$t], $crate::__private::UninitSlice<'a, $out>);
            impl<'a> $crate::__private::Work for Loop<'a, '_> {
                type Output = $crate::__private::Filled<'a>;
                #[inline(always)]
                fn run(self) -> $crate::__private::Filled<'a> {
                    $crate::__pointwise_loop!(self, each_of, $t, $out, [$($x)*] [$($p)*], $body)
                }
            }
            impl<'a> Loop<'a, '_> {
                fn small(self) -> $crate::__private::Filled<'a> {
                    $crate::__pointwise_loop!(self, each_small, $t, $out, [$($x)*] [$($p)*], $body)
                }
            }
            struct Body<'a> { $($x: &'a [$t],)* $($p: $t),* }
            impl $crate::__private::At<$out> for Body<'_> {
                #[inline(always)]
                fn at(&self, i: usize) -> $out {
                    $(let $x: $t = self.$x[i];)*
                    $(let $p: $t = self.$p;)*
                    $body
                }
            }
            $crate::__pointwise_widest!($t, Loop(xs, ps, out), Loop::small)
        }
        block
    }};
}

/// The loop of a block: `each` is a method of `UninitSlice`.
#[doc(hidden)]
#[macro_export]
macro_rules! __pointwise_loop {
    ($self:ident, $each:ident, $t:ident, $out:ident, [$($x:ident)*] [$($p:ident)*], $body:expr) => {{
        let Loop(xs, ps, out) = $self;
        let n = out.len();
        let [$($p),*] = ps else { unreachable!("the driver passes every parameter") };
        $(let $p: $t = *$p;)*
        $crate::__pointwise_numbers!($each, $t, $out, [$($x)*] [$($p)*], $body, xs, out, n);
        let [$($x),*] = xs else { unreachable!("the driver passes every operand") };
        $(let $x = &$x[..n];)*
        out.$each(Body { $($x,)* $($p),* })
    }};
}

/// Runs the loop of a block. Loops over integers wait for memory, so that 512 bits serve floats alone.
#[doc(hidden)]
#[macro_export]
macro_rules! __pointwise_widest {
    (f32, $work:expr, $small:expr) => {
        $crate::__private::widest_or($work, $small)
    };
    (f64, $work:expr, $small:expr) => {
        $crate::__private::widest_or($work, $small)
    };
    ($t:ident, $work:expr, $small:expr) => {
        $crate::__private::widest_256_or($work, $small)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __pointwise_fused_affine {
    ([] $kernels:expr; $($row:tt)*) => { $kernels };
    ([f32] $kernels:expr; [$x:ident] [$($p:ident)*] real: $body:expr, $($rest:tt)*) => {{
        #[allow(unused_variables, clippy::all, reason = "the body is the user's expression")]
        fn fused_affine<'a>(
            fused_affine: &$crate::__private::FusedAffine<'_>, ps: &[f32], out: $crate::__private::UninitSlice<'a, f32>,
        ) -> $crate::__private::Filled<'a> {
            #[derive(Clone, Copy)]
            struct Body { $($p: f32),* }
            impl $crate::__private::Body for Body {
                #[inline(always)]
                fn of(&self, $x: f32) -> f32 {
                    $(let $p: f32 = self.$p;)*
                    $body
                }
            }
            let [$($p),*] = ps else { unreachable!("the driver passes every parameter") };
            fused_affine.run(Body { $($p: *$p),* }, out)
        }
        $kernels.fused_affine(fused_affine)
    }};
}

/// Computes a block whose operands after the first are numbers, which stay in registers.
#[doc(hidden)]
#[macro_export]
macro_rules! __pointwise_numbers {
    ($each:ident, $t:ident, $out:ident, [$($x:ident $($y:ident)?)?] $params:tt, $body:expr, $xs:ident, $slots:ident, $n:ident) => {};
    ($each:ident, $t:ident, $out:ident, [$x:ident $($y:ident)*] [$($p:ident)*], $body:expr, $xs:ident, $slots:ident, $n:ident) => {
        if let [$x, $($y),*] = $xs
            && $n > 1
            $(&& $y.len() == 1)*
        {
            struct Numbers<'a> { $x: &'a [$t], $($y: $t,)* $($p: $t),* }
            impl $crate::__private::At<$out> for Numbers<'_> {
                #[inline(always)]
                fn at(&self, i: usize) -> $out {
                    let $x: $t = self.$x[i];
                    $(let $y: $t = self.$y;)*
                    $(let $p: $t = self.$p;)*
                    $body
                }
            }
            return $slots.$each(Numbers { $x: &$x[..$n], $($y: $y[0],)* $($p),* });
        }
    };
}
