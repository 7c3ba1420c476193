//! Convolutions, against their definition.

use fx_base::Result;
use fx_kernels::conv::*;
use proptest::prelude::*;

fn numbers(len: usize, seed: usize) -> Vec<f64> {
    (0..len).map(|i| ((i * 31 + seed * 17) % 23) as f64 - 11.0).collect()
}

fn unflatten(mut at: usize, sizes: &[usize]) -> Vec<usize> {
    let mut position = vec![0; sizes.len()];
    for (i, &size) in sizes.iter().enumerate().rev() {
        position[i] = at % size;
        at /= size;
    }
    position
}

fn flatten(position: &[usize], sizes: &[usize]) -> usize {
    position.iter().zip(sizes).fold(0, |at, (&p, &size)| at * size + p)
}

/// The definition: every pair of an input and a kernel element, in the place that it reaches.
fn naive(spec: &ConvSpec, x: &[f64], xs: &[usize], w: &[f64], ws: &[usize], bias: &[f64]) -> Vec<f64> {
    let os = spec.output_shape(xs, ws).unwrap();
    let size: usize = os[2..].iter().product();
    let mut out: Vec<f64> = (0..os[0] * os[1] * size).map(|i| bias[i / size % os[1]]).collect();
    let (c_in, c_out) = (xs[1] / spec.groups, os[1] / spec.groups);
    // A window element is (outer position, tap); `outer` runs over inputs if transposed, else over outputs.
    let (outer, inner) = if spec.transposed { (&xs[2..], &os[2..]) } else { (&os[2..], &xs[2..]) };
    for batch in 0..xs[0] {
        for (o, i) in (0..os[1]).flat_map(|o| (0..c_in).map(move |i| (o, i))) {
            let group = o / c_out;
            for at in 0..outer.iter().product() {
                let from = unflatten(at, outer);
                for tap in 0..ws[2..].iter().product() {
                    let t = unflatten(tap, &ws[2..]);
                    let to: Option<Vec<usize>> = (0..t.len())
                        .map(|d| {
                            let p = from[d] * spec.stride[d] + t[d] * spec.dilation[d];
                            p.checked_sub(spec.padding[d]).filter(|&p| p < inner[d])
                        })
                        .collect();
                    let Some(to) = to else { continue };
                    let (in_at, out_at) = if spec.transposed { (&from, &to) } else { (&to, &from) };
                    let channel = group * c_in + i;
                    let xi = (batch * xs[1] + channel) * xs[2..].iter().product::<usize>()
                        + flatten(in_at, &xs[2..]);
                    let oi = (batch * os[1] + o) * size + flatten(out_at, &os[2..]);
                    let lead = if spec.transposed { channel * c_out + o % c_out } else { o * c_in + i };
                    out[oi] += x[xi] * w[lead * ws[2..].iter().product::<usize>() + tap];
                }
            }
        }
    }
    out
}

fn check(spec: &ConvSpec, xs: &[usize], ws: &[usize]) -> Result<()> {
    let os = spec.output_shape(xs, ws)?;
    let (x, w) = (numbers(xs.iter().product(), 1), numbers(ws.iter().product(), 2));
    let bias = numbers(os[1], 3);
    let want = naive(spec, &x, xs, &w, ws, &bias);
    let mut out = vec![f64::NAN; os.iter().product()];
    conv_nd(spec, &x, xs, &w, ws, Some(&bias), &mut out)?;
    assert_eq!(out, want, "{spec:?} of {xs:?} with {ws:?}");
    let single = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<_>>();
    let mut out = vec![f32::NAN; out.len()];
    conv_nd(spec, &single(&x), xs, &single(&w), ws, None, &mut out)?;
    let want = naive(spec, &x, xs, &w, ws, &vec![0.0; os[1]]);
    assert_eq!(out, single(&want), "{spec:?} of {xs:?} with {ws:?}");
    Ok(())
}

/// Input size, kernel, stride, padding, dilation and output padding of a dimension.
type Dimension = (usize, usize, usize, usize, usize, usize);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn convolution_is_the_definition(
        rank in 1usize..4, batch in 0usize..3, (groups, c_in, c_out) in (1usize..4, 0usize..4, 1usize..4),
        dims in prop::collection::vec((0usize..8, 1usize..4, 1usize..4, 0usize..3, 1usize..3, 0usize..2), 3),
        transposed: bool,
    ) {
        let part = |f: fn(&Dimension) -> usize| dims[..rank].iter().map(f).collect::<Vec<_>>();
        let spec = ConvSpec {
            stride: part(|d| d.2), padding: part(|d| d.3), dilation: part(|d| d.4), groups, transposed,
            output_padding: if transposed { part(|d| d.5) } else { vec![0; rank] },
        };
        let mut xs = vec![batch, groups * c_in];
        xs.extend(part(|d| d.0));
        let mut ws = if transposed { vec![groups * c_in, c_out] } else { vec![groups * c_out, c_in] };
        ws.extend(part(|d| d.1));
        if let Err(error) = check(&spec, &xs, &ws) {
            let kind = error.kind();
            prop_assert!(matches!(kind, fx_base::ErrorKind::Shape | fx_base::ErrorKind::Argument), "{error}");
        }
    }
}

#[test]
fn large_convolutions_run_in_blocks() {
    let mut spec = ConvSpec::new(2);
    spec.padding = vec![1, 1];
    check(&spec, &[1, 40, 37, 41], &[5, 40, 3, 3]).unwrap();
    check(&spec, &[1, 300, 15, 33], &[2, 300, 3, 3]).unwrap();
    check(&ConvSpec::new(2), &[2, 7, 11, 13], &[9, 7, 1, 1]).unwrap();
    spec.transposed = true;
    check(&spec, &[1, 3, 200, 190], &[3, 6, 3, 3]).unwrap();
}

#[test]
fn small_images_are_convolved_together() {
    let mut spec = ConvSpec::new(2);
    check(&spec, &[7, 8, 5, 4], &[13, 8, 3, 3]).unwrap();
    check(&spec, &[40, 8, 3, 3], &[3, 8, 3, 3]).unwrap();
    (spec.padding, spec.stride, spec.groups) = (vec![1, 2], vec![2, 3], 2);
    check(&spec, &[5, 16, 9, 11], &[6, 8, 3, 3]).unwrap();
    check(&spec, &[3, 40, 13, 15], &[4, 20, 2, 2]).unwrap();
}

#[test]
fn output_sizes_are_checked() {
    let spec = ConvSpec::new(1);
    let message = |result: Result<Vec<usize>>| result.unwrap_err().message().to_owned();
    assert_eq!(
        message(spec.output_size(&[2], &[3])),
        "convolution takes a padded input of at least 3 in dimension 0, got 2"
    );
    assert_eq!(spec.output_size(&[7], &[3]).unwrap(), [5]);
    let huge = ConvSpec { padding: vec![usize::MAX], ..spec.clone() };
    assert_eq!(huge.output_size(&[7], &[3]).unwrap_err().kind(), fx_base::ErrorKind::Limit);
    let grouped = ConvSpec { groups: 2, ..spec };
    assert_eq!(
        message(grouped.output_shape(&[1, 3, 8], &[4, 1, 3])),
        "channels of input and weight must be multiples of groups 2, got (3, 4)"
    );
}
