//! Pooling, against its definition.

use fx_kernels::pool::*;
use proptest::prelude::*;

/// Returns the coordinates of all elements of a box, in row-major order.
fn coordinates(sizes: &[usize]) -> Vec<Vec<usize>> {
    sizes.iter().fold(vec![vec![]], |all, &size| {
        all.iter().flat_map(|c| (0..size).map(move |i| [c.as_slice(), &[i]].concat())).collect()
    })
}

fn flatten(position: &[usize], sizes: &[usize]) -> usize {
    position.iter().zip(sizes).fold(0, |at, (&p, &size)| at * size + p)
}

fn numbers(len: usize) -> Vec<f64> {
    (0..len).map(|i| if i % 19 == 7 { f64::NAN } else { ((i * 37) % 11) as f64 - 5.0 }).collect()
}

/// Returns the flat positions of a window in the input, and how many elements lie in input or border.
fn window(spec: &PoolSpec, at: &[usize], input: &[usize]) -> (Vec<usize>, usize) {
    let (mut inside, mut padded) = (vec![], 0);
    for tap in coordinates(&spec.kernel) {
        let place: Vec<i64> = (0..at.len())
            .map(|i| (at[i] * spec.stride[i] + tap[i] * spec.dilation[i]) as i64 - spec.padding[i] as i64)
            .collect();
        padded += usize::from((0..at.len()).all(|i| place[i] < (input[i] + spec.padding[i]) as i64));
        if (0..at.len()).all(|i| (0..input[i] as i64).contains(&place[i])) {
            inside.push(flatten(&place.iter().map(|&p| p as usize).collect::<Vec<_>>(), input));
        }
    }
    (inside, padded)
}

fn largest(x: &[f64], window: &[usize]) -> (f64, i64) {
    let nan = window.iter().rev().find(|&&p| x[p].is_nan());
    let first = window.iter().rev().max_by(|&&a, &&b| x[a].total_cmp(&x[b]));
    nan.or(first).map_or((f64::NEG_INFINITY, 0), |&p| (x[p], p as i64))
}

fn same(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()))
}

/// Pools planes as channels that lie last, and returns planes of `to` elements.
fn with_channels_last(pool: &Pooling, planes: usize, x: &[f64], to: usize) -> Vec<f64> {
    let turned = |x: &[f64], rows: usize, columns: usize| -> Vec<f64> {
        (0..x.len()).map(|i| x[i % rows * columns + i / rows]).collect()
    };
    let mut out = vec![0.25; planes * to];
    pool.run_channels_last(planes, &turned(x, planes, x.len() / planes.max(1)), &mut out);
    turned(&out, to, planes)
}

/// Input size, kernel, stride, padding and dilation of a dimension.
type Dimension = (usize, usize, usize, usize, usize);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn pooling_is_the_definition(
        dims in prop::collection::vec((0usize..9, 1usize..5, 1usize..4, 0usize..3, 1usize..4), 1..4),
        planes in prop::sample::select(vec![0usize, 1, 2, 5, 9, 17, 33]), ceil_mode: bool,
    ) {
        let part = |f: fn(&Dimension) -> usize| dims.iter().map(f).collect::<Vec<_>>();
        let input = part(|d| d.0);
        let mut spec = PoolSpec {
            kernel: part(|d| d.1), stride: part(|d| d.2), padding: part(|d| d.3.min(d.1 / 2)), dilation: part(|d| d.4), ceil_mode,
        };
        let size: usize = input.iter().product();
        let x = numbers(planes * size);
        if let Ok(output) = spec.output_size(&input) {
            let to: usize = output.iter().product();
            let (mut out, mut indices) = (vec![0.0; planes * to], vec![-1; planes * to]);
            max_pool(&spec, &x, &input, &mut out, Some(&mut indices)).unwrap();
            let want: Vec<_> = (0..planes)
                .flat_map(|p| coordinates(&output).into_iter().map(move |at| (p, at)))
                .map(|(p, at)| largest(&x[p * size..][..size], &window(&spec, &at, &input).0))
                .collect();
            prop_assert!(same(&out, &want.iter().map(|w| w.0).collect::<Vec<_>>()), "{:?} {:?}", out, want);
            prop_assert_eq!(indices, want.iter().map(|w| w.1).collect::<Vec<_>>());
            let mut alone = vec![0.0; planes * to];
            max_pool(&spec, &x, &input, &mut alone, None).unwrap();
            prop_assert!(same(&alone, &out));
            let last = Pooling::max(&spec, &input).unwrap();
            prop_assert!(same(&with_channels_last(&last, planes, &x, to), &out));
        }
        spec.dilation = vec![1; input.len()];
        if let Ok(output) = spec.output_size(&input) {
            for divisor in [Divisor::IncludePadding, Divisor::ExcludePadding, Divisor::Override(-3)] {
                let mut out = vec![0.5; planes * output.iter().product::<usize>()];
                avg_pool(&spec, &x, &input, divisor, &mut out).unwrap();
                let want: Vec<f64> = (0..planes)
                    .flat_map(|p| coordinates(&output).into_iter().map(move |at| (p, at)))
                    .map(|(p, at)| {
                        let (inside, padded) = window(&spec, &at, &input);
                        let sum: f64 = inside.iter().map(|&i| x[p * size + i]).sum();
                        let by = match divisor {
                            Divisor::IncludePadding => padded as f64,
                            Divisor::ExcludePadding => inside.len() as f64,
                            Divisor::Override(by) => by as f64,
                        };
                        if inside.is_empty() { 0.0 } else { sum / by }
                    })
                    .collect();
                prop_assert!(same(&out, &want), "{:?} {:?} {:?}", divisor, out, want);
                let last = Pooling::average(&spec, &input, divisor).unwrap();
                let to = output.iter().product();
                prop_assert!(same(&with_channels_last(&last, planes, &x, to), &want));
            }
        }
    }

    #[test]
    fn adaptive_pooling_is_the_definition(
        dims in prop::collection::vec((1usize..9, 0usize..9), 1..4), planes in prop::sample::select(vec![0usize, 1, 2, 5, 9, 17, 33]),
    ) {
        let (input, output): (Vec<usize>, Vec<usize>) = dims.into_iter().unzip();
        let size: usize = input.iter().product();
        let x = numbers(planes * size);
        let to: usize = output.iter().product();
        let (mut out, mut indices, mut average) = (vec![0.0; planes * to], vec![-1; planes * to], vec![0.0; planes * to]);
        adaptive_max_pool(&x, &input, &output, &mut out, Some(&mut indices)).unwrap();
        adaptive_avg_pool(&x, &input, &output, &mut average).unwrap();
        let last = Pooling::adaptive_average(&input, &output).unwrap();
        prop_assert!(same(&with_channels_last(&last, planes, &x, to), &average));
        for (i, at) in (0..planes).flat_map(|_| coordinates(&output)).enumerate() {
            let plane = &x[i / to * size..][..size];
            let parts: Vec<usize> = coordinates(&input)
                .iter()
                .filter(|p| (0..p.len()).all(|d| {
                    let start = (at[d] as f64 * input[d] as f64 / output[d] as f64).floor() as usize;
                    let end = ((at[d] + 1) as f64 * input[d] as f64 / output[d] as f64).ceil() as usize;
                    (start..end).contains(&p[d])
                }))
                .map(|p| flatten(p, &input))
                .collect();
            let (value, index) = largest(plane, &parts);
            prop_assert!(same(&[out[i]], &[value]));
            prop_assert_eq!(indices[i], index);
            let sum: f64 = parts.iter().map(|&p| plane[p]).sum();
            prop_assert!(same(&[average[i]], &[sum / parts.len() as f64]));
        }
    }
}

proptest! {
    #[test]
    fn maxima_of_long_rows_are_the_definition(
        (width, kernel, stride, padding, dilation) in (1usize..150, 1usize..9, 1usize..7, 0usize..5, 1usize..4),
        height in 1usize..5, ceil_mode: bool,
    ) {
        let spec = PoolSpec {
            kernel: vec![height.min(3), kernel], stride: vec![1, stride], padding: vec![0, padding.min(kernel / 2)],
            dilation: vec![1, dilation], ceil_mode,
        };
        let input = [height, width];
        if let Ok(output) = spec.output_size(&input) {
            let x = numbers(height * width);
            let want: Vec<f64> =
                coordinates(&output).iter().map(|at| largest(&x, &window(&spec, at, &input).0).0).collect();
            let mut out = vec![0.25; want.len()];
            max_pool(&spec, &x, &input, &mut out, None).unwrap();
            prop_assert!(same(&out, &want), "{out:?} {want:?}");
        }
    }
}

#[test]
fn ceil_mode_counts_as_pytorch() {
    let mut spec = PoolSpec::new(vec![2]);
    spec.ceil_mode = true;
    assert_eq!(spec.output_size(&[5]).unwrap(), [3]);
    // The third window would begin in the right border.
    spec.padding = vec![1];
    assert_eq!(spec.output_size(&[3]).unwrap(), [2]);
    let x = [1.0f32, 2.0, 3.0, 4.0, 5.0];
    let mut out = [0.0; 3];
    spec.padding = vec![0];
    avg_pool(&spec, &x, &[5], Divisor::IncludePadding, &mut out).unwrap();
    assert_eq!(out, [1.5, 3.5, 5.0]);
}

#[test]
fn impossible_poolings_are_errors() {
    let mut spec = PoolSpec::new(vec![3]);
    let message = |spec: &PoolSpec, n: usize| spec.output_size(&[n]).unwrap_err().message().to_owned();
    assert_eq!(message(&spec, 2), "pooling takes a padded input of at least 3 in dimension 0, got 2");
    spec.padding = vec![2];
    assert_eq!(message(&spec, 9), "padding must be at most half the window of 3 in dimension 0, got 2");
    spec = PoolSpec::new(vec![usize::MAX]);
    assert_eq!(spec.output_size(&[1]).unwrap_err().kind(), fx_base::ErrorKind::Limit);
    let spec = PoolSpec::new(vec![2]);
    assert!(max_pool(&spec, &[1.0f32; 5], &[4], &mut [0.0; 2], None).is_err());
    assert!(avg_pool(&spec, &[1.0f32; 4], &[4], Divisor::Override(0), &mut [0.0; 2]).is_err());
    assert!(adaptive_avg_pool::<f32>(&[], &[0], &[1], &mut [0.0]).is_err());
}
