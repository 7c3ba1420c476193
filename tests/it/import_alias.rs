//! Which arrays can be viewed with other sizes.

use fx::__test::import::is_viewable;

#[test]
fn only_whole_runs_can_be_viewed() {
    assert!(is_viewable(&[2, 3, 4], &[12, 4, 1], &[6, 4]));
    assert!(is_viewable(&[2, 3, 4], &[12, 4, 1], &[24]));
    assert!(!is_viewable(&[3, 2], &[1, 3], &[6]));
    assert!(is_viewable(&[3, 2], &[1, 3], &[3, 1, 2]));
    assert!(!is_viewable(&[2, 2, 3], &[12, 3, 1], &[4, 3]));
    assert!(is_viewable(&[2, 2, 3], &[12, 3, 1], &[2, 6]));
}
