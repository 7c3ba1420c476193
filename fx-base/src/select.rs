//! Sorting and selection that choose among equal elements as PyTorch does.
//!
//! PyTorch's `topk`, `mode` and `kthvalue` are not stable: which of several equal elements they name follows
//! from the algorithms that it uses, introsort, introselect and heap selection as in libstdc++, and a
//! quickselect of its own. These are the same ones, step by step. They stay in bounds also for an order that
//! is not consistent, such as `<` with NaN.

/// Slices of at most this length are left to insertion.
const SHORT: usize = 16;

/// Sorts as `std::sort`.
pub fn sort<T: Copy>(items: &mut [T], less: &impl Fn(&T, &T) -> bool) {
    if items.is_empty() {
        return;
    }
    introsort(items, 2 * items.len().ilog2(), less);
    let head = items.len().min(SHORT);
    insertion_sort(&mut items[..head], less);
    for last in head..items.len() {
        insert(items, last, less);
    }
}

/// Puts the element that sorting would put at `nth` there, those before it before, as `std::nth_element`.
pub fn nth_element<T: Copy>(items: &mut [T], nth: usize, less: &impl Fn(&T, &T) -> bool) {
    if nth >= items.len() {
        return;
    }
    let (mut first, mut last) = (0, items.len());
    let mut depth = 2 * items.len().ilog2();
    while last - first > 3 {
        if depth == 0 {
            heap_select(&mut items[first..last], nth + 1 - first, less);
            items.swap(first, nth);
            return;
        }
        depth -= 1;
        let cut = first + partition(&mut items[first..last], less);
        if cut <= nth {
            first = cut;
        } else {
            last = cut;
        }
    }
    insertion_sort(&mut items[first..last], less);
}

/// Sorts the `middle` least elements to the front, as `std::partial_sort`.
pub fn partial_sort<T: Copy>(items: &mut [T], middle: usize, less: &impl Fn(&T, &T) -> bool) {
    if middle == 0 {
        return;
    }
    heap_select(items, middle, less);
    for last in (1..middle).rev() {
        pop_heap(items, last, last, less);
    }
}

/// Puts the element that sorting would put at `nth` there, as PyTorch's quickselect.
pub fn quick_select<T: Copy>(items: &mut [T], nth: usize, greater: &impl Fn(&T, &T) -> bool) {
    let Some(mut right) = items.len().checked_sub(1) else { return };
    let mut left = 0;
    while left < right {
        if right == left + 1 {
            order_pair(items, left, right, greater);
            return;
        }
        items.swap(left + (right - left) / 2, left + 1);
        order_pair(items, left + 1, right, greater);
        order_pair(items, left, right, greater);
        order_pair(items, left + 1, left, greater);
        let pivot = items[left];
        let (mut i, mut j) = (left + 1, right);
        loop {
            i += 1;
            while i < right && greater(&pivot, &items[i]) {
                i += 1;
            }
            j -= 1;
            while j > left && greater(&items[j], &pivot) {
                j -= 1;
            }
            if j < i {
                break;
            }
            items.swap(i, j);
        }
        items.swap(left, j);
        let (below, above) = (j <= nth, j >= nth);
        if below {
            left = i;
        }
        if above {
            right = j.saturating_sub(1);
        }
    }
}

fn order_pair<T: Copy>(items: &mut [T], a: usize, b: usize, greater: &impl Fn(&T, &T) -> bool) {
    if greater(&items[a], &items[b]) {
        items.swap(a, b);
    }
}

fn introsort<T: Copy>(mut items: &mut [T], mut depth: u32, less: &impl Fn(&T, &T) -> bool) {
    while items.len() > SHORT {
        if depth == 0 {
            let n = items.len();
            return partial_sort(items, n, less);
        }
        depth -= 1;
        let cut = partition(items, less);
        let (before, after) = items.split_at_mut(cut);
        introsort(after, depth, less);
        items = before;
    }
}

/// Splits around the median of three elements; returns where the second part begins.
fn partition<T: Copy>(items: &mut [T], less: &impl Fn(&T, &T) -> bool) -> usize {
    let n = items.len();
    let (a, b, c) = (1, n / 2, n - 1);
    let is = |i: usize, j: usize| less(&items[i], &items[j]);
    let median = match (is(a, b), is(b, c), is(a, c)) {
        (true, true, _) | (false, false, false) => b,
        (true, false, true) | (false, true, false) => c,
        (true, false, false) | (false, _, true) => a,
    };
    items.swap(0, median);
    let pivot = items[0];
    let (mut first, mut last) = (1, n);
    loop {
        while first < n && less(&items[first], &pivot) {
            first += 1;
        }
        last -= 1;
        while last > 0 && less(&pivot, &items[last]) {
            last -= 1;
        }
        if first >= last {
            return first.clamp(1, n - 1);
        }
        items.swap(first, last);
        first += 1;
    }
}

fn insertion_sort<T: Copy>(items: &mut [T], less: &impl Fn(&T, &T) -> bool) {
    for i in 1..items.len() {
        if less(&items[i], &items[0]) {
            items[..=i].rotate_right(1);
        } else {
            insert(items, i, less);
        }
    }
}

/// Moves the element at `last` before those that it is less than.
fn insert<T: Copy>(items: &mut [T], last: usize, less: &impl Fn(&T, &T) -> bool) {
    let value = items[last];
    let mut at = last;
    while at > 0 && less(&value, &items[at - 1]) {
        items[at] = items[at - 1];
        at -= 1;
    }
    items[at] = value;
}

/// Makes the first `middle` elements a heap of the least.
fn heap_select<T: Copy>(items: &mut [T], middle: usize, less: &impl Fn(&T, &T) -> bool) {
    for parent in (0..middle / 2).rev() {
        let value = items[parent];
        adjust_heap(&mut items[..middle], parent, value, less);
    }
    for i in middle..items.len() {
        if less(&items[i], &items[0]) {
            pop_heap(items, middle, i, less);
        }
    }
}

/// Moves the top of the heap of `len` elements to `to`, and what was there into the heap.
fn pop_heap<T: Copy>(items: &mut [T], len: usize, to: usize, less: &impl Fn(&T, &T) -> bool) {
    let value = items[to];
    items[to] = items[0];
    adjust_heap(&mut items[..len], 0, value, less);
}

fn adjust_heap<T: Copy>(heap: &mut [T], top: usize, value: T, less: &impl Fn(&T, &T) -> bool) {
    let len = heap.len();
    let (mut hole, mut child) = (top, top);
    while child < (len - 1) / 2 {
        child = 2 * (child + 1);
        if less(&heap[child], &heap[child - 1]) {
            child -= 1;
        }
        heap[hole] = heap[child];
        hole = child;
    }
    if len.is_multiple_of(2) && child == (len - 2) / 2 {
        child = 2 * (child + 1);
        heap[hole] = heap[child - 1];
        hole = child - 1;
    }
    while hole > top {
        let parent = (hole - 1) / 2;
        if !less(&heap[parent], &value) {
            break;
        }
        heap[hole] = heap[parent];
        hole = parent;
    }
    heap[hole] = value;
}
