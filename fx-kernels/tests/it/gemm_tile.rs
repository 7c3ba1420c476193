//! Tiles of all sizes for all vectors of this machine, beside sums of small integers, which are exact.

use fx_kernels::gemm::TileEpilogue;
use fx_kernels::gemm::tile::*;

/// Runs tiles of all sizes for both kinds of vectors, and compares with sums of small integers, which are exact.
macro_rules! compare {
    ($t:ty, $tiles:expr) => {
        for (tile, is_there) in $tiles {
            if !is_there {
                continue;
            }
            let number = |i: usize| ((i * 7 + i / 5) % 11) as $t - 5.0;
            let numbers = |n: usize| (0..n).map(number).collect::<Vec<$t>>();
            let (k, width) = (5, ROW * tile.cols);
            let (a, b) = (numbers(tile.rows * k), numbers(k * width));
            let (bias, other) = (numbers(width), numbers(tile.rows * (width + 3)));
            let sizes = (1..=tile.rows).flat_map(|rows| {
                (1..=if rows == 1 { width } else { tile.cols }).map(move |cols| (rows, cols))
            });
            for (rows, cols) in sizes {
                let stride = cols + 3;
                let epilogue = TileEpilogue {
                    bias: Some(&bias[..cols]),
                    other: Some(&other),
                    bounds: Some((-40.0, 50.0)),
                };
                for (beta, windows) in [(0.0, false), (2.0, false), (0.0, true)] {
                    if windows && cols > tile.cols {
                        continue;
                    }
                    let b_stride = if windows || cols <= tile.cols { tile.cols } else { width };
                    let mut c: Vec<$t> = vec![3.0; tile.rows * stride];
                    let starts: Vec<usize> = (0..rows).map(|row| row * k).collect();
                    // SAFETY: the machine has the vectors, and the operands are as large as they must be.
                    unsafe {
                        if windows {
                            let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
                            let windows = Windows {
                                a,
                                rows: &starts,
                                pieces: &[0, 2],
                                piece: 2,
                                b,
                                c,
                                c_stride: stride,
                                epilogue,
                            };
                            tile.run_windows(cols, &windows);
                        } else {
                            let operands = Operands {
                                a: a.as_ptr(),
                                a_strides: (k, 1),
                                b: b.as_ptr(),
                                b_stride,
                                b_tile: tile.cols,
                                alpha: 1.0,
                                beta,
                                c: c.as_mut_ptr(),
                                c_strides: (stride, 1),
                                epilogue,
                                // Lines that are not there.
                                next: Next::share(std::ptr::dangling(), 1 << 40, 1, 2, k),
                            };
                            tile.run(rows, cols, k, &operands);
                        }
                    }
                    let depth = if windows { 4 } else { k };
                    for (i, &got) in c.iter().enumerate() {
                        let (row, col) = (i / stride, i % stride);
                        let sum = |row: usize| -> $t {
                            (0..depth).map(|at| a[row * k + at] * b[at * b_stride + col]).sum()
                        };
                        let want = match row < rows && col < cols {
                            true => (sum(row) + beta * 3.0 + bias[col] + other[i]).clamp(-40.0, 50.0),
                            false => 3.0,
                        };
                        assert_eq!(
                            got, want,
                            "{rows} by {cols}, {row} {col}, beta {beta}, windows {windows}"
                        );
                    }
                }
            }
        }
    };
}

/// As [`compare`], for channels of several groups.
macro_rules! compare_groups {
    ($t:ty, $tiles:expr) => {
        for (tile, is_there) in $tiles {
            if !is_there {
                continue;
            }
            let number = |i: usize| ((i * 7 + i / 5) % 11) as $t - 5.0;
            let numbers = |n: usize| (0..n).map(number).collect::<Vec<$t>>();
            let sizes = (1..=tile.lanes).flat_map(|c_out| (1..=c_out).map(move |c_in| (c_in, c_out)));
            for (rows, (c_in, c_out)) in
                (1..=tile.rows).flat_map(|rows| sizes.clone().map(move |size| (rows, size)))
            {
                let groups = tile.lanes / c_out;
                let (inputs, cols, stride) = (groups * c_in, groups * c_out, groups * c_out + 3);
                // Two pieces for each row, of which nothing may be read behind.
                let (a, b) = (numbers((rows + 1) * inputs), numbers(2 * c_in * tile.lanes));
                let (bias, other) = (numbers(cols), numbers(rows * stride));
                let starts: Vec<usize> = (0..rows).map(|row| row * inputs).collect();
                let mut c: Vec<$t> = vec![3.0; rows * stride];
                let epilogue =
                    TileEpilogue { bias: Some(&bias), other: Some(&other), bounds: Some((-40.0, 50.0)) };
                let operands = Windows {
                    a: a.as_ptr(),
                    rows: &starts,
                    pieces: &[0, inputs],
                    piece: c_in,
                    b: b.as_ptr(),
                    c: c.as_mut_ptr(),
                    c_stride: stride,
                    epilogue,
                };
                // SAFETY: the machine has the vectors, and the operands are as large as they must be.
                unsafe { tile.run_groups(cols, &Spread::new(groups, c_in, c_out), &operands) };
                for (i, &got) in c.iter().enumerate() {
                    let (row, col) = (i / stride, i % stride);
                    let sum = || -> $t {
                        let taken = (0..2).flat_map(|piece| (0..c_in).map(move |channel| (piece, channel)));
                        let product = |(piece, channel)| {
                            let x = a[(row + piece) * inputs + col / c_out * c_in + channel];
                            x * b[(piece * c_in + channel) * tile.lanes + col]
                        };
                        taken.map(product).sum()
                    };
                    let want = match col < cols {
                        true => (sum() + bias[col] + other[i]).clamp(-40.0, 50.0),
                        false => 3.0,
                    };
                    assert_eq!(got, want, "{rows} rows, {groups} groups of {c_in} to {c_out}, {row} {col}");
                }
            }
        }
    };
}

/// Calls a macro with the tiles of this machine.
macro_rules! with_tiles {
    ($compare:ident) => {
        #[cfg(target_arch = "aarch64")]
        {
            let neon = std::arch::is_aarch64_feature_detected!("neon");
            $compare!(f32, [(&neon::F32, neon)]);
            $compare!(f64, [(&neon::F64, neon)]);
        }
        #[cfg(target_arch = "x86_64")]
        {
            let avx512 = std::arch::is_x86_feature_detected!("avx512f");
            let avx2 =
                std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma");
            $compare!(f32, [(&x86::F32_AVX512, avx512), (&x86::F32_AVX2, avx2)]);
            $compare!(f64, [(&x86::F64_AVX512, avx512), (&x86::F64_AVX2, avx2)]);
        }
    };
}

#[test]
fn tiles_of_all_sizes_write_their_columns_only() {
    with_tiles!(compare);
}

#[test]
fn channels_of_groups_take_those_of_their_own() {
    with_tiles!(compare_groups);
}
