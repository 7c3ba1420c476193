//! Random numbers, against the published vectors.

use fx_core::rng::*;
use proptest::prelude::*;

#[test]
fn philox_matches_the_published_vectors() {
    assert_eq!(philox4x32_10([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(philox4x32_10([!0; 4], [!0; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
    assert_eq!(
        philox4x32_10(pi, [0xa409_3822, 0x299f_31d0]),
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
    );
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_numbers(seed: u64, n in 0usize..70, cut in 0usize..70) {
        let block = Generator::seeded(seed).reserve(n);
        let cut = cut.min(n);
        macro_rules! same {
            ($ty:ty, $fill:expr, $one:expr) => {{
                let (mut whole, mut parts) = (vec![<$ty>::default(); n], vec![<$ty>::default(); n]);
                $fill(&block, 0, &mut whole);
                let (a, b) = parts.split_at_mut(cut);
                $fill(&block, 0, a);
                $fill(&block, cut, b);
                prop_assert_eq!(&whole, &parts);
                let single: Vec<_> = (0..n).map(|i| $one(&block, i)).collect();
                prop_assert_eq!(whole, single);
            }};
        }
        same!(f32, Block::fill_uniform_f32, Block::uniform_f32);
        same!(f32, Block::fill_normal_f32, Block::normal_f32);
        same!(f64, Block::fill_normal_f64, Block::normal_f64);
        same!(u64, Block::fill_bits, Block::bits64);
    }

    #[test]
    fn permutation_holds_every_integer_once(seed: u64, n in 0usize..200) {
        let mut items = Generator::seeded(seed).permutation(n);
        items.sort_unstable();
        prop_assert_eq!(items, (0..n as i64).collect::<Vec<_>>());
    }
}

#[test]
fn fill_does_not_depend_on_threads() {
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut out = vec![0.0; 50_001];
        pool.install(|| Generator::seeded(7).fill_normal_f32(&mut out));
        out
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn blocks_are_disjoint_and_clones_repeat() {
    let generator = Generator::seeded(1);
    let words: Vec<u64> = (1..40)
        .flat_map(|n| {
            let block = generator.reserve(n);
            (0..n).map(move |i| block.bits64(i)).collect::<Vec<_>>()
        })
        .collect();
    let distinct: std::collections::HashSet<_> = words.iter().collect();
    assert_eq!(distinct.len(), words.len());
    let copy = generator.clone();
    assert_eq!(copy.bits(), generator.bits());
    generator.bits();
    assert_ne!(copy.state(), generator.state());
}

#[test]
fn distributions_have_their_moments() {
    let generator = Generator::seeded(42);
    let n = 200_000;
    let moments = |x: &[f32]| {
        let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / n as f64;
        let power = |k: i32| x.iter().map(|&x| (f64::from(x) - mean).powi(k)).sum::<f64>() / n as f64;
        (mean, power(2), power(4))
    };
    let mut x = vec![0.0; n];
    generator.fill_uniform_f32(&mut x);
    assert!(x.iter().all(|x| (0.0..1.0).contains(x)));
    let (mean, variance, _) = moments(&x);
    assert!((mean - 0.5).abs() < 0.003 && (variance - 1.0 / 12.0).abs() < 0.001);
    generator.fill_normal_f32(&mut x);
    let (mean, variance, fourth) = moments(&x);
    assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.015 && (fourth - 3.0).abs() < 0.1);
    let mut counts = [0; 7];
    let mut items = vec![0; n];
    generator.fill_below(7, &mut items);
    items.iter().for_each(|&i| counts[i as usize] += 1);
    assert!(counts.iter().all(|&c| (c - n as i64 / 7).abs() < 800), "{counts:?}");
}

#[test]
fn override_is_scoped_to_the_closure_also_in_panic() {
    let ours = Generator::seeded(99);
    let expected = ours.clone().bits();
    let unwound = std::panic::catch_unwind(|| {
        with_generator(&ours, || {
            assert_eq!(default_generator().bits(), expected);
            panic!("leave");
        })
    });
    assert!(unwound.is_err());
    assert_eq!(ours.state(), (99, 1));
    assert_ne!(default_generator().state().0, 99);
    manual_seed(5);
    assert_eq!(default_generator().state(), (5, 0));
}
