"""The programs of benches/compile.rs and benches/script.rs in PyTorch.

    python benches/compile_pytorch.py

PyTorch, a C++ compiler and two threads are all that it needs. Times are medians in microseconds.
"""

import statistics
import time

import torch

torch.set_num_threads(2)
torch.set_grad_enabled(False)


def median(f, seconds=1.0):
    """The median time of a call, in microseconds, over blocks of 2 ms."""
    f()
    start = time.perf_counter()
    f()
    n = max(1, int(0.002 / max(time.perf_counter() - start, 1e-7)))
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        for _ in range(n):
            f()
        times.append((time.perf_counter() - start) / n)
    return statistics.median(times) * 1e6


def once(f):
    """The time of one call, in microseconds."""
    start = time.perf_counter()
    f()
    return (time.perf_counter() - start) * 1e6


def show(name, time_us):
    print(f"{name:<52} {time_us:>14.2f}", flush=True)


def straight(x, y, z):
    return (x * y + z).relu()


def branch(x):
    h = x * 2.0 + 1.0
    return h.relu() * 3.0 if bool(h.sum() > 0.0) else h.tanh()


def settle(x):
    while bool(x.abs().max() > 1.0):
        x = x * 0.5
    return x + 1.0


def chain(x):
    for _ in range(500):
        x = (x * 0.5).relu()
    return x


def compiled():
    args = [torch.full((8,), float(i)) for i in range(3)]
    show("call: eager", median(lambda: straight(*args)))
    f = torch.compile(straight)
    show("call: torch.compile, first of the process", once(lambda: f(*args)))
    show("call: torch.compile, hit", median(lambda: f(*args)))
    x = torch.ones(8)
    show("branch: eager", median(lambda: branch(x)))
    f = torch.compile(branch)
    show("branch: torch.compile, hit", median(lambda: f(x)))
    f = torch.compile(settle)
    sizes = [torch.full((64,), float(1 << k)) for k in (20, 7, 15, 11, 18)]
    for big in sizes:
        f(big)
    show("loop of 20 rounds: eager", median(lambda: settle(sizes[0])))
    show("loop of 20 rounds: torch.compile", median(lambda: f(sizes[0])))
    show("loops of 20, 7, 15, 11, 18 rounds: eager", median(lambda: [settle(big) for big in sizes]))
    show("loops of 20, 7, 15, 11, 18 rounds: torch.compile", median(lambda: [f(big) for big in sizes]))
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    show("chain of 1000 operations: eager", median(lambda: chain(x)))
    show("chain of 1000 operations: torch.compile, first", once(lambda: torch.compile(chain)(x)))


def scripted():
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    show("jit.trace of 1000 operations", median(lambda: torch.jit.trace(chain, (x,), check_trace=False)))
    traced = torch.jit.trace(chain, (x,), check_trace=False)
    show("jit.trace of 1000 operations: first call", once(lambda: traced(x)))
    show("jit.trace of 1000 operations: second call", once(lambda: traced(x)))
    for _ in range(5):
        traced(x)
    show("jit.trace of 1000 operations: later calls", median(lambda: traced(x)))
    args = [torch.full((8,), float(i)) for i in range(3)]
    small = torch.jit.trace(straight, tuple(args), check_trace=False)
    for _ in range(5):
        small(*args)
    show("jit.trace, call: later calls", median(lambda: small(*args)))

    @torch.jit.script
    def scripted_settle(x):
        while bool(x.abs().max() > 1.0):
            x = x * 0.5
        return x + 1.0

    big = torch.full((64,), float(1 << 20))
    for _ in range(5):
        scripted_settle(big)
    show("jit.script, loop of 20 rounds: later calls", median(lambda: scripted_settle(big)))


print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads; microseconds")
scripted()
compiled()
