//! Functions of one operand with a sum before, and a product and a sum after, in one loop over the elements.
//!
//! A pass over elements in the first cache that only adds takes as long as its loads and stores; in the loop
//! of a function such as `tanh` it is done in the meantime. The values are those of the passes one by one.

use fx_simd::{At, Filled, UninitSlice, Work, widest_or};

/// Computes the elements of a row and what is around, from the row's parameters.
pub type Kernel = for<'a> fn(&FusedAffine<'_>, &[f32], UninitSlice<'a, f32>) -> Filled<'a>;

/// What the elements of a kernel are: `f(x + before) * factor + after`, without what is absent. All operands
/// have as many.
#[derive(Clone, Copy)]
pub struct FusedAffine<'a> {
    /// The operand of the function.
    pub x: &'a [f32],
    /// What is added to it.
    pub before: Option<Term<'a>>,
    /// What the result is multiplied by.
    pub factor: Option<&'a [f32]>,
    /// What is added then.
    pub after: Option<Term<'a>>,
}

/// An addend.
#[derive(Clone, Copy)]
pub struct Term<'a> {
    /// Its elements.
    pub elements: &'a [f32],
    /// What is subtracted from the other, if any.
    pub minus: Option<Minus>,
}

/// The one of two addends that is subtracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Minus {
    /// What is there already.
    Left,
    /// The term.
    Right,
}

/// The scalar body of a row.
#[doc(hidden)]
pub trait Body: Copy {
    /// Returns the result for an element. Implementations must be `#[inline(always)]`.
    fn of(&self, x: f32) -> f32;
}

/// Computes what is around, for a row that is nothing.
pub fn identity<'a>(fused_affine: &FusedAffine<'_>, _: &[f32], out: UninitSlice<'a, f32>) -> Filled<'a> {
    #[derive(Clone, Copy)]
    struct Same;
    impl Body for Same {
        #[inline(always)]
        fn of(&self, x: f32) -> f32 {
            x
        }
    }
    fused_affine.run(Same, out)
}

/// What an element becomes at a position.
///
/// Both functions are `#[inline(always)]`.
trait Stage: Copy {
    fn of(&self, x: f32, i: usize) -> f32;

    /// Returns the stage for `n` elements, so that a loop over so many need not look whether they are there.
    fn cut(self, n: usize) -> Self;
}

#[derive(Clone, Copy)]
struct Absent;

impl Stage for Absent {
    #[inline(always)]
    fn of(&self, x: f32, _: usize) -> f32 {
        x
    }

    #[inline(always)]
    fn cut(self, _: usize) -> Absent {
        self
    }
}

#[derive(Clone, Copy)]
struct Factor<'a>(&'a [f32]);

impl Stage for Factor<'_> {
    #[inline(always)]
    fn of(&self, x: f32, i: usize) -> f32 {
        x * self.0[i]
    }

    #[inline(always)]
    fn cut(self, n: usize) -> Self {
        Factor(&self.0[..n])
    }
}

/// An addend with the sign bits by which both change.
#[derive(Clone, Copy)]
struct Addend<'a>(&'a [f32], [u32; 2]);

impl Stage for Addend<'_> {
    #[inline(always)]
    fn of(&self, x: f32, i: usize) -> f32 {
        let Addend(elements, [left, right]) = self;
        f32::from_bits(x.to_bits() ^ left) + f32::from_bits(elements[i].to_bits() ^ right)
    }

    #[inline(always)]
    fn cut(self, n: usize) -> Self {
        Addend(&self.0[..n], self.1)
    }
}

impl<'a> Addend<'a> {
    fn new(term: Term<'a>) -> Addend<'a> {
        let sign = |minus| if term.minus == Some(minus) { 1 << 31 } else { 0 };
        Addend(term.elements, [Minus::Left, Minus::Right].map(sign))
    }
}

/// A loop of known stages.
#[derive(Clone, Copy)]
struct Stages<'b, B, P, F, A>(&'b [f32], B, P, F, A);

impl<B: Body, P: Stage, F: Stage, A: Stage> At<f32> for Stages<'_, B, P, F, A> {
    #[inline(always)]
    fn at(&self, i: usize) -> f32 {
        let Stages(x, body, before, factor, after) = self;
        after.of(factor.of(body.of(before.of(x[i], i)), i), i)
    }
}

struct Run<'a, 'b, B, P, F, A>(Stages<'b, B, P, F, A>, UninitSlice<'a, f32>);

impl<'a, B: Body, P: Stage, F: Stage, A: Stage> Work for Run<'a, '_, B, P, F, A> {
    type Output = Filled<'a>;
    #[inline(always)]
    fn run(self) -> Filled<'a> {
        let Run(Stages(x, body, before, factor, after), out) = self;
        let n = out.len();
        out.each_of(Stages(&x[..n], body, before.cut(n), factor.cut(n), after.cut(n)))
    }
}

impl<'a, B: Body, P: Stage, F: Stage, A: Stage> Run<'a, '_, B, P, F, A> {
    fn small(self) -> Filled<'a> {
        self.1.each_small(self.0)
    }
}

impl FusedAffine<'_> {
    /// Computes all elements with a body.
    #[doc(hidden)]
    #[inline]
    pub fn run<'a>(&self, body: impl Body, out: UninitSlice<'a, f32>) -> Filled<'a> {
        match self.before {
            Some(term) => self.run_factor(body, Addend::new(term), out),
            None => self.run_factor(body, Absent, out),
        }
    }

    #[inline]
    fn run_factor<'a>(&self, body: impl Body, before: impl Stage, out: UninitSlice<'a, f32>) -> Filled<'a> {
        match self.factor {
            Some(factor) => self.run_after(body, before, Factor(factor), out),
            None => self.run_after(body, before, Absent, out),
        }
    }

    #[inline]
    fn run_after<'a>(
        &self,
        body: impl Body,
        before: impl Stage,
        factor: impl Stage,
        out: UninitSlice<'a, f32>,
    ) -> Filled<'a> {
        match self.after {
            Some(term) => {
                widest_or(Run(Stages(self.x, body, before, factor, Addend::new(term)), out), Run::small)
            }
            None => widest_or(Run(Stages(self.x, body, before, factor, Absent), out), Run::small),
        }
    }
}
