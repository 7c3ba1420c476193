//! Smaller programs that fail in the same way.

use super::Line;

/// Deletes lines, and puts the lines below a head in its place, as long as the program still fails.
pub(super) fn shrink(program: Vec<Line>, fails: &mut dyn FnMut(&[Line]) -> bool) -> Vec<Line> {
    let mut program = program;
    loop {
        let mut smaller = false;
        let mut at = 0;
        while at < count(&program) {
            let changes: [fn(Line) -> Vec<Line>; 2] = [|_| Vec::new(), |line| line.body];
            let found = changes.iter().find_map(|change| {
                let candidate = replaced(&program, &mut { at }, change)?;
                (candidate != program && fails(&candidate)).then_some(candidate)
            });
            match found {
                Some(candidate) => (program, smaller) = (candidate, true),
                None => at += 1,
            }
        }
        if !smaller {
            return program;
        }
    }
}

fn count(lines: &[Line]) -> usize {
    lines.iter().map(|line| 1 + count(&line.body)).sum()
}

/// Changes the line of a number, counted from above. Heads of functions are not replaced by their bodies.
fn replaced(lines: &[Line], at: &mut usize, change: &dyn Fn(Line) -> Vec<Line>) -> Option<Vec<Line>> {
    for (i, line) in lines.iter().enumerate() {
        if *at == 0 {
            let mut new = lines[..i].to_vec();
            let made = change(line.clone());
            if !made.is_empty() && ["def ", "class "].iter().any(|word| line.text.starts_with(word)) {
                return None;
            }
            new.extend(made);
            new.extend_from_slice(&lines[i + 1..]);
            return Some(new);
        }
        *at -= 1;
        if let Some(body) = replaced(&line.body, at, change) {
            let mut new = lines.to_vec();
            new[i].body = body;
            return Some(new);
        }
    }
    None
}
