#!/usr/bin/env python3
"""Makes programs of this folder with PyTorch 2.15: `python tests/data/zoo/nets.py [NAME…]`.

Each function is a factory as `tools/export_pt2.py` takes it; `_decomposed` at the end of a name exports core ATen.
"""
import pathlib
import sys
import zipfile

import torch
from torch import nn
from torch.nn import functional as F
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tools"))
from export_pt2 import export


def normal(*shape, i=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(i))


class Module(nn.Module):
    def __init__(self, init, forward):
        super().__init__()
        torch.manual_seed(0)
        init(self)
        self.run = forward

    def forward(self, *args):
        return self.run(self, *args)


def loops(i):
    """A scan that is written out, one that becomes a loop, and a map."""
    def init(net):
        net.cell = nn.Linear(2, 2)

    def forward(net, h, short, long):
        def step(h, x):
            h = torch.tanh(net.cell(h) + x)
            return h.clone(), h * 2

        last, all = scan(step, h, short)
        end, every = scan(step, last, long, reverse=True)
        return end, all, every, map_over(lambda x, k: (net.cell(x) * k, x.sum()), short, last)

    return Module(init, forward), (normal(2, i=i), normal(3, 2, i=i + 1), normal(150, 2, i=i + 2))


def recurrent(i):
    """Recurrences without a row of their own."""
    def init(net):
        net.projected = nn.LSTM(3, 4, bidirectional=True, proj_size=2, batch_first=True)
        net.simple = nn.RNN(4, 3, nonlinearity="relu", bias=False)
        net.cell = nn.RNNCell(3, 2)

    def forward(net, x):
        x, (h, c) = net.projected(x)
        x, last = net.simple(x)
        return x, h, c, last, net.cell(last[0])

    return Module(init, forward), (normal(2, 5, 3, i=i),)


def autocast(i):
    def init(net):
        net.a, net.b = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(net, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = net.a(x)
            z = torch.cat([y, x])
            with torch.autocast("cpu", enabled=False):
                w = net.b(x)
            return y, z, w, F.mse_loss(y, x), torch.softmax(y, -1)

    return Module(init, forward), (normal(3, 4, i=i),)


def odd_names(i):
    def init(net):
        net.parts = nn.ModuleDict({"a-b": nn.Linear(2, 2), "a_b": nn.Linear(2, 2), "1/2 ü": nn.BatchNorm1d(2)})

    def forward(net, x):
        for part in net.parts.values():
            x = part(x)
        return {"out-1": x}

    return Module(init, forward), (normal(3, 2, i=i),)


def strided_writes(i):
    def forward(net, x):
        x = x.clone()
        x.as_strided((2, 2), (4, 1), 1).add_(10)
        x.unfold(0, 2, 2).mul_(2)
        x[1:, ::2].unfold(1, 1, 1).neg_()
        y = x.fill_diagonal_(7.0).hsplit(2)[1]
        y += x.sum_to_size(4, 1)
        return x, y, torch.ops.aten.slice_copy(x, 0, 1, 3)

    return Module(lambda net: None, forward), (normal(4, 4, i=i),)


def one_buffer_twice(i):
    def init(net):
        net.register_buffer("count", torch.zeros(3))
        net.register_buffer("seen", net.count)
        net.norm = nn.InstanceNorm1d(2, affine=True, track_running_stats=True)

    def forward(net, x):
        net.count.add_(x[0, 0])
        return net.norm(x), net.seen * 2, net.norm.running_mean * 1, net.norm.running_var * 1

    return Module(init, forward), (normal(2, 2, 3, i=i) + 1,)


def composed(i):
    """Operators that are written with several rows."""
    def init(net):
        net.bag = nn.EmbeddingBag(5, 2, mode="sum", include_last_offset=True)
        net.bilinear = nn.Bilinear(2, 2, 3)

    def forward(net, x, k):
        pooled, places = F.max_pool2d(x, 2, return_indices=True)
        flat = x[0, 0]
        return (
            net.bag(k, torch.tensor([0, 2, 4])), net.bilinear(flat[:, :2], flat[:, 2:]),
            F.max_unpool2d(pooled, places, 2), torch.unique(k, return_counts=True),
            torch.combinations(flat[0], 2), torch.cartesian_prod(flat[0, :2], flat[1]), torch.logspace(0, 1, 4),
            F.affine_grid(torch.eye(2, 3)[None] * 0.5, (1, 1, 2, 3), align_corners=False),
            torch.linalg.cross(x[0, 0, :3, :3], x[0, 0, 1:, :3]), torch.diagflat(flat[0, :2], 1),
            torch.cholesky_solve(flat, torch.tril(flat) + 5 * torch.eye(4)), torch.blackman_window(5),
            k.repeat_interleave(torch.tensor([2, 0, 1, 1])), torch.special.ndtr(flat[0]),
        )

    return Module(init, forward), (normal(1, 1, 4, 4, i=i), torch.tensor([0, 4, 1, 4]))


def write(net, name, **options):
    """Exports, and deflates the archive to keep the repository small."""
    export(net, name, HERE, **options)
    path = HERE / f"{name}.pt2"
    with zipfile.ZipFile(path) as archive:
        members = [(member, archive.read(member)) for member in archive.namelist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members:
            archive.writestr(zipfile.ZipInfo(member), content, zipfile.ZIP_DEFLATED)


NETS = [loops, recurrent, autocast, odd_names, strided_writes, one_buffer_twice, composed]

if __name__ == "__main__":
    for net in NETS:
        if net.__name__ in sys.argv[1:] or not sys.argv[1:]:
            write(net, net.__name__, train=net is one_buffer_twice)
            if net is composed:
                write(net, "composed_decomposed", decompose=True)
