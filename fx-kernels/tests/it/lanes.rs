//! Rows that are joined in lanes.

use fx_kernels::lanes::*;

#[test]
fn rows_of_any_length_are_joined() {
    for n in (0..70).chain([127, 128, 129, 1000]) {
        let row: Vec<f64> = (0..n).map(|i| f64::from(i * 7 % 31 - 9)).collect();
        let total: f64 = row.iter().map(|x| x * 2.0).sum();
        assert_eq!(fold(&row, 0.0, |x| x * 2.0, |a, b| a + b), total);
        let greatest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        assert_eq!(fold(&row, f64::NEG_INFINITY, |x| x, f64::max), greatest);
        let other: Vec<f64> = row.iter().rev().map(|x| x + 1.0).collect();
        let sum: f64 = row.iter().zip(&other).map(|(a, b)| a * b).sum();
        assert_eq!(dot::<_, 16>(&row, &other, 0.0), sum);
        assert_eq!(dot::<_, 256>(&row, &other, 0.0), sum);
    }
}
