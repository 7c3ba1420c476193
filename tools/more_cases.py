#!/usr/bin/env python3
"""More workloads for the driver of the peer benchmarks, beyond its own: networks of torchvision and small programs of all kinds.

    PYTHONPATH=PEERS BENCH_OUT=DIR CARGO_TARGET_DIR=TARGET python tools/more_cases.py prepare
    ... python tools/more_cases.py run --peers ort,openvino --threads 2 --rounds 8 --extra fx="target/release/fx bench --worker"

PEERS is the folder of `bench_peers.py`, whose commands and options these are. Peers that read files (ort, openvino, tract, rten) can run them;
`fx bench DIR/NAME/model.pt2` measures one by itself.
"""
import bench_peers
import cases

MORE = [
    "efficientnet_b0", "mobilenet_v3_small", "squeezenet", "shufflenet", "densenet121", "resnext50", "convnext_tiny", "vit_b16", "swin_t", "unet",
    "r3d18", "deeplab", "gn_block", "wave", "conv1d_enc", "decoder", "rmsnorm_llama", "mixer", "attn_causal", "gru_bi", "rnn_tanh", "index_embed",
    "bn_train", "logsoftmax_nll", "var_std", "topk_sort", "cumsum", "transpose_add", "cat_pointwise", "bool_mask", "i64_math", "einsum_bilinear",
    "interp_bicubic", "maxpool_nchw", "outer_broadcast",
]


def build(name):
    import torch, torchvision
    from torch import nn
    import torch.nn.functional as F
    torch.manual_seed(0)
    r = torch.randn
    tv = torchvision.models

    class Fn(nn.Module):
        def __init__(self, f): super().__init__(); self.f = f
        def forward(self, *x): return self.f(*x)

    def calibrated(m, *s):
        m.train()
        for b in m.modules():
            if isinstance(b, (nn.BatchNorm2d, nn.BatchNorm3d)): b.momentum = None
        with torch.no_grad(): m(r(*s))
        return m.eval()

    img = (r(1, 3, 224, 224),)
    def cnn(f, **kw): return lambda: (calibrated(f(**kw), 2, 3, 224, 224), img)

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            blk = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.ReLU(), nn.Conv2d(o, o, 3, padding=1), nn.ReLU())
            self.d1, self.d2, self.d3 = blk(3, 32), blk(32, 64), blk(64, 128)
            self.u2, self.c2 = nn.ConvTranspose2d(128, 64, 2, 2), blk(128, 64)
            self.u1, self.c1 = nn.ConvTranspose2d(64, 32, 2, 2), blk(64, 32)
            self.o = nn.Conv2d(32, 2, 1)
        def forward(self, x):
            a = self.d1(x); b = self.d2(F.max_pool2d(a, 2)); c = self.d3(F.max_pool2d(b, 2))
            y = self.c2(torch.cat([self.u2(c), b], 1)); y = self.c1(torch.cat([self.u1(y), a], 1))
            return self.o(y)

    class Gru(nn.Module):
        def __init__(self): super().__init__(); self.g = nn.GRU(128, 128, 2, batch_first=True, bidirectional=True)
        def forward(self, x): return self.g(x)[0]

    class Rnn(nn.Module):
        def __init__(self): super().__init__(); self.g = nn.RNN(64, 256, 1, batch_first=True)
        def forward(self, x): return self.g(x)[0]

    class Conv1dEnc(nn.Module):
        """The stem of a speech model, then one encoder layer."""
        def __init__(self):
            super().__init__(); self.c1, self.c2 = nn.Conv1d(80, 256, 3, padding=1), nn.Conv1d(256, 256, 3, 2, 1)
            self.e = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, activation="gelu", norm_first=True)
        def forward(self, x):
            x = F.gelu(self.c2(F.gelu(self.c1(x)))).transpose(1, 2)
            return self.e(x)

    class Decoder(nn.Module):
        def __init__(self): super().__init__(); self.d = nn.TransformerDecoderLayer(256, 8, 1024, batch_first=True)
        def forward(self, x, m): return self.d(x, m)

    class GnBlock(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.GroupNorm(32, 128), nn.GroupNorm(32, 128)
            self.c1, self.c2 = nn.Conv2d(128, 128, 3, padding=1), nn.Conv2d(128, 128, 3, padding=1)
        def forward(self, x): return x + self.c2(F.silu(self.n2(self.c1(F.silu(self.n1(x))))))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            D = 512
            self.n1, self.n2 = nn.Parameter(torch.ones(D)), nn.Parameter(torch.ones(D))
            self.q, self.k, self.v, self.o = nn.Linear(D, D, False), nn.Linear(D, 128, False), nn.Linear(D, 128, False), nn.Linear(D, D, False)
            self.g, self.u, self.d = nn.Linear(D, 1408, False), nn.Linear(D, 1408, False), nn.Linear(1408, D, False)
            t = torch.outer(torch.arange(128.), 1 / 10000 ** (torch.arange(0, 64, 2) / 64))
            self.register_buffer("cos", torch.cat([t.cos(), t.cos()], -1)); self.register_buffer("sin", torch.cat([t.sin(), t.sin()], -1))
        def rms(self, x, w): return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w
        def rot(self, x): return x * self.cos + torch.cat([-x[..., 32:], x[..., :32]], -1) * self.sin
        def forward(self, x):
            B, S, D = x.shape
            h = self.rms(x, self.n1)
            q, k, v = self.q(h).view(B, S, 8, 64).transpose(1, 2), self.k(h).view(B, S, 2, 64).transpose(1, 2), self.v(h).view(B, S, 2, 64).transpose(1, 2)
            q, k = self.rot(q), self.rot(k)
            k, v = k.repeat_interleave(4, 1), v.repeat_interleave(4, 1)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, S, D)
            x = x + self.o(a); h = self.rms(x, self.n2)
            return x + self.d(F.silu(self.g(h)) * self.u(h))

    class Mixer(nn.Module):
        def __init__(self):
            super().__init__(); self.n1, self.n2 = nn.LayerNorm(256), nn.LayerNorm(256)
            self.t = nn.Sequential(nn.Linear(196, 384), nn.GELU(), nn.Linear(384, 196)); self.c = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256))
        def forward(self, x):
            x = x + self.t(self.n1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.c(self.n2(x))

    class Embed(nn.Module):
        def __init__(self): super().__init__(); self.e, self.p, self.n = nn.Embedding(5000, 256), nn.Embedding(512, 256), nn.LayerNorm(256)
        def forward(self, i): return self.n(self.e(i) + self.p(torch.arange(i.shape[1])))

    class BnTrain(nn.Module):
        def forward(self, x): return F.batch_norm(x, None, None, training=True)

    class Bil(nn.Module):
        def __init__(self): super().__init__(); self.w = nn.Parameter(r(64, 128, 128) / 11)
        def forward(self, x, y): return torch.einsum("bi,kij,bj->bk", x, self.w, y)

    class Wave(nn.Module):
        def __init__(self):
            super().__init__(); self.cs = nn.ModuleList(nn.Conv1d(64, 128, 3, padding=2**i, dilation=2**i) for i in range(5)); self.os = nn.ModuleList(nn.Conv1d(64, 64, 1) for _ in range(5))
        def forward(self, x):
            for c, o in zip(self.cs, self.os):
                a, b = c(x).chunk(2, 1)
                x = x + o(torch.tanh(a) * torch.sigmoid(b))
            return x

    def deeplab():
        m = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 1, 2, dilation=2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1, 4, dilation=4), nn.ReLU(), nn.Conv2d(64, 21, 1),
                          nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False))
        return m, (r(1, 3, 128, 128),)

    return {
        "efficientnet_b0": cnn(tv.efficientnet_b0), "mobilenet_v3_small": cnn(tv.mobilenet_v3_small), "squeezenet": cnn(tv.squeezenet1_1),
        "shufflenet": cnn(tv.shufflenet_v2_x1_0), "densenet121": cnn(tv.densenet121), "resnext50": cnn(tv.resnext50_32x4d), "convnext_tiny": cnn(tv.convnext_tiny),
        "vit_b16": lambda: (tv.vit_b_16(), img), "swin_t": lambda: (tv.swin_t(), img),
        "unet": lambda: (UNet(), (r(1, 3, 128, 128),)), "gru_bi": lambda: (Gru(), (r(4, 50, 128),)), "conv1d_enc": lambda: (Conv1dEnc(), (r(1, 80, 300),)),
        "decoder": lambda: (Decoder(), (r(2, 40, 256), r(2, 60, 256))), "gn_block": lambda: (GnBlock(), (r(1, 128, 32, 32),)),
        "r3d18": lambda: (calibrated(tv.video.r3d_18(), 2, 3, 4, 56, 56), (r(1, 3, 8, 56, 56),)), "deeplab": deeplab,
        "rmsnorm_llama": lambda: (Llama(), (r(1, 128, 512),)), "rnn_tanh": lambda: (Rnn(), (r(2, 40, 64),)), "mixer": lambda: (Mixer(), (r(2, 196, 256),)),
        "topk_sort": lambda: (Fn(lambda x: (torch.topk(x, 10, -1)[0], torch.sort(x, -1)[0])), (r(256, 1000),)),
        "cumsum": lambda: (Fn(lambda x: torch.cumsum(x, -1)), (r(512, 2000),)),
        "attn_causal": lambda: (Fn(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)), (r(1, 8, 512, 64), r(1, 8, 512, 64), r(1, 8, 512, 64))),
        "wave": lambda: (Wave(), (r(1, 64, 1000),)),
        "logsoftmax_nll": lambda: (Fn(lambda x, t: F.cross_entropy(x, t)), (r(256, 5000), torch.randint(0, 5000, (256,)))),
        "transpose_add": lambda: (Fn(lambda x, y: x.transpose(0, 1) + y), (r(2000, 1500), r(1500, 2000))),
        "cat_pointwise": lambda: (Fn(lambda x, y: torch.relu(torch.cat([x, y * 2], 1)) + 1), (r(64, 100, 100), r(64, 60, 100))),
        "index_embed": lambda: (Embed(), (torch.randint(0, 5000, (8, 128)),)),
        "bn_train": lambda: (BnTrain(), (r(8, 64, 56, 56),)),
        "var_std": lambda: (Fn(lambda x: (x.var(-1), x.std(0))), (r(1000, 1000),)),
        "bool_mask": lambda: (Fn(lambda x, y: torch.where((x > 0) & (y < 1), x * y, x.abs())), (r(1000, 700), r(1000, 700))),
        "i64_math": lambda: (Fn(lambda x, y: (x * 3 + y) // 7 % 5), (torch.randint(0, 1000, (300_000,)), torch.randint(1, 50, (300_000,)))),
        "einsum_bilinear": lambda: (Bil(), (r(32, 128), r(32, 128))),
        "interp_bicubic": lambda: (Fn(lambda x: F.interpolate(x, scale_factor=2, mode="bicubic")), (r(1, 16, 64, 64),)),
        "maxpool_nchw": lambda: (Fn(lambda x: F.max_pool2d(x, 3, 2, 1)), (r(4, 64, 112, 112),)),
        "outer_broadcast": lambda: (Fn(lambda x, y: torch.exp(-(x[:, None] - y[None, :]) ** 2)), (r(1500), r(1200))),
    }[name]()


if __name__ == "__main__":
    cases.CASES, cases.build = MORE, build
    bench_peers.main()
