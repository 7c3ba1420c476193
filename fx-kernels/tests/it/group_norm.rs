//! Group normalisation in both orders.

use fx_kernels::group_norm::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn groups_are_normalised_in_both_orders(
        n in 0usize..4, groups in 1usize..5, group in 1usize..12, plane in prop::sample::select(vec![1usize, 2, 7, 300, 2500]),
        has_weight: bool, has_bias: bool,
    ) {
        let channels = groups * group;
        let norm = GroupNorm { channels, plane, groups, eps: 1e-5 };
        let number = |i: usize| ((i * 7919 + i / 13) % 1009) as f64 / 100.0 - 3.0;
        let x: Vec<f64> = (0..n * channels * plane).map(number).collect();
        let (weight, bias): (Vec<f64>, Vec<f64>) = (0..channels).map(|i| (number(i + 5), number(i * 3))).unzip();
        let affine = [has_weight.then_some(&weight[..]), has_bias.then_some(&bias[..])];
        let mut want = vec![0.0; x.len()];
        for (i, (x, want)) in x.chunks(group * plane).zip(want.chunks_mut(group * plane)).enumerate() {
            let count = (group * plane) as f64;
            let mean = x.iter().sum::<f64>() / count;
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
            for (j, (x, want)) in x.iter().zip(want).enumerate() {
                let channel = i % groups * group + j / plane;
                *want = (x - mean) / (variance + 1e-5).sqrt();
                *want = *want * affine[0].map_or(1.0, |w| w[channel]) + affine[1].map_or(0.0, |b| b[channel]);
            }
        }
        let close = |got: &[f64]| got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-9 * (1.0 + b.abs()));
        let mut got = vec![f64::NAN; x.len()];
        norm.run(&x, &mut got, affine);
        prop_assert!(close(&got));
        // Position by position.
        let at = |i: usize| (i / (channels * plane), i / channels % plane, i % channels);
        let from = |i: usize| { let (n, position, channel) = at(i); (n * channels + channel) * plane + position };
        let last: Vec<f64> = (0..x.len()).map(|i| x[from(i)]).collect();
        let mut out = vec![f64::NAN; x.len()];
        norm.run_last(&last, &mut out, affine);
        (0..x.len()).for_each(|i| got[from(i)] = out[i]);
        prop_assert!(close(&got));
    }
}

proptest! {
    #[test]
    fn channels_are_normalised_over_all_images(
        n in 0usize..5, channels in 1usize..70, plane in prop::sample::select(vec![1usize, 3, 31, 32, 300, 2500]),
        has_weight: bool, has_bias: bool,
    ) {
        let norm = GroupNorm { channels, plane, groups: channels, eps: 1e-5 };
        let number = |i: usize| ((i * 7919 + i / 13) % 1009) as f64 / 100.0 - 3.0;
        let x: Vec<f64> = (0..n * channels * plane).map(number).collect();
        let (weight, bias): (Vec<f64>, Vec<f64>) = (0..channels).map(|i| (number(i + 5), number(i * 3))).unzip();
        let affine = [has_weight.then_some(&weight[..]), has_bias.then_some(&bias[..])];
        let mut got = vec![f64::NAN; x.len()];
        norm.run_across(&x, &mut got, affine);
        for channel in 0..channels {
            let is_own = |i: &usize| i / plane % channels == channel;
            let own: Vec<f64> = (0..x.len()).filter(is_own).map(|i| x[i]).collect();
            let mean = own.iter().sum::<f64>() / own.len() as f64;
            let variance = own.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / own.len() as f64;
            for i in (0..x.len()).filter(is_own) {
                let want = (x[i] - mean) / (variance + 1e-5).sqrt();
                let want = want * affine[0].map_or(1.0, |w| w[channel]) + affine[1].map_or(0.0, |b| b[channel]);
                prop_assert!((got[i] - want).abs() < 1e-9 * (1.0 + want.abs()), "{i}: {} {want}", got[i]);
            }
        }
    }
}
