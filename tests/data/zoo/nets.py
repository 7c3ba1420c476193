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


def complex_numbers(i):
    """Complex numbers, which are pairs of reals here: views, in-place code, transforms, parameters."""
    def init(net):
        net.register_buffer("turn", torch.polar(torch.ones(4), torch.arange(4.0)))
        net.filter = nn.Parameter(torch.complex(normal(3, 5), normal(3, 5, i=1)))
        net.steps = nn.Parameter(torch.ones(2))

    def forward(net, x):
        c = torch.view_as_complex(x.reshape(3, 4, 2).clone())
        c.mul_(net.turn)
        c[0] += 1j
        c.imag.mul_(2)
        row = torch.fft.irfft(torch.fft.rfft(x) * net.filter, n=8)
        plane = torch.fft.fft2(c[:, None]).transpose(0, -1).abs()
        window = torch.hann_window(4)
        spectrum = torch.stft(x, 4, 2, window=window, return_complex=True)
        signal = torch.istft(spectrum / (1 - 0.5j), 4, 2, window=window)
        product = torch.einsum("ij,kj->ik", c, c.conj()).sum(-1)
        net.turn.mul_(1j)
        with torch.no_grad():
            net.steps.mul_(2)
        return torch.view_as_real(c), row, plane, signal, product.real, product.angle(), net.turn.real, net.steps * 1, c

    return Module(init, forward), (normal(3, 8, i=i),)


def regions(i):
    """The operators of torchvision's detection networks."""
    import torchvision.ops as ops

    def forward(net, x, boxes, scores, offset, mask, weight):
        boxes = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:].abs() + 0.5], 1)
        per_image = [boxes[:2], boxes[2:]]
        return (
            ops.nms(boxes, scores, 0.3), ops.roi_align(x, per_image, (2, 1), 0.5, 2, True), ops.roi_align(x, per_image, 2),
            ops.roi_pool(x, per_image, (3, 2), 0.5), ops.ps_roi_align(x, per_image, 2, 0.5),
            ops.ps_roi_pool(x, per_image, 2, 0.7),
            ops.deform_conv2d(x, offset, weight, stride=(2, 1), padding=(1, 0), dilation=(1, 2), mask=mask),
        )

    shapes = [(2, 4, 6, 7), (5, 4), (5,), (2, 36, 3, 3), (2, 18, 3, 3), (4, 2, 3, 3)]
    args = [normal(*shape, i=10 * i + k) for k, shape in enumerate(shapes)]
    args[1] = args[1].abs() * 4
    return Module(lambda net: None, forward), tuple(args)


def factors(i):
    """Factorisations; vectors are unique up to a sign only, so what they rebuild is compared."""
    def forward(net, x, y):
        square = x @ x.mT + torch.eye(3)
        u, s, v = torch.linalg.svd(y, full_matrices=False)
        values, vectors = torch.linalg.eigh(square)
        lu, pivots, info = torch.linalg.lu_factor_ex(x)
        root, failed = torch.linalg.cholesky_ex(square)
        return (
            u * s[:, None] @ v, s, values, vectors * values[:, None] @ vectors.mT, torch.linalg.qr(y),
            torch.linalg.qr(y, mode="complete"), torch.linalg.lu(y), torch.lu_unpack(lu, pivots), info,
            torch.linalg.lu_solve(lu, pivots, y), torch.linalg.pinv(y), torch.linalg.matrix_rank(y),
            torch.linalg.matrix_exp(x), torch.linalg.cond(x), torch.linalg.cond(x, 1), root, failed,
            torch.linalg.householder_product(*torch.geqrf(y.mT)),
        )

    return Module(lambda net: None, forward), (normal(2, 3, 3, i=i), normal(2, 3, 4, i=i + 5))


def special(i):
    """Special functions, losses by margins, windows, histograms and bits."""
    def forward(net, x, k, logs):
        p, q = x.abs() + 0.1, x.sigmoid()
        return (
            torch.special.i0(x), torch.special.i1e(x), torch.igamma(p, q), torch.igammac(q, p), torch.polygamma(2, p),
            torch.special.zeta(p + 1, q), torch.special.ndtri(q), torch.special.log_ndtr(x * 9), torch.special.erfcx(x),
            torch.special.bessel_j0(x * 9), torch.special.bessel_y1(p), torch.special.modified_bessel_k0(p),
            torch.gcd(k, k + 4), torch.lcm(k, k - 3), torch.frexp(x), torch.nextafter(x, q), torch.kaiser_window(5, False, 4.0),
            torch.gradient(x, spacing=0.5, dim=1, edge_order=2), torch.gradient(x), x.view(torch.int32) + 1, x.view(torch.uint8)[:, ::3],
            F.cosine_embedding_loss(x, q, torch.tensor([1.0, -1.0])), F.triplet_margin_loss(x, q, p, swap=True),
            F.multi_margin_loss(x, k[0, :2], p=2), F.multilabel_margin_loss(x, k),
            F.fractional_max_pool2d(logs, 2, output_size=2, _random_samples=q[None, :, :2]),
        )

    k = torch.tensor([[1, 2, -1], [2, 1, 0]])
    return Module(lambda net: None, forward), (normal(2, 3, i=i), k, normal(1, 2, 5, 4, i=i + 1))


def norms_first(i):
    """Norms before what they could be folded into, a bias that is looked up, and a shift of windows."""
    def init(net):
        net.norms = nn.ModuleList([nn.BatchNorm2d(6), nn.BatchNorm2d(11, affine=False), nn.BatchNorm1d(5)])
        net.conv = nn.Conv2d(6, 5, 3, padding=1, bias=False)
        net.table = nn.Parameter(normal(9, 2))
        net.register_buffer("index", torch.arange(36).reshape(6, 6) * 7 % 9)
        for norm in net.norms:
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)

    def forward(net, x):
        y = torch.cat([x, net.conv(F.relu(net.norms[0](x)))], 1)
        y = F.relu(net.norms[1](y))
        bias = net.table[net.index.view(-1)].view(6, 6, 2).permute(2, 0, 1)
        y = torch.roll(y, (-2, 1), (2, 3)) + F.pad(bias, (0, 1)).mean(0)
        return y, net.norms[2](y.mean((2, 3))[:, :5])

    return Module(init, forward), (normal(2, 6, 6, 7, i=i),)


def einsums(i):
    """Sums of products of three and four operands, for which PyTorch proposes an order."""
    def forward(net, x, w, y):
        return torch.einsum("bi,kij,bj->bk", x, w, y), torch.einsum("bi,kij,bj,k->b", x, w, y, w[:, 0, 0])

    return Module(lambda net: None, forward), (normal(2, 4, i=i), normal(3, 4, 5, i=i + 1), normal(2, 5, i=i + 2))


def backward_parts(i):
    """Operators of backward programs that PyTorch does not decompose."""
    aten = torch.ops.aten

    def init(net):
        net.register_buffer("w", normal(4, 2, 3, 2))
        net.register_buffer("t", normal(4, 3, 2, 2))
        net.register_buffer("l", normal(3, 2, 2))

    def forward(net, x, g):
        small, size = [4, 6, 5], [2, 4, 6, 5]
        top, places = F.max_pool2d(x, 2, return_indices=True)
        mean = F.avg_pool2d(x, 3, 2, 1, ceil_mode=True).cos()
        y = F.conv2d(x, net.w, None, (2, 1), (1, 0), (1, 2), 2)
        z = F.conv_transpose2d(x, net.t, None, (2, 1), (1, 0), (1, 0), 1, (1, 2))
        row = x[:, :2, 0]
        line = F.conv1d(row, net.l)
        norm = net.t.flatten(1).norm(dim=1).reshape(4, 1, 1, 1)
        return (
            aten.unfold_backward(g, [2, 4, 5], 2, 3, 1),
            aten.max_pool2d_with_indices_backward(top.sin(), x, [2, 2], [2, 2], [0, 0], [1, 1], False, places),
            aten.avg_pool2d_backward(g, x, [2, 3], [2, 2], [0, 1], False, False, None),
            aten.avg_pool2d_backward(mean, x, [3], [2], [1], True, True, None),
            aten.avg_pool2d_backward(mean, x, [3], [2], [1], True, True, 5),
            aten._adaptive_avg_pool2d_backward(g, x),
            *aten.convolution_backward(y.sin(), x, net.w, [4], [2, 1], [1, 0], [1, 2], False, [0, 0], 2, [True] * 3),
            *aten.convolution_backward(z.cos(), x, net.t, [3], [2, 1], [1, 0], [1, 2], True, [1, 0], 1, [True] * 3),
            *aten.convolution_backward(line, row, net.l, [3], [1], [0], [1], False, [0], 1, [True, True, False])[:2],
            aten.replication_pad2d_backward(F.pad(x, (1, 2, 0, 3), mode="replicate").sin(), x, [1, 2, 0, 3]),
            aten.upsample_bilinear2d_backward(aten.upsample_bilinear2d(x, [4, 9], False), [4, 9], size, False),
            aten.upsample_bicubic2d_backward(aten.upsample_bicubic2d(x, [8, 4], True), [8, 4], size, True),
            aten.upsample_nearest2d_backward(aten.upsample_nearest2d(x, [8, 4]), [8, 4], size),
            aten.upsample_linear1d_backward(aten.upsample_linear1d(x[0], [8], False), [8], small, False),
            *aten._weight_norm_interface_backward(net.t.sin(), net.t, norm * 0.7, norm, 0),
        )

    return Module(init, forward), (normal(2, 4, 6, 5, i=i), normal(2, 4, 3, 3, i=i + 1))


def halves(i):
    """Operators of layers of experts and others in half precision, and a bool out of data as a number."""
    def forward(net, x, w, ends, q):
        whole = (q > 0).all().item()
        return torch._grouped_mm(x, w, offs=ends), torch.can_cast(x.dtype, torch.int32) + q, q + whole

    half = lambda *shape, k: normal(*shape, i=i + k).bfloat16()
    ends = torch.tensor([[3, 3, 8], [0, 5, 8]][i % 2], dtype=torch.int32)
    return Module(lambda net: None, forward), (half(8, 16, k=0), half(3, 16, 8, k=1), ends, half(4, 4, k=2))


def write(net, name, **options):
    """Exports, and deflates the archive to keep the repository small."""
    export(net, name, HERE, **options)
    path = HERE / f"{name}.pt2"
    with zipfile.ZipFile(path) as archive:
        members = [(member, archive.read(member)) for member in archive.namelist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members:
            archive.writestr(zipfile.ZipInfo(member), content, zipfile.ZIP_DEFLATED)


NETS = [
    loops, recurrent, autocast, odd_names, strided_writes, one_buffer_twice, composed, complex_numbers, regions, factors, special,
    norms_first, einsums, backward_parts, halves,
]

if __name__ == "__main__":
    for net in NETS:
        if net.__name__ in sys.argv[1:] or not sys.argv[1:]:
            write(net, net.__name__, train=net is one_buffer_twice)
            if net is composed:
                write(net, "composed_decomposed", decompose=True)
