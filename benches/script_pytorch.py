"""The programs of benches/script.rs in PyTorch, and an archive for it to load.

    python benches/script_pytorch.py
    FX_ARCHIVES=/tmp/resnet18.pt cargo bench --bench script

Times are medians on one thread, as the virtual machine of fx has one.
"""

import pathlib
import statistics
import tempfile
import time

import torch
from torch import nn

torch.set_num_threads(1)
torch.set_grad_enabled(False)

ROUNDS = 10_000
SHIPPED = pathlib.Path(__file__).parent.parent / "tests/data/shipped/silero_vad.pt"


@torch.jit.script
def int_add(n: int, acc: int) -> int:
    for i in range(n):
        acc = acc + i
    return acc


@torch.jit.script
def float_mul(n: int, x: float) -> float:
    acc = x
    for i in range(n):
        acc = acc * x
    return acc


@torch.jit.script
def list_append(n: int) -> list[int]:
    items: list[int] = []
    for i in range(n):
        items.append(i)
    return items


@torch.jit.script
def tensor_add(n: int, acc: torch.Tensor) -> torch.Tensor:
    for i in range(n):
        acc = acc + 1
    return acc


@torch.jit.script
def tensor_rows(n: int, x: torch.Tensor) -> torch.Tensor:
    acc = x[0]
    for i in range(n):
        acc = acc + x[i]
    return acc


class Block(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.down = None
        if stride != 1 or channels != out:
            self.down = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        y += x if self.down is None else self.down(x)
        return torch.relu(y)


def resnet18():
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    widths = [64, 64, 128, 256, 512]
    blocks = []
    for i, (channels, out) in enumerate(zip(widths, widths[1:])):
        blocks += [Block(channels, out, 1 if i == 0 else 2), Block(out, out, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)).eval()


def once(f):
    """The time of one call, in seconds."""
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def median(f, n=51):
    return statistics.median(once(f) for _ in range(n))


def show(name, seconds, unit):
    print(f"{name:<28} {seconds * {'ns': 1e9, 'us': 1e6, 'ms': 1e3}[unit]:10.1f} {unit}", flush=True)


print(f"PyTorch {torch.__version__}")
for name, f, args in [
    ("int_add", int_add, (0,)),
    ("float_mul", float_mul, (1.5,)),
    ("list_append", list_append, ()),
    ("tensor_add", tensor_add, (torch.tensor(1.0),)),
    ("tensor_rows", tensor_rows, (torch.zeros(ROUNDS, 8),)),
]:
    for _ in range(5):
        f(ROUNDS, *args)
    show(f"{name}, a round", median(lambda: f(ROUNDS, *args)) / ROUNDS, "ns")

resnet = pathlib.Path(tempfile.gettempdir()) / "resnet18.pt"
torch.jit.trace(resnet18(), torch.zeros(1, 3, 224, 224)).save(resnet)
for path in (SHIPPED, resnet):
    show(f"load {path.stem}", median(lambda: torch.jit.load(path)), "ms")

window = torch.zeros(1, 512)
firsts = []
for _ in range(9):
    model = torch.jit.load(SHIPPED)
    firsts.append(once(lambda: model(window, 16000)))
show("first call", statistics.median(firsts), "us")
for _ in range(100):
    model(window, 16000)
show("later call", median(lambda: model(window, 16000), 501), "us")
