//! Fourier transforms of rows of `n` complex numbers, which are pairs of reals: by halves where `n` is a power of
//! two, else as a convolution of such a size (Bluestein).

use super::math::{self, Real};

/// Returns how many elements a transform of `n` numbers works with.
pub fn work(n: usize) -> usize {
    let m = halves_size(n);
    if m == n { 3 * n } else { 4 * n + 5 * m }
}

/// Returns the size of the transforms by halves that one of `n` numbers takes.
fn halves_size(n: usize) -> usize {
    if n.is_power_of_two() || n == 0 { n } else { (2 * n - 1).next_power_of_two() }
}

/// What transforms of one size have in common.
struct Plan<'a, T> {
    n: usize,
    /// The size of transforms by halves, and their factors.
    m: usize,
    turns: &'a [T],
    /// Of a convolution: the factors of elements, what is convolved with, and room.
    chirp: &'a [T],
    filter: &'a [T],
    room: &'a mut [T],
}

/// Writes `exp(-2 pi i k / n)` for the places `k`.
fn write_turns<T: Real>(places: impl Iterator<Item = usize>, n: usize, out: &mut [T]) {
    for (k, out) in places.zip(out.chunks_exact_mut(2)) {
        let angle = -2.0 * core::f64::consts::PI * k as f64 / n as f64;
        (out[0], out[1]) = (T::from_f64(math::cos(angle)), T::from_f64(math::sin(angle)));
    }
}

/// Makes what transforms of `n` numbers need, and room for one row.
fn plan<T: Real>(n: usize, work: &mut [T]) -> (Plan<'_, T>, &mut [T]) {
    let m = halves_size(n);
    let (row, rest) = work.split_at_mut(2 * n);
    let (turns, rest) = rest.split_at_mut(m);
    write_turns(0..m / 2, m, turns);
    if m == n {
        return (Plan { n, m, turns, chirp: &[], filter: &[], room: &mut [] }, row);
    }
    let (chirp, rest) = rest.split_at_mut(2 * n);
    // The square of a place counts modulo 2 n.
    write_turns((0..n).map(|k| (k as u64 * k as u64 % (2 * n as u64)) as usize), 2 * n, chirp);
    let (filter, room) = rest.split_at_mut(2 * m);
    filter.fill(T::ZERO);
    for (k, turn) in chirp.chunks_exact(2).enumerate() {
        for at in [k, (m - k) % m] {
            (filter[2 * at], filter[2 * at + 1]) = (turn[0], T::ZERO - turn[1]);
        }
    }
    by_halves(filter, m, turns);
    (Plan { n, m, turns, chirp, filter, room: &mut room[..2 * m] }, row)
}

/// Transforms a row whose size is a power of two.
fn by_halves<T: Real>(x: &mut [T], n: usize, turns: &[T]) {
    let mut to = 0;
    for from in 1..n {
        let mut bit = n >> 1;
        while to & bit != 0 {
            to ^= bit;
            bit >>= 1;
        }
        to |= bit;
        if from < to {
            x.swap(2 * from, 2 * to);
            x.swap(2 * from + 1, 2 * to + 1);
        }
    }
    let mut half = 1;
    while half < n {
        let step = n / (2 * half);
        for part in x.chunks_exact_mut(4 * half) {
            let (even, odd) = part.split_at_mut(2 * half);
            for (k, (even, odd)) in even.chunks_exact_mut(2).zip(odd.chunks_exact_mut(2)).enumerate() {
                let [re, im] = product([odd[0], odd[1]], [turns[2 * k * step], turns[2 * k * step + 1]]);
                (odd[0], odd[1]) = (even[0] - re, even[1] - im);
                (even[0], even[1]) = (even[0] + re, even[1] + im);
            }
        }
        half *= 2;
    }
}

#[inline(always)]
fn product<T: Real>(a: [T; 2], b: [T; 2]) -> [T; 2] {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

fn conjugate<T: Real>(x: &mut [T]) {
    x.iter_mut().skip(1).step_by(2).for_each(|im| *im = T::ZERO - *im);
}

impl<T: Real> Plan<'_, T> {
    fn run(&mut self, row: &mut [T], inverse: bool) {
        if inverse {
            conjugate(row);
        }
        match self.n == self.m {
            true => by_halves(row, self.n, self.turns),
            false => self.convolve(row),
        }
        if inverse {
            conjugate(row);
        }
    }

    fn convolve(&mut self, row: &mut [T]) {
        let (m, room) = (self.m, &mut *self.room);
        room.fill(T::ZERO);
        for ((room, x), turn) in
            room.chunks_exact_mut(2).zip(row.chunks_exact(2)).zip(self.chirp.chunks_exact(2))
        {
            [room[0], room[1]] = product([x[0], x[1]], [turn[0], turn[1]]);
        }
        by_halves(room, m, self.turns);
        // The transform back is that of conjugates.
        for (x, factor) in room.chunks_exact_mut(2).zip(self.filter.chunks_exact(2)) {
            let [re, im] = product([x[0], x[1]], [factor[0], factor[1]]);
            (x[0], x[1]) = (re, T::ZERO - im);
        }
        by_halves(room, m, self.turns);
        let scale = T::from_f64(1.0 / m as f64);
        for ((x, room), turn) in
            row.chunks_exact_mut(2).zip(room.chunks_exact(2)).zip(self.chirp.chunks_exact(2))
        {
            let back = [room[0] * scale, T::ZERO - room[1] * scale];
            [x[0], x[1]] = product(back, [turn[0], turn[1]]);
        }
    }
}

/// Transforms rows of `n` pairs, with the sign of the inverse if so, and multiplies by `scale`.
pub fn complex<T: Real>(x: &[T], n: usize, inverse: bool, scale: f64, work: &mut [T], out: &mut [T]) {
    if x.is_empty() {
        return;
    }
    let (mut plan, _) = plan(n, work);
    let scale = T::from_f64(scale);
    for (x, out) in x.chunks_exact(2 * n).zip(out.chunks_exact_mut(2 * n)) {
        out.copy_from_slice(x);
        plan.run(out, inverse);
        out.iter_mut().for_each(|x| *x = *x * scale);
    }
}

/// Transforms rows of `n` reals to pairs for the first frequencies, and multiplies by `scale`.
pub fn real<T: Real>(x: &[T], n: usize, frequencies: usize, scale: f64, work: &mut [T], out: &mut [T]) {
    if x.is_empty() {
        return;
    }
    let (mut plan, row) = plan(n, work);
    let scale = T::from_f64(scale);
    for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(2 * frequencies)) {
        row.chunks_exact_mut(2).zip(x).for_each(|(pair, &x)| (pair[0], pair[1]) = (x, T::ZERO));
        plan.run(row, false);
        out.iter_mut().zip(&*row).for_each(|(out, &x)| *out = x * scale);
    }
}

/// Transforms rows of pairs for the first frequencies back to `n` reals, and multiplies by `scale`. Frequencies
/// that are not there are zero; numbers that must be real count as real.
pub fn to_real<T: Real>(x: &[T], frequencies: usize, n: usize, scale: f64, work: &mut [T], out: &mut [T]) {
    if x.is_empty() || n == 0 {
        return;
    }
    let (mut plan, row) = plan(n, work);
    let scale = T::from_f64(scale);
    for (x, out) in x.chunks_exact(2 * frequencies).zip(out.chunks_exact_mut(n)) {
        row.fill(T::ZERO);
        for (k, x) in x.chunks_exact(2).enumerate().take(n / 2 + 1) {
            let is_real = k == 0 || 2 * k == n;
            let im = if is_real { T::ZERO } else { x[1] };
            (row[2 * k], row[2 * k + 1]) = (x[0], im);
            if !is_real {
                (row[2 * (n - k)], row[2 * (n - k) + 1]) = (x[0], T::ZERO - im);
            }
        }
        plan.run(row, true);
        out.iter_mut().zip(row.chunks_exact(2)).for_each(|(out, pair)| *out = pair[0] * scale);
    }
}
