//! Reading a whole text: the graphs in it, which of them refers to which, and their order.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::lex::{Cursor, Problem};
use super::parse::{MAX_PROBLEMS, Parser, Subgraphs};
use crate::{DType, Error, Graph, MAX_DEPTH, Registry, Result, SourceLoc, err};

impl Graph {
    /// Reads the text format; operations are looked up in `registry`.
    ///
    /// Fails with everything that is wrong in the text, each with its line and column.
    pub fn parse(text: &str, registry: &Registry) -> Result<Graph> {
        Graph::parse_file(text, "<text>", registry)
    }

    /// As [`parse`](Self::parse), for the text of a file, whose name is in the errors. Fails as
    /// [`parse`](Self::parse) does.
    pub fn parse_file(text: &str, file: &str, registry: &Registry) -> Result<Graph> {
        let mut problems = Vec::new();
        match read(text, registry, &mut problems) {
            Some(graph) if problems.is_empty() => Ok(graph),
            _ => Err(report(text, file, problems)),
        }
    }
}

/// The text of one graph.
struct Block<'a> {
    start: usize,
    end: usize,
    label: &'a str,
}

fn read(text: &str, registry: &Registry, problems: &mut Vec<Problem>) -> Option<Graph> {
    let blocks = split(text, problems);
    let order = order(text, &blocks, problems);
    let mut subgraphs: Subgraphs<'_> = blocks.iter().skip(1).map(|block| (block.label, None)).collect();
    let mut main = None;
    for index in order {
        if problems.len() >= MAX_PROBLEMS {
            break;
        }
        let block = &blocks[index];
        let cursor = Cursor::new(&text[..block.end], block.start);
        let (graph, found) = Parser::new(cursor, registry, &subgraphs).graph();
        let is_sound = found.is_empty();
        problems.extend(found);
        match (is_sound, index) {
            (true, 0) => main = Some(graph),
            (true, _) => *subgraphs.entry(block.label).or_default() = Some(Arc::new(graph)),
            (false, _) => {}
        }
    }
    main
}

/// Finds the graphs: each begins with the word `graph` on a line of its own.
fn split<'a>(text: &'a str, problems: &mut Vec<Problem>) -> Vec<Block<'a>> {
    let mut blocks: Vec<Block<'a>> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let mut cursor = Cursor::new(&text[..start + line.len()], start);
        cursor.skip_in_line();
        let at = cursor.pos;
        if cursor.starts_with("graph") {
            cursor.pos += "graph".len();
            if matches!(cursor.here(), b' ' | b'\t') {
                cursor.skip_in_line();
                if let Some(label) = cursor.word() {
                    if let Some(last) = blocks.last_mut() {
                        last.end = at;
                    }
                    blocks.push(Block { start: at, end: text.len(), label });
                }
            }
        }
        start += line.len();
    }
    let mut cursor = Cursor::new(text, 0);
    cursor.skip();
    if blocks.first().is_none_or(|first| cursor.pos < first.start) {
        problems.push(cursor.expected("`graph` and a name"));
    }
    blocks
}

/// Returns the graphs so that each comes after those that it refers to, as far as there is no cycle.
fn order(text: &str, blocks: &[Block<'_>], problems: &mut Vec<Problem>) -> Vec<usize> {
    if blocks.len() <= 1 {
        return (0..blocks.len()).collect();
    }
    let mut problem = |block: &Block<'_>, error: Error| {
        if problems.len() < MAX_PROBLEMS {
            problems.push(Problem { at: block.start, error });
        }
    };
    let mut by_label: FxHashMap<&str, usize> = FxHashMap::default();
    for (index, block) in blocks.iter().enumerate() {
        if by_label.insert(block.label, index).is_some() {
            problem(block, err!(Parse, "two graphs are called {:?}", block.label).help("rename one of them"));
        }
    }
    let references: Vec<Vec<usize>> = blocks.iter().map(|block| references(text, block, &by_label)).collect();
    let mut order = Vec::with_capacity(blocks.len());
    let mut heights = vec![0usize; blocks.len()];
    // 0: not seen, 1: on the stack, 2: done.
    let mut state = vec![0u8; blocks.len()];
    for root in 0..blocks.len() {
        if state[root] != 0 {
            continue;
        }
        if root > 0 && by_label[blocks[root].label] == root {
            let error = err!(Parse, "the graph {:?} is never used", blocks[root].label);
            problem(
                &blocks[root],
                error.help(format!("refer to it as @{} or remove it", blocks[root].label)),
            );
        }
        state[root] = 1;
        let mut stack = vec![(root, 0)];
        while let Some((index, next)) = stack.last_mut() {
            let (index, edge) = (*index, *next);
            *next += 1;
            match references[index].get(edge) {
                Some(&to) if state[to] == 0 => {
                    state[to] = 1;
                    stack.push((to, 0));
                }
                Some(&to) if state[to] == 1 => {
                    let error = err!(Parse, "the graph {:?} contains itself", blocks[to].label);
                    problem(
                        &blocks[to],
                        error.help(format!("the cycle closes in {:?}", blocks[index].label)),
                    );
                }
                Some(_) => {}
                None => {
                    let height = references[index].iter().map(|to| 1 + heights[*to]).max().unwrap_or(0);
                    heights[index] = height;
                    if height == MAX_DEPTH + 1 {
                        let error =
                            err!(Parse, "expected sub-graphs within at most {MAX_DEPTH} levels, got more");
                        problem(&blocks[index], error);
                    }
                    if height <= MAX_DEPTH {
                        order.push(index);
                    }
                    state[index] = 2;
                    stack.pop();
                }
            }
        }
    }
    order
}

/// Returns the graphs that a graph refers to, each once.
///
/// A `//` inside the brackets of a type or size is a division; everywhere else it begins a comment.
fn references(text: &str, block: &Block<'_>, by_label: &FxHashMap<&str, usize>) -> Vec<usize> {
    let mut cursor = Cursor::new(&text[..block.end], block.start);
    let mut seen = FxHashSet::default();
    let mut found = Vec::new();
    let mut word = "";
    loop {
        cursor.skip_in_line();
        let before = cursor.pos;
        match cursor.here() {
            _ if cursor.is_at_end() => return found,
            b'"' if cursor.string().is_ok() => {}
            b'<' => {
                if cursor.until(b'>').is_err() {
                    cursor.skip_to_line_end();
                }
            }
            b'[' if word.len() + 1 < before && text[..before].ends_with(word) && is_dtype(word) => {
                if cursor.until(b']').is_err() {
                    cursor.skip_to_line_end();
                }
            }
            b'@' => {
                cursor.pos += 1;
                if let Some(&index) = by_label.get(cursor.segment())
                    && seen.insert(index)
                {
                    found.push(index);
                }
            }
            _ => word = cursor.segment(),
        }
        cursor.step_if_at(before);
    }
}

fn is_dtype(word: &str) -> bool {
    DType::ALL.iter().any(|dtype| dtype.name() == word)
}

fn report(text: &str, file: &str, mut problems: Vec<Problem>) -> Error {
    problems.sort_by_key(|problem| problem.at);
    let file: Arc<str> = Arc::from(file);
    let is_full = problems.len() >= MAX_PROBLEMS;
    problems.truncate(MAX_PROBLEMS);
    let mut errors: Vec<Error> = Vec::with_capacity(problems.len());
    let (mut line, mut line_start, mut scanned) = (1u32, 0, 0);
    for problem in problems {
        let at = text.floor_char_boundary(problem.at);
        for (i, _) in text[scanned..at].match_indices('\n') {
            line = line.saturating_add(1);
            line_start = scanned + i + 1;
        }
        scanned = at;
        let column =
            u32::try_from(text[line_start..at].chars().count()).map_or(u32::MAX, |n| n.saturating_add(1));
        errors.push(problem.error.at(SourceLoc::new(file.clone(), line, column)));
    }
    if is_full {
        errors.push(err!(Limit, "there may be more mistakes, reading stopped after {MAX_PROBLEMS}"));
    }
    Error::many(errors)
}
