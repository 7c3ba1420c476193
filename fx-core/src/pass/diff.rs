//! The difference of two texts, line by line.

use std::fmt::Write as _;

/// How many lines of either text may differ before the middle is shown as replaced as a whole.
const MOST_EDITS: usize = 1000;

/// Returns the lines that differ, with `-` and `+` before them and two lines around each; empty if the texts
/// are equal.
pub fn text_diff(before: &str, after: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let mut out = String::new();
    let edits = edits(&a, &b);
    let mut shown = 0;
    for (i, (sign, line)) in edits.iter().enumerate() {
        let near = edits[i.saturating_sub(2)..edits.len().min(i + 3)].iter().any(|(sign, _)| *sign != ' ');
        if !near {
            continue;
        }
        if shown > 0 && i > shown {
            out.push_str("...\n");
        }
        shown = i + 1;
        let _ = writeln!(out, "{sign}{line}");
    }
    out
}

/// Returns every line of both texts in order, with ` ` for those of both.
pub fn edits<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<(char, &'a str)> {
    let prefix = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let suffix = a[prefix..].iter().rev().zip(b[prefix..].iter().rev()).take_while(|(a, b)| a == b).count();
    let mut edits: Vec<(char, &str)> = a[..prefix].iter().map(|line| (' ', *line)).collect();
    edits.extend(middle(&a[prefix..a.len() - suffix], &b[prefix..b.len() - suffix]));
    edits.extend(a[a.len() - suffix..].iter().map(|line| (' ', *line)));
    edits
}

/// The shortest edit (Myers, "An O(ND) difference algorithm", 1986), within a bound.
fn middle<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<(char, &'a str)> {
    let replaced = || a.iter().map(|line| ('-', *line)).chain(b.iter().map(|line| ('+', *line))).collect();
    let most = (a.len() + b.len()).min(MOST_EDITS);
    // `furthest[most + k]` is how far the best path on diagonal k has come in `a`.
    let mut furthest = vec![0usize; 2 * most + 2];
    let mut trace: Vec<Vec<usize>> = Vec::new();
    for d in 0..=most {
        trace.push(furthest[most - d..=most + d + 1].to_vec());
        let mut at = most - d;
        while at <= most + d {
            let down = at == most - d || at != most + d && furthest[at - 1] < furthest[at + 1];
            let mut x = if down { furthest[at + 1] } else { furthest[at - 1] + 1 };
            let mut y = x + most - at;
            while x < a.len() && y < b.len() && a[x] == b[y] {
                (x, y) = (x + 1, y + 1);
            }
            furthest[at] = x;
            if x >= a.len() && y >= b.len() {
                return walk_back(a, b, &trace, d, most);
            }
            at += 2;
        }
    }
    replaced()
}

fn walk_back<'a>(
    a: &[&'a str],
    b: &[&'a str],
    trace: &[Vec<usize>],
    d: usize,
    most: usize,
) -> Vec<(char, &'a str)> {
    let (mut x, mut y) = (a.len(), b.len());
    let mut edits = Vec::new();
    for d in (1..=d).rev() {
        // The row as it was before step d; its first entry is that of diagonal -d.
        let row = |at: usize| trace[d][at + d - most];
        let at = most + x - y;
        let down = at == most - d || at != most + d && row(at - 1) < row(at + 1);
        let before_at = if down { at + 1 } else { at - 1 };
        let before_x = row(before_at);
        let before_y = before_x + most - before_at;
        while x > before_x && y > before_y {
            (x, y) = (x - 1, y - 1);
            edits.push((' ', a[x]));
        }
        edits.push(if down { ('+', b[before_y]) } else { ('-', a[before_x]) });
        (x, y) = (before_x, before_y);
    }
    edits.extend(a[..x].iter().rev().map(|line| (' ', *line)));
    edits.reverse();
    edits
}
