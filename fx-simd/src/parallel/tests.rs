use super::*;

fn in_pool<R: Send>(n: usize, f: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(n).build().expect("threads can be made").install(f)
}

#[test]
fn every_task_is_done_once() {
    for threads in [1, 2, 3, 8] {
        for n in [0, 1, 2, 7, 1000] {
            let counts: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
            in_pool(threads, || {
                each(n, |i| {
                    counts[i].fetch_add(1, Ordering::Relaxed);
                });
            });
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{threads} {n}");
        }
    }
}

#[test]
fn every_element_is_in_one_tile() {
    for (n_matrices, n, inner, width, at_once) in [
        (0, 3, 2, 1, 1),
        (2, 5, 7, 3, 2),
        (1, 4, 9, 9, 1),
        (3, 1, 4, 100, 1),
        (2, 3, 5, 1, 4),
        (1, 0, 3, 2, 1),
    ] {
        let mut items = vec![0; n_matrices * n * inner];
        in_pool(3, || {
            tiles(&mut items, [n, inner], width, at_once, |matrix, first, mut tile| {
                for row in 0..n {
                    let of_row = tile.row(row).iter_mut().enumerate();
                    of_row.for_each(|(i, x)| *x += (matrix * n + row) * inner + first + i);
                }
            });
        });
        assert!(items.iter().copied().eq(0..items.len()), "{n_matrices} {n} {inner} {width}");
    }
    assert!(catch_unwind(|| tiles(&mut [0; 5], [2, 2], 1, 1, |_, _, _| ())).is_err());
}

#[test]
fn loops_in_whole_tasks_stay_on_their_threads() {
    for n in [1, 2, 3, 20] {
        let (total, apart) = (AtomicUsize::new(0), AtomicUsize::new(0));
        in_pool(3, || {
            each_whole(n, |_| {
                let own = std::thread::current().id();
                each(50, |_| {
                    total.fetch_add(1, Ordering::Relaxed);
                    apart.fetch_add(usize::from(std::thread::current().id() != own), Ordering::Relaxed);
                });
            });
            assert_eq!(threads(), 3, "this ends with the loop");
        });
        assert_eq!(total.into_inner(), 50 * n);
        assert!(n < 3 || apart.into_inner() == 0);
    }
    let panics = || in_pool(2, || each_whole(4, |_| panic!("a task")));
    assert!(catch_unwind(panics).is_err());
    assert_eq!(in_pool(2, threads), 2);
}

#[test]
fn loops_have_no_more_threads_than_they_are_given() {
    let seen = Mutex::new(std::collections::HashMap::<_, std::collections::HashSet<_>>::new());
    in_pool(4, || {
        assert_eq!((threads(), with_threads(2, threads), with_threads(9, threads)), (4, 2, 4));
        assert_eq!((with_threads(0, threads), with_threads(3, || with_threads(8, threads))), (1, 3));
        for most in [4, 1, 2, 3, 2] {
            with_threads(most, || {
                each(200, |_| {
                    // So do loops in their tasks, on whatever thread.
                    assert!(threads() <= most);
                    each(3, |_| {
                        (0..500).for_each(|_| std::hint::spin_loop());
                    });
                    let mut seen = seen.lock().unwrap();
                    seen.entry(most).or_default().insert(std::thread::current().id());
                });
            });
            let mut seen = seen.lock().unwrap();
            let ids = seen.remove(&most).unwrap();
            assert!(ids.len() <= most, "{} threads for {most}", ids.len());
        }
        assert_eq!(threads(), 4);
    });
}

#[test]
fn chunks_are_numbered_and_scratch_is_kept() {
    for (len, width, at_once) in [(1000, 7, 3), (5, 10, 1), (0, 3, 2), (64, 64, 1), (9, usize::MAX, 4)] {
        let mut items = vec![0; len];
        let run = |scratch: &mut usize, i: usize, chunk: &mut [usize]| {
            *scratch += 1;
            chunk.fill(i + 1);
        };
        chunks_with(&mut items, width, at_once, || 0, run);
        assert!(items.iter().enumerate().all(|(i, &x)| x == i / width + 1));
    }
}

#[test]
fn pairs_of_chunks_belong_together() {
    let (mut a, mut b) = (vec![0; 100], vec![0; 50]);
    chunk_pairs((&mut a, 4), (&mut b, 2), 3, |i, a, b| {
        a.fill(i);
        b.fill(i);
    });
    assert!((0..100).all(|i| a[i] == i / 4 && b[i / 2] == i / 4));
}

#[test]
fn items_are_given_away_once() {
    let left = AtomicUsize::new(0);
    items((0..100).map(Box::new).collect(), |i, item| {
        assert_eq!(i, *item);
        left.fetch_add(*item, Ordering::Relaxed);
    });
    assert_eq!(left.into_inner(), 99 * 50);
}

#[test]
fn loops_nest_and_run_side_by_side() {
    let total = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    each(5, |_| {
                        each(20, |i| {
                            total.fetch_add(i, Ordering::Relaxed);
                        });
                    });
                }
            });
        }
    });
    assert_eq!(total.into_inner(), 4 * 50 * 5 * 190);
}

#[test]
fn stages_follow_each_other() {
    for threads in [1, 2, 3, 8] {
        for (n_stages, n_parts) in [(0, 3), (1, 1), (5, 0), (300, 2), (100, 7), (10, STAGE_PARTS)] {
            let done = AtomicUsize::new(0);
            in_pool(threads, || {
                stages(n_stages, n_parts, |stage, part| {
                    let before = done.load(Ordering::Acquire);
                    assert!((stage * n_parts..(stage + 1) * n_parts).contains(&before), "{stage} {part}");
                    done.fetch_add(1, Ordering::AcqRel);
                });
            });
            assert_eq!(done.into_inner(), n_stages * n_parts, "{threads} {n_stages} {n_parts}");
        }
    }
}

#[test]
fn each_part_is_done_once_in_each_stage() {
    let counts: Vec<AtomicUsize> = (0..50 * 3).map(|_| AtomicUsize::new(0)).collect();
    in_pool(3, || {
        each(2, |_| {
            stages(50, 3, |stage, part| _ = counts[stage * 3 + part].fetch_add(1, Ordering::Relaxed));
        });
    });
    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 2));
}

#[test]
fn a_panic_in_a_stage_reaches_the_caller() {
    for threads in [1, 2, 4] {
        for _ in 0..50 {
            let result = catch_unwind(|| {
                in_pool(threads, || stages(20, 4, |stage, part| assert!((stage, part) != (7, 2))));
            });
            assert!(result.is_err());
        }
    }
}

#[test]
fn a_panic_reaches_the_caller() {
    for threads in [1, 2, 4] {
        let result = catch_unwind(|| {
            in_pool(threads, || each(100, |i| assert!(i != 63, "task {i}")));
        });
        let panic = result.expect_err("a task panics");
        assert_eq!(panic.downcast_ref::<String>().map(String::as_str), Some("task 63"));
    }
    // The first task panics, most often before another thread can help with the others.
    for _ in 0..200 {
        let result = catch_unwind(|| in_pool(2, || each(100, |i| assert!(i != 0))));
        assert!(result.is_err());
    }
    each(10, |_| {});
}
