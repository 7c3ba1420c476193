//! Keeping the marked of a sequence of numbers.

use fx_core::array::compacted;

#[test]
fn marked_numbers_are_kept_in_order() {
    // The numbers that are marked at a time.
    const CHUNK: usize = 4096;
    for n in [0, 1, 5, CHUNK, CHUNK + 1, 3 * CHUNK + 7] {
        let mark = |at: usize, marks: &mut [bool]| {
            marks.iter_mut().enumerate().for_each(|(i, mark)| *mark = (at + i) % 7 < 3);
        };
        let expected: Vec<i64> = (0..n as i64).filter(|i| i % 7 < 3).collect();
        assert_eq!(compacted(n, &mark, |i| i as i64).unwrap(), expected);
    }
}
