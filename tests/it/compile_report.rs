//! Lists in explanations.

use fx::__test::listed;

#[test]
fn what_repeats_in_a_list_is_written_once() {
    let text = |items: &str| listed(&items.split(' ').map(str::to_owned).collect::<Vec<_>>());
    for (items, want) in [
        ("a", "a"),
        ("a b c", "a, b, c"),
        ("a a a", "a ×3"),
        ("a b a b a b a c", "(a, b) ×3, a, c"),
        ("s0 s1 s2 s1 s2 s1 s2 return", "s0, (s1, s2) ×3, return"),
        ("a a b a a b", "(a, a, b) ×2"),
        ("a b c d e f g h i a b c d e f g h i", "a, b, c, d, e, f, g, h, i, a, b, c, d, e, f, g, h, i"),
    ] {
        assert_eq!(text(items), want);
    }
    let many: Vec<String> = (0..100).map(|i| i.to_string()).collect();
    assert!(listed(&many).contains("31, … 36 more …, 68"), "{}", listed(&many));
}
