//! Random numbers as PyTorch's.

use fx_core::rng::Generator;

/// What torch 2.15 gives on a CPU, after `torch.manual_seed(7)` for each.
#[test]
fn draws_are_those_of_pytorch() {
    let generator = || Generator::pytorch(7);
    let (mut rand, mut wide) = ([0f32; 4], [0f64; 2]);
    let both = generator();
    both.fill_uniform_f32(&mut rand);
    both.fill_uniform_f64(&mut wide);
    assert_eq!(rand, [0.534_922_54, 0.198_803_19, 0.659_211_7, 0.656_890_3]);
    assert_eq!(wide, [0.8620929614176255, 0.6566884305882014]);

    let (mut small, mut large) = ([0i64; 6], [0i64; 2]);
    let both = generator();
    both.fill_below(1000, &mut small);
    both.fill_below(1 << 40, &mut large);
    assert_eq!(small, [615, 892, 721, 286, 283, 347]);
    assert_eq!(large, [650496783975, 396459895993]);
    assert_eq!(generator().permutation(10), [5, 0, 3, 4, 1, 7, 9, 6, 8, 2]);

    let mut kept = [false; 12];
    generator().fill_kept(0.25, &mut kept);
    assert_eq!(kept.map(u8::from), [1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 1]);
    let chances = [0.1, 0.5, 0.9, 0.3, 0.7, 0.5];
    let mut drawn = [false; 6];
    generator().fill_bernoulli(|i| chances[i], true, &mut drawn);
    assert_eq!(drawn.map(u8::from), [0, 1, 1, 0, 1, 1]);

    let close = |got: &[f64], expected: &[f64], tolerance: f64| {
        assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() < tolerance), "{got:?}");
    };
    let mut five = [0f64; 5];
    generator().fill_normal_f64(&mut five);
    let expected = [
        -0.1467950974849952,
        0.7861412987235358,
        0.9468216090039564,
        -1.1143440212610307,
        1.6907901257942333,
    ];
    close(&five, &expected, 1e-14);
    let mut twenty = [0f32; 20];
    generator().fill_normal_f32(&mut twenty);
    // PyTorch's logarithm and cosine of f32 are its own: the last bits differ.
    let ends = [twenty[0], twenty[3], twenty[4], twenty[19]].map(f64::from);
    close(
        &ends,
        &[-0.8201345205307007, -1.3884038925170898, 0.19844505190849304, -0.35672253370285034],
        1e-6,
    );
    let mut wide = [0f64; 20];
    generator().fill_normal_f64(&mut wide);
    close(&wide[18..], &[2.03026332869622, 0.6596523264462502], 1e-14);
}
