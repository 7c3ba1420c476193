//! Pooling over one to three spatial dimensions on contiguous slices, with PyTorch's semantics.
//!
//! Input is `[batch, channels, spatial...]`, or any leading dimensions flattened into one number of planes.
//! Each plane is pooled by itself, and each window in row-major order.

use fx_base::math::Real;
use fx_base::{Result, bail, err};
use fx_simd::{Work, parallel};
use smallvec::SmallVec;

mod bordered;
mod prepared;

use bordered::Bordered;
pub use prepared::Pooling;

/// The windows of a pooling; one number a spatial dimension.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PoolSpec {
    /// Size of the window.
    pub kernel: Vec<usize>,
    /// Distance of two windows.
    pub stride: Vec<usize>,
    /// Border on both sides: minus infinity for maxima, zeros for averages.
    pub padding: Vec<usize>,
    /// Distance of two elements of a window; averages take 1 only.
    pub dilation: Vec<usize>,
    /// Whether a last window that begins in the input or left border but overhangs counts.
    pub ceil_mode: bool,
}

/// By what the sum of a window is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Divisor {
    /// The elements of the window in the input and its border (`count_include_pad`).
    IncludePadding,
    /// The elements of the window in the input.
    ExcludePadding,
    /// A given number, not zero (`divisor_override`).
    Override(i64),
}

impl Divisor {
    /// Returns the divisor of a window with so many elements in the input, and with the border.
    fn of(self, inside: usize, padded: usize) -> f64 {
        match self {
            Divisor::IncludePadding => padded as f64,
            Divisor::ExcludePadding => inside as f64,
            Divisor::Override(divisor) => divisor as f64,
        }
    }
}

impl PoolSpec {
    /// Makes windows of `kernel` side by side, without padding, as `stride = kernel` is PyTorch's default.
    pub fn new(kernel: Vec<usize>) -> Self {
        let rank = kernel.len();
        let (stride, padding, dilation) = (kernel.clone(), vec![0; rank], vec![1; rank]);
        PoolSpec { kernel, stride, padding, dilation, ceil_mode: false }
    }

    /// Returns the spatial sizes of the output for those of the input. Fails if the window does not fit.
    pub fn output_size(&self, input: &[usize]) -> Result<Vec<usize>> {
        let rank = check_rank(input)?;
        let parts = [
            ("kernel", &self.kernel, 1),
            ("stride", &self.stride, 1),
            ("padding", &self.padding, 0),
            ("dilation", &self.dilation, 1),
        ];
        for (name, part, least) in parts {
            if part.len() != rank {
                bail!(
                    Argument,
                    "pooling over {rank} dimensions takes {rank} numbers in {name}, got {part:?}"
                );
            }
            if part.iter().any(|&part| part < least) {
                bail!(Argument, "pooling takes a {name} of at least {least}, got {part:?}");
            }
        }
        (0..rank).map(|i| self.output_length(i, input[i])).collect()
    }

    fn output_length(&self, i: usize, input: usize) -> Result<usize> {
        let [kernel, stride, padding, dilation] =
            [self.kernel[i], self.stride[i], self.padding[i], self.dilation[i]];
        let overflow = || err!(Limit, "size of a pooling does not fit into memory");
        let span =
            (kernel - 1).checked_mul(dilation).and_then(|span| span.checked_add(1)).ok_or_else(overflow)?;
        if padding > span / 2 {
            bail!(
                Argument,
                "padding must be at most half the window of {span} in dimension {i}, got {padding}"
            );
        }
        let padded = padding.checked_mul(2).and_then(|both| both.checked_add(input)).ok_or_else(overflow)?;
        // Positions of windows must stay within i64, also those of an overhanging last one.
        let end = padded.checked_add(span).and_then(|end| end.checked_add(stride)).ok_or_else(overflow)?;
        i64::try_from(end).map_err(|_| overflow())?;
        let Some(rest) = padded.checked_sub(span) else {
            // A window that overhangs by less than a stride still counts in ceil mode.
            let overhang = span - padded;
            if self.ceil_mode && overhang < stride && input + padding > 0 {
                return Ok(1);
            }
            bail!(Shape, "pooling takes a padded input of at least {span} in dimension {i}, got {padded}");
        };
        if !self.ceil_mode {
            return Ok(rest / stride + 1);
        }
        let length = rest.div_ceil(stride) + 1;
        Ok(if (length - 1) * stride >= input + padding { length - 1 } else { length })
    }
}

/// Stores the maximum of each window in `out` and, if given, its flat position in the plane in `indices`.
///
/// The first of equal maxima counts, but the last NaN, which is above all numbers. A window without elements
/// gives minus infinity at 0.
///
/// Fails when the spec doesn't fit to `input`, the spatial sizes, or these don't to the lengths of the slices.
pub fn max_pool<T: Real>(
    spec: &PoolSpec,
    x: &[T],
    input: &[usize],
    out: &mut [T],
    indices: Option<&mut [i64]>,
) -> Result<()> {
    let output = spec.output_size(input)?;
    maxima(x, input, &output, &max_axes(spec, input, &output), out, indices)
}

fn max_axes(spec: &PoolSpec, input: &[usize], output: &[usize]) -> [Vec<Window>; 3] {
    axes(input, output, |i, at| {
        let start = (at * spec.stride[i]) as i64 - spec.padding[i] as i64;
        let dilation = spec.dilation[i];
        let end = start + ((spec.kernel[i] - 1) * dilation + 1) as i64;
        let first = if start < 0 {
            start + (start.unsigned_abs() as usize).next_multiple_of(dilation) as i64
        } else {
            start
        };
        let end = end.clamp(0, input[i] as i64) as usize;
        Window { start: (first as usize).min(end), end, step: dilation, padded: 0 }
    })
}

/// Stores the average of each window in `out`.
///
/// Fails as [`max_pool`], and for a dilation other than 1 or a divisor of 0.
pub fn avg_pool<T: Real>(
    spec: &PoolSpec,
    x: &[T],
    input: &[usize],
    divisor: Divisor,
    out: &mut [T],
) -> Result<()> {
    let output = spec.output_size(input)?;
    check_divisor(spec, divisor)?;
    let axes = avg_axes(spec, input, &output);
    averages(x, input, &output, &axes, out, |inside, padded| divisor.of(inside, padded))
}

fn check_divisor(spec: &PoolSpec, divisor: Divisor) -> Result<()> {
    if spec.dilation.iter().any(|&dilation| dilation != 1) {
        bail!(Argument, "average pooling takes a dilation of 1, got {:?}", spec.dilation);
    }
    if divisor == Divisor::Override(0) {
        bail!(Argument, "average pooling takes a divisor that is not 0");
    }
    Ok(())
}

fn avg_axes(spec: &PoolSpec, input: &[usize], output: &[usize]) -> [Vec<Window>; 3] {
    axes(input, output, |i, at| {
        let start = at * spec.stride[i];
        let (padding, size) = (spec.padding[i], input[i]);
        // Counted from the left border, so that nothing is negative.
        let end = (start + spec.kernel[i]).min(size + 2 * padding);
        let clip = |position: usize| position.saturating_sub(padding).min(size);
        Window { start: clip(start), end: clip(end), step: 1, padded: end - start }
    })
}

/// Stores in `out` the maximum of each of `output` nearly equal parts, and positions as [`max_pool`].
///
/// Fails when sizes don't fit to the lengths of the slices, or a part of an empty input has no maximum.
pub fn adaptive_max_pool<T: Real>(
    x: &[T],
    input: &[usize],
    output: &[usize],
    out: &mut [T],
    indices: Option<&mut [i64]>,
) -> Result<()> {
    let axes = adaptive_axes(input, output)?;
    maxima(x, input, output, &axes, out, indices)
}

/// Stores in `out` the average of each of `output` nearly equal parts.
///
/// Fails as [`adaptive_max_pool`].
pub fn adaptive_avg_pool<T: Real>(x: &[T], input: &[usize], output: &[usize], out: &mut [T]) -> Result<()> {
    let axes = adaptive_axes(input, output)?;
    averages(x, input, output, &axes, out, |inside, _| inside as f64)
}

/// The elements of the input along one dimension that one output position takes.
#[derive(Clone, Copy)]
struct Window {
    start: usize,
    end: usize,
    step: usize,
    /// Length with the border.
    padded: usize,
}

const UNIT: Window = Window { start: 0, end: 1, step: 1, padded: 1 };

impl Window {
    fn positions(self) -> impl Iterator<Item = usize> {
        (self.start..self.end).step_by(self.step)
    }

    fn len(self) -> usize {
        (self.end - self.start).div_ceil(self.step)
    }
}

fn check_rank(input: &[usize]) -> Result<usize> {
    if (1..=3).contains(&input.len()) {
        return Ok(input.len());
    }
    bail!(Shape, "pooling takes 1 to 3 spatial dimensions, got {}", input.len());
}

/// Returns the windows of three dimensions; leading units make up for fewer.
fn axes(input: &[usize], output: &[usize], window: impl Fn(usize, usize) -> Window) -> [Vec<Window>; 3] {
    let missing = 3 - input.len();
    std::array::from_fn(|axis| match axis.checked_sub(missing) {
        None => vec![UNIT],
        Some(i) => (0..output[i]).map(|at| window(i, at)).collect(),
    })
}

fn adaptive_axes(input: &[usize], output: &[usize]) -> Result<[Vec<Window>; 3]> {
    let rank = check_rank(input)?;
    if output.len() != rank {
        bail!(Argument, "adaptive pooling over {rank} dimensions takes {rank} output sizes, got {output:?}");
    }
    for i in 0..rank {
        if input[i] == 0 && output[i] > 0 {
            bail!(Shape, "adaptive pooling takes at least 1 element in dimension {i}, got 0");
        }
        if input[i].checked_mul(output[i]).and_then(|n| n.checked_add(input[i] + output[i])).is_none() {
            bail!(Limit, "size of an adaptive pooling does not fit into memory");
        }
    }
    Ok(axes(input, output, |i, at| {
        let (start, end) = (at * input[i] / output[i], ((at + 1) * input[i]).div_ceil(output[i]));
        Window { start, end, step: 1, padded: end - start }
    }))
}

/// Checks the lengths and returns the sizes of an input and an output plane.
fn planes(x_len: usize, input: &[usize], out_len: usize, output: &[usize]) -> Result<(usize, usize)> {
    let size = |dims: &[usize]| dims.iter().try_fold(1usize, |size, &dim| size.checked_mul(dim));
    let (Some(from), Some(to)) = (size(input), size(output)) else {
        bail!(Limit, "a plane of {input:?} or {output:?} does not fit into memory");
    };
    let whole = |len: usize, plane: usize| if plane == 0 { len == 0 } else { len.is_multiple_of(plane) };
    let fits =
        whole(x_len, from) && whole(out_len, to) && (from == 0 || to == 0 || x_len / from == out_len / to);
    if !fits {
        bail!(Shape, "pooling {input:?} to {output:?} does not fit {x_len} elements in and {out_len} out");
    }
    Ok((from, to))
}

/// The window elements below which a second thread doesn't pay.
const GRAIN: usize = 1 << 14;

fn planes_at_once(axes: &[Vec<Window>; 3]) -> usize {
    let work: usize = axes.iter().map(|axis| axis.iter().map(|w| w.len()).sum::<usize>()).product();
    GRAIN.div_ceil(work.max(1))
}

/// Windows of a row that are alike but for their place, `stride` apart.
#[derive(Debug, Clone, Copy, Default)]
struct Even {
    /// The first of them, and how many they are.
    first: usize,
    count: usize,
    stride: usize,
    /// Where the first one starts, how far its elements are apart, how many they are.
    start: usize,
    step: usize,
    len: usize,
}

impl Even {
    /// Returns the first run of largest windows.
    fn find(windows: &[Window]) -> Even {
        let len = windows.iter().map(|w| w.len()).max().unwrap_or(0);
        let Some(first) = windows.iter().position(|w| w.len() == len).filter(|_| len > 0) else {
            return Even::default();
        };
        let start = windows[first];
        let stride = windows.get(first + 1).map_or(1, |next| next.start.saturating_sub(start.start).max(1));
        let is_alike = |(i, w): &(usize, &Window)| {
            w.len() == len && w.padded == start.padded && w.start == start.start + i * stride
        };
        let count = windows[first..].iter().enumerate().take_while(is_alike).count();
        Even { first, count, stride, start: start.start, step: start.step, len }
    }

    /// Returns for each row of a plane the number of the first of these windows, and the other windows.
    #[inline(always)]
    fn rows(self, axes: &[Vec<Window>; 3]) -> impl Iterator<Item = (usize, Window, Window)> {
        let rows = pairs(axes).enumerate().take(if self.count == 0 { 0 } else { usize::MAX });
        rows.map(move |(row, (d, h))| (row * axes[2].len() + self.first, d, h))
    }

    /// Calls `f` for each element of a window with what follows it in the row, up to that of the last window.
    #[inline(always)]
    fn each_offset<T>(self, row: &[T], mut f: impl FnMut(&[T])) {
        for k in 0..self.len {
            let at = self.start + k * self.step;
            f(&row[at..=at + (self.count - 1) * self.stride]);
        }
    }
}

/// Calls `f` with each number and every `stride`-th element.
#[inline(always)]
fn each_pair<T: Copy>(out: &mut [T], x: &[T], stride: usize, mut f: impl FnMut(&mut T, T)) {
    match stride {
        1 => out.iter_mut().zip(x).for_each(|(out, &x)| f(out, x)),
        2 => {
            let (pairs, rest) = x.as_chunks::<2>();
            out.iter_mut().zip(pairs).for_each(|(out, &[x, _])| f(out, x));
            if let (Some(out), Some(&x)) = (out.get_mut(pairs.len()), rest.first()) {
                f(out, x);
            }
        }
        _ => out.iter_mut().zip(x.iter().step_by(stride)).for_each(|(out, &x)| f(out, x)),
    }
}

/// Returns the pairs of windows along the first two axes.
#[inline(always)]
fn pairs(axes: &[Vec<Window>; 3]) -> impl Iterator<Item = (Window, Window)> {
    axes[0].iter().flat_map(|&d| axes[1].iter().map(move |&h| (d, h)))
}

/// Returns the outputs of a plane but those of `even`, in row-major order, each with its number and its windows.
#[inline(always)]
fn windows(axes: &[Vec<Window>; 3], even: Even) -> impl Iterator<Item = (usize, [Window; 3])> {
    let width = axes[2].len();
    pairs(axes).enumerate().flat_map(move |(row, (d, h))| {
        let others = (0..even.first).chain(even.first + even.count..width);
        others.map(move |k| (row * width + k, [d, h, axes[2][k]]))
    })
}

/// Returns height and width of the input.
fn rows(input: &[usize]) -> [usize; 2] {
    let width = input[input.len() - 1];
    [if input.len() > 1 { input[input.len() - 2] } else { 1 }, width]
}

fn maxima<T: Real>(
    x: &[T],
    input: &[usize],
    output: &[usize],
    axes: &[Vec<Window>; 3],
    out: &mut [T],
    indices: Option<&mut [i64]>,
) -> Result<()> {
    let (from, to) = planes(x.len(), input, out.len(), output)?;
    if let Some(indices) = &indices
        && indices.len() != out.len()
    {
        bail!(Shape, "expected {} indices, got room for {}", out.len(), indices.len());
    }
    if out.is_empty() {
        return Ok(());
    }
    let [height, width] = rows(input);
    let way = Algorithm::find(axes, Some(width));
    let at_once = planes_at_once(axes);
    let plane_of = |i: usize| &x[(i * from).min(x.len())..];
    let Some(indices) = indices else {
        let block = at_once.clamp(1, 16);
        parallel::chunks(out, to * block, at_once.div_ceil(block), |i, out| {
            way.reduce(plane_of(i * block), [from, to], [height, width], axes, out, &Greatest);
        });
        return Ok(());
    };
    parallel::chunk_pairs((out, to), (indices, to), at_once, |i, out, indices| {
        let x = plane_of(i);
        for (at, [d, h, w]) in windows(axes, Even::default()) {
            let (mut best, mut best_at) = (-T::INFINITY, None);
            for row in d.positions().flat_map(|d| h.positions().map(move |h| d * height + h)) {
                let line = &x[row * width..][..width];
                if w.step == 1 && w.end >= w.start + LONG {
                    // Neighbours are compared without their places first.
                    let Some((k, value)) = first_greatest(&line[w.start..w.end]) else { continue };
                    let is_nan = value.partial_cmp(&value).is_none();
                    if value > best || is_nan || best_at.is_none() {
                        (best, best_at) = (value, Some(row * width + w.start + k));
                    }
                    continue;
                }
                for position in w.positions() {
                    let value = line[position];
                    let is_nan = value.partial_cmp(&value).is_none();
                    if value > best || is_nan || best_at.is_none() {
                        (best, best_at) = (value, Some(row * width + position));
                    }
                }
            }
            out[at] = best;
            indices[at] = best_at.unwrap_or(0) as i64;
        }
    });
    Ok(())
}

/// Returns the first of the greatest elements, or the last NaN, with its place.
fn first_greatest<T: Real>(line: &[T]) -> Option<(usize, T)> {
    let best = fx_simd::call::<greatest_of, _>(line);
    let is_nan = best.partial_cmp(&best).is_none();
    let at = match is_nan {
        true => line.iter().rposition(|x| x.partial_cmp(x).is_none()),
        false => line.iter().position(|&x| x == best),
    };
    at.map(|at| (at, line[at]))
}

/// A window of as many neighbours is reduced in lanes.
const LONG: usize = 32;

/// How the elements of a window become one.
trait Pool<T: Real>: Sync {
    fn start() -> T;
    fn join(a: T, b: T) -> T;
    fn finish(&self, value: T, windows: [Window; 3]) -> T;
}

struct Greatest;
impl<T: Real> Pool<T> for Greatest {
    #[inline(always)]
    fn start() -> T {
        -T::INFINITY
    }
    #[inline(always)]
    fn join(a: T, b: T) -> T {
        // One instruction, and a choice for NaN.
        let greater = if b > a { b } else { a };
        if b.partial_cmp(&b).is_none() { b } else { greater }
    }
    #[inline(always)]
    fn finish(&self, value: T, _: [Window; 3]) -> T {
        value
    }
}

/// The sum, divided by what is said for the elements inside the input and with the border.
struct Mean<F>(F);
impl<T: Real, F: Fn(usize, usize) -> f64 + Sync> Pool<T> for Mean<F> {
    #[inline(always)]
    fn start() -> T {
        T::ZERO
    }
    #[inline(always)]
    fn join(a: T, b: T) -> T {
        a + b
    }
    #[inline(always)]
    fn finish(&self, value: T, [d, h, w]: [Window; 3]) -> T {
        let inside = d.len() * h.len() * w.len();
        if inside == 0 {
            return T::ZERO;
        }
        value / T::from_f64((self.0)(inside, d.padded * h.padded * w.padded))
    }
}

fx_simd::wide! {
    fn greatest_of[T: Real](line: &[T]) -> T {
        joined::<T, Greatest>(line)
    }
}

/// Joins neighbours: few one after the other, many in lanes.
#[inline(always)]
fn joined<T: Real, P: Pool<T>>(line: &[T]) -> T {
    const LANES: usize = 16;
    if line.len() < LONG {
        return line.iter().fold(P::start(), |a, &b| P::join(a, b));
    }
    let mut lanes = [P::start(); LANES];
    let (blocks, rest) = line.as_chunks::<LANES>();
    for block in blocks {
        for (lane, &x) in lanes.iter_mut().zip(block) {
            *lane = P::join(*lane, x);
        }
    }
    if !rest.is_empty() {
        // Lanes of which some are named by a number that is not known would lie in memory.
        let mut last = [P::start(); LANES];
        last[..rest.len()].copy_from_slice(rest);
        for (lane, x) in lanes.iter_mut().zip(last) {
            *lane = P::join(*lane, x);
        }
    }
    let eight: [T; 8] = std::array::from_fn(|i| P::join(lanes[i], lanes[i + 8]));
    let four: [T; 4] = std::array::from_fn(|i| P::join(eight[i], eight[i + 4]));
    P::join(P::join(four[0], four[2]), P::join(four[1], four[3]))
}

/// How the windows of a plane are reduced; it depends on the windows alone.
enum Algorithm {
    /// One window that is the whole plane.
    Whole,
    /// Rows of a window are joined first, then the neighbours in what results.
    Down,
    /// Rows of a window are joined first, in a line with borders; then windows side by side, element by element.
    Bordered(Bordered),
    /// Windows side by side are reduced together, element by element.
    Across(Even),
}

impl Algorithm {
    /// Finds it for windows; `width_in` is that of the input if elements may be joined in any order.
    fn find(axes: &[Vec<Window>; 3], width_in: Option<usize>) -> Algorithm {
        let [depth, height, width] = axes;
        let is_one = |axis: &[Window]| axis.len() == 1 && axis[0].step == 1;
        if is_one(depth) && is_one(height) && is_one(width) {
            return Algorithm::Whole;
        }
        // Windows that overlap little are cheaper to reduce row by row; many small ones side by side are not.
        let taken: usize = width.iter().map(|w| w.len()).sum();
        let is_dense = width.iter().all(|w| w.step == 1) && width.last().is_some_and(|w| taken <= 2 * w.end);
        if is_dense && taken >= 4 * width.len() {
            return Algorithm::Down;
        }
        match width_in.and_then(|n| Bordered::find(width, n)) {
            Some(bordered) => Algorithm::Bordered(bordered),
            None => Algorithm::Across(Even::find(width)),
        }
    }

    /// Reduces planes that lie one after the other, of as many elements as `planes` says in and out.
    fn reduce<T: Real, P: Pool<T>>(
        &self,
        x: &[T],
        planes: [usize; 2],
        size: [usize; 2],
        axes: &[Vec<Window>; 3],
        out: &mut [T],
        pool: &P,
    ) {
        fx_simd::widest(ReducePlanes((self, x, planes, size, axes, out, pool)));
    }
}

type Planes<'a, T, P> =
    (&'a Algorithm, &'a [T], [usize; 2], [usize; 2], &'a [Vec<Window>; 3], &'a mut [T], &'a P);

struct ReducePlanes<'a, T, P>(Planes<'a, T, P>);

impl<T: Real, P: Pool<T>> Work for ReducePlanes<'_, T, P> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        reduce_planes(self.0);
    }
}

#[inline(always)]
fn reduce_planes<T: Real, P: Pool<T>>((way, x, [from, to], size, axes, out, pool): Planes<'_, T, P>) {
    let room = match way {
        Algorithm::Bordered(bordered) => 2 * bordered.line + bordered.results,
        _ => size[1],
    };
    let mut line: SmallVec<[T; 512]> = SmallVec::from_elem(P::start(), room);
    for (i, out) in out.chunks_mut(to).enumerate() {
        reduce_plane(way, &x[(i * from).min(x.len())..], size, axes, out, pool, &mut line);
    }
}

/// Reduces a plane; `line` has room for a row of it, and is not changed outside of the places of its elements.
#[inline(always)]
fn reduce_plane<T: Real, P: Pool<T>>(
    way: &Algorithm,
    x: &[T],
    [height, width]: [usize; 2],
    axes: &[Vec<Window>; 3],
    out: &mut [T],
    pool: &P,
    line: &mut [T],
) {
    let rows_of =
        |d: Window, h: Window| d.positions().flat_map(move |d| h.positions().map(move |h| d * height + h));
    match way {
        Algorithm::Whole => {
            let [d, h, w] = [axes[0][0], axes[1][0], axes[2][0]];
            let is_full = w.len() == width && (h.len() == height || d.len() == 1);
            let value = if is_full && d.len() * h.len() > 0 {
                let start = (d.start * height + h.start) * width;
                joined::<T, P>(&x[start..][..d.len() * h.len() * width])
            } else {
                let rows = rows_of(d, h).map(|row| joined::<T, P>(&x[row * width..][w.start..w.end]));
                rows.fold(P::start(), P::join)
            };
            out[0] = pool.finish(value, [d, h, w]);
        }
        Algorithm::Down => {
            let mut slots = out.iter_mut();
            for &d in &axes[0] {
                for &h in &axes[1] {
                    let is_single = d.len() * h.len() == 1;
                    let line = if is_single {
                        &x[(d.start * height + h.start) * width..][..width]
                    } else {
                        line.fill(P::start());
                        for row in rows_of(d, h) {
                            line.iter_mut().zip(&x[row * width..]).for_each(|(a, &b)| *a = P::join(*a, b));
                        }
                        &*line
                    };
                    for (&w, slot) in axes[2].iter().zip(slots.by_ref()) {
                        *slot = pool.finish(joined::<T, P>(&line[w.start..w.end]), [d, h, w]);
                    }
                }
            }
        }
        Algorithm::Bordered(bordered) => {
            let (line, rest) = line.split_at_mut(bordered.line);
            let (halves, results) = rest.split_at_mut(bordered.line);
            for ((d, h), out) in pairs(axes).zip(out.chunks_exact_mut(axes[2].len())) {
                let inside = &mut line[bordered.before..][..width];
                let mut rows = rows_of(d, h);
                match rows.next() {
                    Some(row) => inside.copy_from_slice(&x[row * width..][..width]),
                    None => inside.fill(P::start()),
                }
                for row in rows {
                    inside.iter_mut().zip(&x[row * width..]).for_each(|(a, &b)| *a = P::join(*a, b));
                }
                bordered.reduce::<T, P>(line, halves, results);
                let finish = |(out, (&x, &w)): (&mut T, (&T, &Window))| *out = pool.finish(x, [d, h, w]);
                out.iter_mut().zip(results.iter().zip(&axes[2])).for_each(finish);
            }
        }
        Algorithm::Across(even) => {
            for (at, d, h) in even.rows(axes) {
                let out = &mut out[at..at + even.count];
                out.fill(P::start());
                for row in rows_of(d, h) {
                    even.each_offset(&x[row * width..][..width], |x| {
                        each_pair(out, x, even.stride, |a, b| *a = P::join(*a, b));
                    });
                }
                let window = axes[2][even.first];
                out.iter_mut().for_each(|x| *x = pool.finish(*x, [d, h, window]));
            }
            for (at, [d, h, w]) in windows(axes, *even) {
                let mut value = P::start();
                for row in rows_of(d, h) {
                    let line = &x[row * width..][..width];
                    value = w.positions().fold(value, |a, k| P::join(a, line[k]));
                }
                out[at] = pool.finish(value, [d, h, w]);
            }
        }
    }
}

/// Stores each window's sum over what `divisor` says for the elements inside the input and with the border.
fn averages<T: Real>(
    x: &[T],
    input: &[usize],
    output: &[usize],
    axes: &[Vec<Window>; 3],
    out: &mut [T],
    divisor: impl Fn(usize, usize) -> f64 + Sync,
) -> Result<()> {
    let (from, to) = planes(x.len(), input, out.len(), output)?;
    if out.is_empty() {
        return Ok(());
    }
    let size = rows(input);
    let way = Algorithm::find(axes, None);
    let (at_once, pool) = (planes_at_once(axes), Mean(divisor));
    let block = at_once.clamp(1, 16);
    parallel::chunks(out, to * block, at_once.div_ceil(block), |i, out| {
        way.reduce(&x[(i * block * from).min(x.len())..], [from, to], size, axes, out, &pool);
    });
    Ok(())
}
