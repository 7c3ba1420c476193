//! Heap allocations, counted in a process of their own: those of calls, and the memory that compiling takes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use fx::prelude::*;
use fx::{Engine, GraphModule, Tensor, Value};

use crate::engine::{numbers, program};

/// The allocator of the tests, which counts.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
/// The bytes that are allocated, and the most since it was set.
static BYTES: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn add(bytes: usize) {
    let now = BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: everything is the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        add(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        add(size);
        BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Set in the process that counts.
const CHILD: &str = "FX_COUNT_ALLOCATIONS";

/// Programs with inputs, whose steps are all kernels.
fn programs() -> Vec<(&'static str, GraphModule, Vec<Tensor>)> {
    let mlp = "graph main(%x: f32[1, 16]) {
        %w1: f32[32, 16] = self.w1
        %b1: f32[32] = self.b1
        %w2: f32[4, 32] = self.w2
        %h = linear(%x, %w1, %b1)
        %r = relu(%h)
        %out = linear(%r, %w2)
        return %out
    }";
    let rows = "graph main(%x: f32[n, 300], %y: f32[300]) {
        %a = add(%x, %y)
        %p = softmax(%a, -1)
        %n = layer_norm(%a, [300])
        %m = mul(%p, %n)
        %s = sum(%m, [1])
        return (%m, %s)
    }";
    let convolutions = "graph main(%x: f32[2, 3, 33, 33]) {
        %w: f32[16, 3, 3, 3] = self.w
        %depth: f32[16, 1, 3, 3] = self.depth
        %mix: f32[40, 16, 1, 1] = self.mix
        %head: f32[10, 40] = self.head
        %a = conv2d(%x, %w, padding=1, stride=2)
        %b = relu(%a)
        %c = conv2d(%b, %depth, padding=1, groups=16)
        %d = add(%c, %b)
        %e = max_pool2d(%d, 2)
        %f = conv2d(%e, %mix)
        %g = hardswish(%f)
        %h = adaptive_avg_pool2d(%g, 1)
        %i = flatten(%h, 1)
        %out = linear(%i, %head)
        return %out
    }";
    let attention = "graph main(%x: f32[2, 40, 64]) {
        %w: f32[192, 64] = self.w
        %o: f32[64, 64] = self.o
        %all = linear(%x, %w)
        %parts = chunk(%all, 3, -1)
        %q0 = getitem(%parts, 0)
        %k0 = getitem(%parts, 1)
        %v0 = getitem(%parts, 2)
        %q1 = reshape(%q0, [2, 40, 4, 16])
        %k1 = reshape(%k0, [2, 40, 4, 16])
        %v1 = reshape(%v0, [2, 40, 4, 16])
        %q = transpose(%q1, 1, 2)
        %k = transpose(%k1, 1, 2)
        %v = transpose(%v1, 1, 2)
        %a = scaled_dot_product_attention(%q, %k, %v)
        %t = transpose(%a, 1, 2)
        %r = reshape(%t, [2, 40, 64])
        %out = linear(%r, %o)
        %sum = add(%out, %x)
        return %sum
    }";
    let recurrent = "graph main(%x: f32[1, 7, 96], %h: f32[2, 1, 96], %c: f32[2, 1, 96]) {
        %w1: f32[384, 96] = self.w1
        %u1: f32[384, 96] = self.u1
        %b1: f32[384] = self.b1
        %w2: f32[384, 96] = self.w2
        %u2: f32[384, 96] = self.u2
        %b2: f32[384] = self.b2
        %y = lstm(%x, %h, %c, [%w1, %u1, %b1, %b1, %w2, %u2, %b2, %b2], num_layers=2, batch_first=true)
        %out = getitem(%y, 0)
        return %out
    }";
    let lookups = "graph main(%i: i64[4, 90], %x: f32[4, 90, 64]) {
        %table: f32[1000, 64] = self.table
        %e = embedding(%i, %table)
        %s = add(%e, %x)
        %out = layer_norm(%s, [64])
        return %out
    }";
    let words = (numbers(&[4, 90], 1) + 2.0).mul(200.0).to(DType::I64);
    vec![
        ("mlp", program(mlp), vec![numbers(&[1, 16], 1)]),
        ("lookups", program(lookups), vec![words, numbers(&[4, 90, 64], 2)]),
        ("rows", program(rows), vec![numbers(&[700, 300], 1), numbers(&[300], 2)]),
        ("convolutions", program(convolutions), vec![numbers(&[2, 3, 33, 33], 1)]),
        ("attention", program(attention), vec![numbers(&[2, 40, 64], 1)]),
        (
            "recurrent",
            program(recurrent),
            vec![numbers(&[1, 7, 96], 1), numbers(&[2, 1, 96], 2), numbers(&[2, 1, 96], 3)],
        ),
    ]
}

/// Returns whether this is the process that counts; if not, runs the test there.
fn counts(test: &str) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let test = format!("allocations::{test}");
    let child = child.args(["--exact", &test, "--nocapture"]).env(CHILD, "1").output().unwrap();
    let text = String::from_utf8_lossy(&child.stdout) + String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{text}");
    false
}

#[test]
fn weights_are_in_memory_once() {
    if !counts("weights_are_in_memory_once") {
        return;
    }
    let layer = |i: usize, kind: &str| {
        match kind {
        "linear" => format!("%w{i}: f32[1024, 1024] = self.w{i}\n %y{} = linear(%y{i}, %w{i})\n", i + 1),
        _ => format!(
            "%w{i}: f32[320, 320, 3, 3] = self.w{i}\n %m{i}: f32[320] = self.m{i}\n %v{i}: f32[320] = self.v{i}\n
            %c{i} = conv2d(%y{i}, %w{i}, padding=1)\n %y{} = batch_norm(%c{i}, %m{i}, %v{i})\n",
            i + 1
        ),
    }
    };
    let image = "f32[1, 320, 6, 6]";
    for (kind, input) in [("linear", "f32[8, 1024]"), ("convolution", image), ("folded before", image)] {
        let layers: String = (0..6).map(|i| layer(i, kind)).collect();
        let mut gm = program(&format!("graph main(%y0: {input}) {{\n{layers} return %y6\n}}"));
        let variances: Vec<String> = (0..6).map(|i| format!("v{i}")).collect();
        for path in variances.iter().filter(|_| kind != "linear") {
            let variance = numbers(&[320], 3).abs() + 0.5;
            gm.set_attribute(path, fx::Attribute::Parameter(fx::Parameter::new(variance))).unwrap();
        }
        let shape: &[usize] = if kind == "linear" { &[8, 1024] } else { &[1, 320, 6, 6] };
        let x = numbers(shape, 1);
        let expected = gm.compile(Engine::Fused).unwrap().call(std::slice::from_ref(&x)).unwrap();
        let one = if kind == "linear" { 1024 * 1024 * 4 } else { 320 * 320 * 9 * 4 };
        let small = one / 2;

        let before = BYTES.load(Ordering::Relaxed);
        let borrowed = gm.compile(Engine::Fused).unwrap();
        let added = BYTES.load(Ordering::Relaxed) - before;
        assert!(
            (6 * one..6 * one + small).contains(&added),
            "{kind}: packed weights beside those of the module"
        );
        drop(borrowed);

        if kind == "folded before" {
            // Constants that were folded before, and know how, are given up too.
            fx::Passes::parse(fx::pass::DEFAULT, &fx::pass::all()).unwrap().run(&mut gm).unwrap();
        }
        let before = BYTES.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        let program = gm.into_program(Engine::Fused).unwrap();
        let [now, most] = [&BYTES, &MOST].map(|bytes| bytes.load(Ordering::Relaxed));
        let kept = if kind == "folded before" { before - 6 * one } else { before };
        assert!(now < kept + small, "{kind}: {now} bytes, {before} before");
        assert!(most < before + small, "{kind}: {most} bytes at a time, {before} before");
        assert!(program.call(&[x]).unwrap().array().unwrap().bits_eq(expected.array().unwrap()), "{kind}");
        let compiled = program.fused().unwrap().graph_module();
        let gone = compiled.attributes().filter_map(|(_, attribute)| attribute.tensor().array().err());
        let gone: Vec<String> = gone.map(|error| error.message().to_string()).collect();
        assert_eq!(gone.len(), 6);
        assert!(gone[0].contains("were given up when the program was compiled"), "{}", gone[0]);
    }
}

#[test]
fn a_steady_call_allocates_nothing() {
    if !counts("a_steady_call_allocates_nothing") {
        return;
    }
    for (name, gm, inputs) in programs() {
        for threads in [1, 2] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let compiled = gm.compile(Engine::Fused).unwrap();
                let args: Vec<Value> = inputs.iter().map(Value::from).collect();
                let call = || drop(compiled.call_values(&args).unwrap());
                let outputs = compiled.call_values(&args).unwrap().leaves().len();
                const CALLS: usize = 20;
                // A tuple is a list on the heap that its clones share.
                let lists = if outputs > 1 { 2 * CALLS } else { 0 };
                // To wake a thread that sleeps, as on a busy machine it may before each call, rayon takes a
                // little.
                let most = lists + if threads > 1 { CALLS } else { 0 };
                let count = || {
                    let before = ALLOCATIONS.load(Ordering::Relaxed);
                    (0..CALLS).for_each(|_| call());
                    ALLOCATIONS.load(Ordering::Relaxed) - before
                };
                // A thread gets its memory when it first takes part.
                let counts: Vec<usize> = (0..20).map(|_| count()).collect();
                let least = *counts[10..].iter().min().unwrap();
                assert!(
                    (lists..=most).contains(&least),
                    "{name} on {threads} threads: {counts:?} in {CALLS} calls"
                );
            });
        }
    }
}

#[test]
fn a_pure_hit_allocates_nothing() {
    if !counts("a_pure_hit_allocates_nothing") {
        return;
    }
    let f = fx::compile(|x: &Tensor, y: &Tensor, z: &Tensor| (x * y + z).relu()).verify(0);
    let args: Vec<Tensor> = (0..3).map(|seed| numbers(&[8], seed)).collect();
    (0..4).for_each(|_| drop(f.call(&args).unwrap()));
    let count = || {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        (0..100).for_each(|_| drop(f.call(&args).unwrap()));
        ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    // The main thread of the harness allocates, too, while the first calls run.
    let counts: Vec<usize> = (0..10).map(|_| count()).collect();
    assert_eq!(counts.iter().min(), Some(&0), "{counts:?} in 100 calls");
}

/// Each round makes a tensor of 1 MB that it adds to, and one of which only a sum is read.
#[test]
fn a_loop_of_a_pure_function_keeps_no_results_of_its_rounds() {
    if !counts("a_loop_of_a_pure_function_keeps_no_results_of_its_rounds") {
        return;
    }
    const LEN: usize = 1 << 18;
    let rounds = |x: Tensor, limit: Tensor| -> fx::Result<Tensor> {
        let mut x = x;
        loop {
            let next = &x + 1.0;
            let step = &next - &x;
            let is_done = (next.max() + step.mean((), false)).ge(&limit).to_bool()?;
            x = next;
            if is_done {
                return Ok(x);
            }
        }
    };
    let f = fx::compile(rounds).pure();
    let x = Tensor::from_vec(vec![0.0f32; LEN], &[LEN]);
    let before = BYTES.load(Ordering::Relaxed);
    // The fifth call leaves its path with most of its results let go, the seventh before its first one.
    for (call, n) in [200.0f32, 200.0, 200.0, 200.0, 250.0, 250.0, 10.0, 10.0].into_iter().enumerate() {
        MOST.store(BYTES.load(Ordering::Relaxed), Ordering::Relaxed);
        let y: Tensor = f.run((x.clone(), Tensor::new(n))).unwrap();
        assert!(y.to_vec::<f32>().unwrap().iter().all(|y| *y == n - 1.0), "{call}");
        let most = MOST.load(Ordering::Relaxed).saturating_sub(before);
        assert!(most < 40 << 20, "call {call}: {most} bytes at a time\n{}", f.explain());
    }
    assert_eq!(f.explain().paths.len(), 3, "{}", f.explain());
}
