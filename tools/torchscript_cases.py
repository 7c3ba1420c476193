"""Programs of the families that TorchScript is used for, and of single features, as cases of `tests/data/torchscript`.

    OUT=DIR python tools/torchscript_cases.py

Each gives NAME.pt, NAME.json and NAME.io.safetensors, with what PyTorch returned. A feature that PyTorch refuses is said and left out.
"""
import collections, contextlib, copy, enum, importlib.util, io, json, linecache, math, os, sys, tempfile, warnings
from typing import *
warnings.filterwarnings("ignore")
import torch, torch.nn as nn, torch.nn.functional as F
from torch import Tensor
from safetensors.torch import save_file

OUT = os.environ.get("OUT", "cases")
torch.set_num_threads(1)  # programs run in forks
SCRATCH = tempfile.mkdtemp()
os.makedirs(OUT, exist_ok=True)

class Writer:
    def __init__(self): self.t = {}
    def enc(self, v, name, n):
        if isinstance(v, torch.Tensor):
            key = f"{name}{n[0]}"; n[0] += 1
            if v.is_complex():
                self.t[key] = torch.view_as_real(v.detach().resolve_conj()).contiguous().clone()
                return {"complex_tensor": key, "dtype": str(v.dtype)[6:]}
            self.t[key] = v.detach().contiguous().clone(); return {"tensor": key}
        if v is None: return {"none": True}
        if isinstance(v, bool): return {"bool": v}
        if isinstance(v, int): return {"int": v}
        if isinstance(v, float):
            return {"float": v if math.isfinite(v) else str(v)}
        if isinstance(v, complex): return {"complex": [v.real, v.imag]}
        if isinstance(v, str): return {"str": v}
        if isinstance(v, torch.dtype): return {"dtype": str(v)[6:]}
        if isinstance(v, list): return {"list": [self.enc(x, name, n) for x in v]}
        if isinstance(v, tuple) and hasattr(v, "_fields"):
            return {"named_tuple": type(v).__name__, "fields": {k: self.enc(x, name, n) for k, x in zip(v._fields, v)}}
        if isinstance(v, tuple): return {"tuple": [self.enc(x, name, n) for x in v]}
        if isinstance(v, dict): return {"dict": [[self.enc(a, name, n), self.enc(b, name, n)] for a, b in v.items()]}
        raise ValueError(type(v))

def case(name, scripted, sets, features, made_by="script"):
    """sets: list of list of (method, args) ; a set with several calls is a sequence."""
    pt = f"{OUT}/{name}.pt"
    torch.jit.save(scripted, pt)
    w = Writer(); out = []
    for i, calls in enumerate(sets):
        m = torch.jit.load(pt); before = {k: v.clone() for k, v in m.named_buffers()} if hasattr(m, "named_buffers") else {}
        cs = []
        for j, c in enumerate(calls):
            method, args = c
            p = f"{i}." if len(calls) == 1 else f"{i}.{j}."
            n = [0]; a = [w.enc(x, p + "in", n) for x in args]
            said = io.StringIO()
            entry = {"method": method, "args": a, "kwargs": {}}
            f = m if method == "forward" else getattr(m, method)
            try:
                with torch.no_grad(), contextlib.redirect_stdout(said):
                    r = f(*[copy.deepcopy(x) for x in args])
                entry["result"] = w.enc(r, p + "out", [0])
            except Exception as e:
                last = str(e).strip().splitlines()[-1]
                entry["raises"] = {"message": "", "last_line": last}
            if said.getvalue(): entry["stdout"] = said.getvalue()
            cs.append(entry)
        s = {"calls": cs}
        if len(calls) > 1:
            n = {}
            for k, v in (m.named_buffers() if before else []):
                if not torch.equal(v, before[k]):
                    key = f"{i}.state.{k}.0"; w.t[key] = v.detach().contiguous().clone(); n[k] = {"tensor": key}
            s["buffers_after"] = n
        out.append(s)
    json.dump({"made_by": made_by, "torch": torch.__version__.split("+")[0], "features": features, "plain": False, "operators": [], "sets": out}, open(f"{OUT}/{name}.json", "w"))
    f = f"{OUT}/{name}.io.safetensors"
    if w.t: save_file(w.t, f)
    elif os.path.exists(f): os.remove(f)
    print(name, "ok", sum(len(s["calls"]) for s in out), "raises", [c["raises"]["last_line"][:80] for s in out for c in s["calls"] if "raises" in c])

torch.manual_seed(0)
J = torch.jit.script

# ---- methods
class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
        self.up = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 8))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
    @torch.jit.export
    def encode(self, x: Tensor) -> Tensor:
        self.seen += x.size(0)
        return self.down(x)
    @torch.jit.export
    def decode(self, z: Tensor) -> Tensor:
        return torch.sigmoid(self.up(z))
    @torch.jit.export
    def loss(self, x: Tensor, weight: float = 1.0) -> Tuple[Tensor, int]:
        return F.mse_loss(self.forward(x), x) * weight, int(self.seen)
    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x))
x = torch.randn(3, 8)
case("sc_methods", J(Autoencoder().eval()), [
    [("forward", [x])], [("encode", [x])], [("decode", [torch.randn(4, 2)])],
    [("encode", [x]), ("loss", [x, 0.5]), ("forward", [x]), ("loss", [torch.randn(2, 8), 2.0])]],
    ["several exported methods", "a buffer that two methods change"])

# ---- detection
class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Conv2d(3, 6, 1)
        self.threshold = 0.3
        self.iou = 0.4
    def area(self, b: Tensor) -> Tensor:
        return (b[..., 2] - b[..., 0]).clamp(min=0) * (b[..., 3] - b[..., 1]).clamp(min=0)
    def nms(self, boxes: Tensor, scores: Tensor) -> Tensor:
        order = torch.argsort(scores, descending=True, stable=True)
        keep: List[int] = []
        while order.numel() > 0:
            i = int(order[0])
            keep.append(i)
            if order.numel() == 1:
                break
            rest = order[1:]
            lt = torch.max(boxes[i, :2], boxes[rest, :2])
            rb = torch.min(boxes[i, 2:], boxes[rest, 2:])
            wh = (rb - lt).clamp(min=0)
            inter = wh[:, 0] * wh[:, 1]
            union = self.area(boxes[i]) + self.area(boxes[rest]) - inter
            order = rest[inter / union <= self.iou]
        return torch.tensor(keep, dtype=torch.int64)
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        f = self.head(x)[0]
        c, h, w = f.shape
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        centre = torch.stack([xs, ys], -1).reshape(-1, 2).to(f.dtype) * 4.0
        p = f.permute(1, 2, 0).reshape(-1, c)
        size = p[:, 2:4].exp() * 3.0
        boxes = torch.cat([centre - size + p[:, :2], centre + size + p[:, :2]], dim=1)
        scores, labels = p[:, 4:].sigmoid().max(dim=1)
        ok = scores > self.threshold
        boxes, scores, labels = boxes[ok], scores[ok], labels[ok]
        out_b: List[Tensor] = []
        out_s: List[Tensor] = []
        out_l: List[Tensor] = []
        for k in range(2):
            idx = torch.where(labels == k)[0]
            if idx.numel() == 0:
                continue
            kept = idx[self.nms(boxes[idx], scores[idx])]
            out_b.append(boxes[kept]); out_s.append(scores[kept]); out_l.append(labels[kept])
        if len(out_b) == 0:
            return torch.zeros(0, 4), torch.zeros(0), torch.zeros(0, dtype=torch.int64)
        return torch.cat(out_b), torch.cat(out_s), torch.cat(out_l)
case("sc_detect", J(Detector().eval()), [[("forward", [torch.randn(1, 3, 6, 5)])], [("forward", [torch.randn(1, 3, 3, 4) * 3])]],
    ["NMS in a loop", "masks", "index after ..."])

# ---- speech with state
class Stream(nn.Module):
    state: Optional[Tensor]
    cache: List[Tensor]
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 4, 3)
        self.cell = nn.GRUCell(4, 5)
        self.out = nn.Linear(5, 1)
        self.state = None
        self.cache = []
        self.n = 0
        self.last_rate = 0
        self.register_buffer("context", torch.zeros(1, 2))
    @torch.jit.export
    def reset(self):
        self.state = None
        self.cache = []
        self.n = 0
        self.context.zero_()
    def forward(self, x: Tensor, rate: int) -> Tuple[Tensor, int]:
        if rate not in [8000, 16000]:
            raise ValueError("rate {} is not supported".format(rate))
        if x.dim() == 1:
            x = x.unsqueeze(0)
        if self.last_rate != 0 and self.last_rate != rate:
            self.reset()
        self.last_rate = rate
        if rate == 16000:
            x = x[:, ::2]
        x = torch.cat([self.context, x], 1)
        self.context = x[:, -2:]
        f = torch.relu(self.conv(x.unsqueeze(1)))
        h = self.state
        for t in range(f.size(2)):
            h = self.cell(f[:, :, t], h)
        assert h is not None
        self.state = h
        self.cache.append(h)
        if len(self.cache) > 2:
            self.cache.pop(0)
        self.n += 1
        mean = torch.stack(self.cache).mean(0)
        return torch.sigmoid(self.out(mean)), self.n
w = [torch.randn(8) for _ in range(5)]
case("sc_stream", J(Stream().eval()), [
    [("forward", [w[0], 8000]), ("forward", [w[1], 8000]), ("forward", [w[2], 8000]), ("reset", []), ("forward", [w[3], 8000])],
    [("forward", [w[0], 16000]), ("forward", [w[1][None], 16000]), ("forward", [w[2], 8000])],
    [("forward", [w[0], 44100])]], ["state between calls: tensors, Optional, list, int", "raise"])

# ---- beam search
class Beam(nn.Module):
    def __init__(self, vocab: int = 7, dim: int = 6):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.LSTMCell(dim, dim)
        self.proj = nn.Linear(dim, vocab)
        self.eos = 0
    def step(self, token: Tensor, state: Tuple[Tensor, Tensor]) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        h, c = self.rnn(self.emb(token), state)
        return F.log_softmax(self.proj(h), -1), (h, c)
    def forward(self, h0: Tensor, width: int, length: int) -> Tuple[List[List[int]], List[float]]:
        beams: List[Tuple[float, List[int], Tuple[Tensor, Tensor]]] = [(0.0, [1], (h0, torch.zeros_like(h0)))]
        done: List[Tuple[float, List[int]]] = []
        for _ in range(length):
            cand: List[Tuple[float, List[int], Tuple[Tensor, Tensor]]] = []
            for score, toks, state in beams:
                logp, new = self.step(torch.tensor([toks[-1]]), state)
                top, idx = logp[0].topk(width)
                for k in range(width):
                    t = int(idx[k])
                    s = score + float(top[k])
                    if t == self.eos:
                        done.append((s / len(toks), toks + [t]))
                    else:
                        cand.append((s, toks + [t], new))
            scores = [-c[0] for c in cand]
            order = [(scores[i], i) for i in range(len(scores))]
            order.sort()
            beams = [cand[p[1]] for p in order[:width]]
            if len(beams) == 0:
                break
        for score, toks, _ in beams:
            done.append((score / len(toks), toks))
        ranks = [(d[0], n) for n, d in enumerate(done)]
        ranks.sort(reverse=True)
        return [done[r[1]][1] for r in ranks[:width]], [r[0] for r in ranks[:width]]
case("sc_beam2", J(Beam().eval()), [[("forward", [torch.randn(1, 6), 2, 4])], [("forward", [torch.randn(1, 6) * 5, 3, 6])]],
    ["beam search", "lists of tuples that hold tensors", "sort of tuples"])

# ---- key-value cache
class Attention(nn.Module):
    def __init__(self, d: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d, 3 * d)
        self.o = nn.Linear(d, d)
    def forward(self, x: Tensor, cache: Optional[Dict[str, Tensor]]) -> Tuple[Tensor, Dict[str, Tensor]]:
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        past = 0
        if cache is not None:
            past = cache["k"].size(2)
            k = torch.cat([cache["k"], k], 2)
            v = torch.cat([cache["v"], v], 2)
        mask = torch.ones(t, past + t, dtype=torch.bool).tril(diagonal=past)
        a = (q @ k.transpose(-2, -1)) / math.sqrt(d // self.heads)
        a = a.masked_fill(~mask, float("-inf")).softmax(-1)
        y = (a @ v).transpose(1, 2).reshape(b, t, d)
        return self.o(y), {"k": k, "v": v}
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(11, 8)
        self.layers = nn.ModuleList([Attention(8, 2) for _ in range(2)])
        self.norm = nn.LayerNorm(8)
    @torch.jit.export
    def prefill(self, ids: Tensor) -> Tuple[Tensor, List[Dict[str, Tensor]]]:
        x = self.emb(ids)
        caches: List[Dict[str, Tensor]] = []
        for layer in self.layers:
            y, c = layer(x, None)
            x = x + y
            caches.append(c)
        return self.norm(x) @ self.emb.weight.t(), caches
    @torch.jit.export
    def decode(self, ids: Tensor, caches: List[Dict[str, Tensor]]) -> Tuple[Tensor, List[Dict[str, Tensor]]]:
        x = self.emb(ids)
        for i, layer in enumerate(self.layers):
            y, caches[i] = layer(x, caches[i])
            x = x + y
        return self.norm(x) @ self.emb.weight.t(), caches
    def forward(self, ids: Tensor, steps: int) -> Tensor:
        logits, caches = self.prefill(ids)
        out = [ids]
        for _ in range(steps):
            nxt = logits[:, -1].argmax(-1, keepdim=True)
            out.append(nxt)
            logits, caches = self.decode(nxt, caches)
        return torch.cat(out, 1)
ids = torch.randint(0, 11, (2, 4))
case("sc_kv", J(Decoder().eval()), [[("forward", [ids, 5])], [("prefill", [ids])]], ["key-value cache", "list of dicts", "exported methods"])

# ---- tokeniser
class Tokeniser(nn.Module):
    vocab: Dict[str, int]
    merges: Dict[str, int]
    inverse: Dict[int, str]
    def __init__(self):
        super().__init__()
        words = ["<pad>", "<unk>", "a", "b", "c", "d", "ab", "cd", "abc", "é", "ü"]
        self.vocab = {w: i for i, w in enumerate(words)}
        self.inverse = {i: w for i, w in enumerate(words)}
        self.merges = {"a b": 0, "c d": 1, "ab c": 2}
    def bpe(self, word: str) -> List[str]:
        parts = [c for c in word]
        while len(parts) > 1:
            best = -1
            rank = 1 << 30
            for i in range(len(parts) - 1):
                pair = parts[i] + " " + parts[i + 1]
                if pair in self.merges and self.merges[pair] < rank:
                    rank = self.merges[pair]
                    best = i
            if best < 0:
                break
            parts = parts[:best] + [parts[best] + parts[best + 1]] + parts[best + 2:]
        return parts
    def forward(self, text: str, length: int) -> Tuple[Tensor, Tensor, str, Dict[str, int]]:
        ids: List[int] = []
        counts: Dict[str, int] = {}
        for word in text.strip().lower().split(" "):
            if len(word) == 0:
                continue
            for part in self.bpe(word):
                ids.append(self.vocab.get(part, 1))
                counts[part] = counts.get(part, 0) + 1
        n = min(len(ids), length)
        ids = ids[:n]
        mask = [1] * n + [0] * (length - n)
        ids += [0] * (length - n)
        back = "|".join([self.inverse[i] for i in ids])
        return torch.tensor(ids), torch.tensor(mask, dtype=torch.bool), "{}:{}".format(back, n), counts
case("sc_tokens", J(Tokeniser()), [[("forward", ["abcd  Ab xyz", 8])], [("forward", [" ", 3])], [("forward", ["abc dcba", 4])]],
    ["dictionaries", "text", "byte pairs"])

# ---- enum, named tuple, interface
class Mode(enum.Enum):
    SUM = "sum"
    MEAN = "mean"
    MAX = "max"
class Stats(NamedTuple):
    low: Tensor
    high: Tensor
    n: int = 3
@torch.jit.interface
class Scorer(nn.Module):
    def score(self, x: Tensor, k: int) -> Tensor: pass
class Linear1(nn.Module):
    def __init__(self):
        super().__init__(); self.w = nn.Parameter(torch.randn(4, 4))
    def score(self, x: Tensor, k: int) -> Tensor: return x @ self.w * k
class Double(nn.Module):
    def score(self, x: Tensor, k: int) -> Tensor: return x + k
class Mixed(nn.Module):
    scorer: Scorer
    def __init__(self, s):
        super().__init__()
        self.mode = Mode.MEAN
        self.scorer = s
    def reduce(self, x: Tensor, mode: Mode) -> Tensor:
        if mode == Mode.SUM: return x.sum(-1)
        elif mode == Mode.MEAN: return x.mean(-1)
        return x.max(-1)[0]
    @torch.jit.export
    def names(self) -> List[str]:
        out: List[str] = []
        for m in [Mode.SUM, Mode.MEAN, Mode.MAX]:
            out.append(m.name + "=" + m.value)
        return out
    def forward(self, x: Tensor, k: int) -> Tuple[Stats, Tensor]:
        y = self.scorer.score(x, k)
        s = Stats(y.amin(), y.amax(), k)
        if s.n > 2:
            s = Stats(s.high, s.low)
        return s, self.reduce(y, self.mode) + self.reduce(y, Mode.MAX)
case("sc_mixed1", J(Mixed(Linear1())), [[("forward", [torch.randn(2, 4), 2])], [("forward", [torch.randn(2, 4), 3])], [("names", [])]], ["enum", "named tuple", "interface"])
case("sc_mixed2", J(Mixed(Double())), [[("forward", [torch.randn(2, 4), 2])]], ["enum", "named tuple", "interface"])

# ---- classes with operators
@torch.jit.script
class Vec:
    def __init__(self, x: float, y: float):
        self.x = x
        self.y = y
    def __add__(self, o: "Vec") -> "Vec": return Vec(self.x + o.x, self.y + o.y)
    def __mul__(self, k: float) -> "Vec": return Vec(self.x * k, self.y * k)
    def __lt__(self, o: "Vec") -> bool: return self.norm() < o.norm()
    def norm(self) -> float: return math.sqrt(self.x * self.x + self.y * self.y)
    def __len__(self) -> int: return 2
    def __getitem__(self, i: int) -> float: return self.x if i == 0 else self.y
class UseVec(nn.Module):
    def forward(self, xs: List[float]) -> Tuple[List[float], int, bool]:
        vs: List[Vec] = []
        for i in range(len(xs) - 1):
            vs.append(Vec(xs[i], xs[i + 1]) * 2.0)
        total = Vec(0.0, 0.0)
        for v in vs: total = total + v
        vs.sort()
        return [v.norm() for v in vs] + [total[0], total[1]], len(total), vs[0] < vs[-1]
case("sc_vec", J(UseVec()), [[("forward", [[3.0, -4.0, 1.0, 0.5, 2.5]])]], ["class with operators", "sort of objects"])

torch.manual_seed(1)
def tryit(name, cls, sets, features):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try: tryit_(name, cls, sets, features)
        finally: sys.stdout.flush(); os._exit(0)
    _, st = os.waitpid(pid, 0)
    if st: print(name, "CRASHED", st)
def tryit_(name, cls, sets, features):
    try: m = J(cls())
    except BaseException as e:
        print(name, "REFUSED BY TORCH", str(e).strip().splitlines()[:3]); return
    case(name, m, sets, features)

class Ellipsis1(nn.Module):
    def forward(self, x: Tensor, i: Tensor, m: Tensor) -> List[Tensor]:
        y = x.clone()
        y[..., i] = 0.0
        z = x.clone()
        z[..., 0, i] += 1.0
        return [x[..., i], x[..., i, :], x[..., None, i], x[0, ..., i], x[..., m], y, z, x[i, ..., 1:], x[..., i, 0], x[i, ..., 0], x[:, None, ..., i]]
tryit("sc_ellipsis", Ellipsis1, [[("forward", [torch.randn(3, 4, 5), torch.tensor([0, 2, 1]), torch.tensor([True, False, True, True, False])])]], ["tensor index after ..."])

class ListSlices(nn.Module):
    def forward(self, xs: List[int]) -> List[List[int]]:
        a = xs[:]
        a[1:3] = [7, 8]
        b = xs[:]
        b[::2] = [0] * len(b[::2])
        c = xs[:]
        c[1:1] = [5, 5, 5]
        d = xs[:]
        d[-2:] = [1]
        return [a, b, c, d, xs]
tryit("sc_slices", ListSlices, [[("forward", [[1, 2, 3, 4, 5]])], [("forward", [[1, 2, 3, 4, 5, 6]])]], ["assignment to slices"])

class DelSlices(nn.Module):
    def forward(self, xs: List[int]) -> List[List[int]]:
        a = xs[:]
        del a[1]
        del a[-1]
        b = xs[::2] + xs[1:-1] + xs[-3:]
        c = xs[:]
        c.insert(1, 9); c.insert(-1, 8); c.insert(100, 7); c.reverse(); c.extend([1, 1]); c.remove(9)
        return [a, b, c, sorted(c), [c.index(7), c.count(1)]]
tryit("sc_list_methods", DelSlices, [[("forward", [[1, 2, 3, 4, 5]])]], ["del", "insert", "sorted"])

class Promote(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tuple[List[int], Tensor, bool]:
        a = torch.promote_types(x.dtype, y.dtype)
        b = torch.promote_types(torch.int32, torch.float16)
        c = torch.promote_types(torch.uint8, torch.int8)
        return [a, b, c, torch.result_type(x, y), torch.result_type(x, 1.5)], x.to(a) + 1, torch.can_cast(torch.float32, torch.int32)
tryit("sc_promote", Promote, [[("forward", [torch.tensor([1, 2], dtype=torch.int32), torch.randn(2)])], [("forward", [torch.tensor([1, 2]), torch.tensor([1, 2], dtype=torch.uint8)])]], ["promote_types"])

class Hash(nn.Module):
    def forward(self, s: str, i: int, f: float) -> Tuple[bool, bool, bool, bool]:
        return hash(s) == hash(s + ""), hash(i) == hash(i + 0), hash(f) == hash(f * 1.0), hash(i) == hash(i + 1)
tryit("sc_hash", Hash, [[("forward", ["abc", 5, 1.5])]], ["hash"])

@torch.jit.script
class Box:
    def __init__(self, n: int):
        self.n = n
class Id(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tuple[bool, bool, bool, bool]:
        a = Box(1); b = Box(1); c = a
        return id(a) == id(b), id(a) == id(c), a is b, a is c
tryit("sc_id", Id, [[("forward", [torch.ones(2), torch.ones(2)])]], ["id"])

class IsInst2(nn.Module):
    def forward(self, x: Tensor) -> List[bool]:
        a: List[int] = []
        b: Any = a
        c: Any = torch.jit.annotate(List[str], [])
        d: Any = torch.jit.annotate(Dict[str, int], {})
        f: Any = (1, "a")
        return [isinstance(b, List[int]), isinstance(b, List[str]), isinstance(c, List[str]), isinstance(d, Dict[str, int]), isinstance(d, Dict[str, float]), isinstance(f, Tuple[int, str]), isinstance(f, Tuple[int, int])]
class IsInst(nn.Module):
    def forward(self, x: Tensor) -> List[bool]:
        a: List[int] = []
        b: Any = a
        c: Any = [1.0, 2.0]
        d: Any = torch.jit.annotate(List[str], [])
        e: Any = torch.jit.annotate(Dict[str, int], {})
        f: Any = (1, "a")
        g: Any = x
        h: Any = None
        return [isinstance(b, List[int]), isinstance(b, List[str]), isinstance(c, List[float]), isinstance(d, List[str]), isinstance(d, List[int]), isinstance(e, Dict[str, int]), isinstance(e, Dict[str, float]),
            isinstance(f, Tuple[int, str]), isinstance(f, Tuple[int, int]), isinstance(g, Tensor), isinstance(b, list), isinstance(f, tuple), isinstance(g, (int, Tensor)), isinstance(h, int), h is None, isinstance(b, (list, tuple))]
tryit("sc_isinstance2", IsInst2, [[("forward", [torch.ones(2)])]], ["isinstance of empty containers"])
tryit("sc_isinstance", IsInst, [[("forward", [torch.ones(2)])]], ["isinstance of empty containers"])

class Complex(nn.Module):
    def forward(self, a: float, b: float) -> Tuple[complex, complex, complex, complex, complex, float, bool]:
        z = complex(a, b)
        w = z * z + 2j - z / complex(2.0, 0.0)
        return w, w + 0, w + 1.0, w - 1, -w, abs(z), z == complex(a, b)
tryit("sc_complex", Complex, [[("forward", [1.5, -2.0])], [("forward", [0.0, 1.0])]], ["complex numbers"])

class Complex2(nn.Module):
    def forward(self, xs: List[complex]) -> Tuple[complex, List[complex], str]:
        s = 0j
        for x in xs:
            s += x
        import_ = [x * 2 for x in xs]
        return s, import_, str(s)
tryit("sc_complex_lists", Complex2, [[("forward", [[1 + 2j, -0.5j, 3 + 0j]])]], ["lists of complex numbers"])

class I16(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        y = x.to(torch.int16)
        return y, (y * 2).to(torch.float32)
tryit("sc_i16", I16, [[("forward", [torch.tensor([1.5, -3.0, 300.0])])]], ["int16"])

class RFFT(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        s = torch.fft.rfft(x)
        p = s.real ** 2 + s.imag ** 2
        return p, torch.view_as_real(s), torch.fft.irfft(s * 2, n=x.size(-1))
tryit("sc_rfft", RFFT, [[("forward", [torch.randn(2, 8)])]], ["fft.rfft"])

class STFT(nn.Module):
    def __init__(self):
        super().__init__(); self.register_buffer("window", torch.hann_window(8))
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        s = torch.stft(x, 8, 4, 8, self.window, return_complex=True)
        return s.abs(), torch.view_as_real(s)
tryit("sc_stft", STFT, [[("forward", [torch.randn(2, 32)])]], ["stft"])

class CRet(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.fft(x)
tryit("sc_cret", CRet, [[("forward", [torch.randn(6)])]], ["complex result"])


def exprs(name, params, kind, items, sets):
    """Keeps the expressions that TorchScript takes, each as a function; then all as one module."""
    ok, refused = [], []
    def build(code):
        p = f"{SCRATCH}/{name}.py"; open(p, "w").write("import math, torch, torch.nn as nn\nfrom typing import *\nfrom torch import Tensor\n" + code)
        linecache.clearcache()
        spec = importlib.util.spec_from_file_location(f"_{name}", p); m = importlib.util.module_from_spec(spec); spec.loader.exec_module(m); return m
    for it in items:
        try: torch.jit.script(build(f"def f({params}) -> {kind}:\n    return {it}\n").f); ok.append(it)
        except BaseException as e: refused.append(it)
    print(name, "torch refuses:", refused)
    body = "class M(nn.Module):\n    def forward(self, " + params + f") -> List[{kind}]:\n        out: List[{kind}] = []\n" + "".join(f"        out.append({it})\n" for it in ok) + "        return out\n"
    mod = build(body)
    tryit(name, mod.M, sets, ["expressions"])
N = [[("forward", [7, -3, 2.5])], [("forward", [-8, 3, 0.25])], [("forward", [5, 5, 1e15])]]
exprs("sc_ints", "a: int, b: int, x: float", "int", ["a // b", "a % b", "a & b", "a | b", "a ^ b", "a << 2", "a >> 1", "abs(-a)", "min(a, b)", "max(a, b)", "round(a)", "int(pow(a, 2))", "a ** 2", "math.gcd(a, b)", "math.factorial(4)", "~a", 'int("12")', 'int("-7")', 'ord("a")', "len(hex(a))", "int(True)", "int(a > b)", "divmod(a, b)[0]", "divmod(a, b)[1]", "sum([a, b, 3])", "max([a, b])", "min([a, b, 2])", "len([a, b])", "a if x > 1 else b", "torch.tensor(a).item()", "int(torch.tensor([a, b]).sum())", "[a, b][-1]", "(a, b)[1]", "int(str(a))", "bool(a) + 1"], N)
exprs("sc_float_functions", "a: int, b: int, x: float", "float", ["a / b", "x // 0.7", "x % 0.7", "-x % 0.7", "a % 0.7", "float(a)", "math.floor(x) * 1.0", "math.fmod(x, 0.7)", "math.copysign(1.0, -x)", "math.hypot(3.0, 4.0)", "round(x, 1)", "round(x)", "round(-x)", 'float("1e3")', 'float("nan")', 'float("-inf")', "math.ldexp(1.5, 2)", "math.log1p(x)", "math.atan2(x, 2.0)", "math.degrees(x)", "a ** -1.0", "a ** -2", "x ** 0.5", "math.pow(x, 2)", "math.modf(x)[0]", "math.frexp(x)[0]", "math.expm1(0.5)", "math.erf(0.3)", "math.gamma(4.5)", "math.lgamma(4.5)", "math.sqrt(2)", "math.log(8, 2)", "math.log2(8)", "math.log10(100)", "math.pi", "math.inf", "math.tau", "math.remainder(x, 0.7)", "abs(-x)", "max(x, 1.0)", "min(a, x)", "sum([x, 1.0])", "divmod(x, 0.7)[0]", "math.exp(1)", "math.sin(a)", "math.radians(180)", "math.fabs(-2)", "math.trunc(x) * 1.0", "float(int(2.9))", "1e-3 * a"], N)
exprs("sc_bools", "a: int, b: int, x: float", "bool", ["bool(a)", "a < b < 10", "not x", "math.isnan(x)", "math.isinf(x)", "math.isfinite(x)", "a is not None", "x in [1.0, 2.5]", "a in {1: 2, 7: 3}", "a == x", "a != b", "[a, b] == [7, -3]", "[a] < [b]", '"a" < "b"', "(a, b) == (b, a)", "True and a > b or x < 1", "any([a > 1, b > 1])", "all([a > 1, b > 1])", '"b" in "abc"', "a > 1.5", "True == 1", "not [a]", "bool(torch.tensor(a) > b)", "a >= b and not (a == b)", "bool(x)", 'bool("")', "bool([a])", "a in [1, 7] or b not in [3]"], N)
S = [[("forward", ["abc aba\tc", 5, 1.25])], [("forward", ["B\nc", 12, 1e-7])], [("forward", ["", -3, 1e6])], [("forward", ["a,b,,c", 0, 0.1])]]
exprs("sc_strs", "s: str, n: int, x: float", "str", ["s.upper()", "s.lower()", "s.capitalize()", "s.title()", 's.center(12, "*")', 's.ljust(9) + "|"', 's.rjust(9, "-")', "s.zfill(9)", 's.replace("a", "bb")', 's.replace("a", "bb", 1)', '",".join(s.split("a"))', '"|".join(s.split())', '"|".join(s.split(",", 1))', '"|".join(s.rsplit(",", 1))', "s[::2]", "s[-3:]", "s[1:2]", "s[::-1]", '"%s-%d-%f" % (s, n, x)', '"%d%%" % n', '"{} {} {}".format(s, n, x)', '"{}|{}".format(s, x)', 'f"{s}{n}"', 'f"{x}"', "str(x)", "str(n)", "str([n, n])", "str([x])", "str([s])", "str((n, s))", 'str({"a": n})', "str(n > 1)", "str(None)", "s * 2", 's.strip("ab")', "s.strip()", "s.lstrip()", "s.rstrip()", 's.lstrip("a")', "s.expandtabs(4)", "s.swapcase()", 's + "x"', 'str(s.find("b"))', 'str(s.rfind("a"))', 'str(s.find("b", 2))', 'str(s.count("a"))', 'str(s.startswith("a"))', 'str(s.endswith("c"))', '"|".join(s.partition("b"))', '"|".join(s.rpartition("b"))', '"|".join(s.splitlines())', "str(s.isalpha())", "str(s.isdigit())", "str(s.isspace())", "str(s.isupper())", "str(s.islower())", "str(s.istitle())", "str(s.isalnum())", "str(s.isnumeric())", "str(s.isdecimal())", "str(s.isidentifier())", "str(s.isprintable())", "bin(n)", "oct(n)", "hex(n)", "chr(n + 60)", '"-".join([c for c in s])', "str(list(s))", "str(len(s))", "str(ord(s[0]) if len(s) > 0 else 0)", "str(torch.tensor(n).item())", "str(x * 3)", "str(1e22)", "str(float(n))", "str(complex(1, n))", "str(torch.float32)", '"a\\nb\\t\\x41\\u00e9"', "repr(s)", "ascii(s)", 's.removeprefix("a")', 's.casefold()', "s.index('b') * s if False else s"], S)
class Assign(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, List[Tensor], Dict[str, Tensor]]:
        y = x.clone()
        y[1:, 0] = torch.tensor([5.0, 6.0])
        y[y > 1.5] = -1.0
        y[0][1] = 9.0
        y[:, -1] *= 2
        y[torch.tensor([0, 2]), torch.tensor([0, 1])] = 3.0
        z = y.t()
        z += 1
        l = [y, z]
        l[0] = l[1] * 2
        d = {"a": y}
        d["a"][0] = 0.0
        a, (b, c) = l[0][0], (l[1], 3)
        return y, z, [a, b * c], d
tryit("sc_assign", Assign, [[("forward", [torch.randn(3, 4)])]], ["assignment to parts of tensors"])

class Loops(nn.Module):
    def forward(self, x: Tensor, n: int) -> Tuple[Tensor, int, List[int]]:
        t = 0
        out: List[int] = []
        for i, (a, b) in enumerate(zip([1, 2, 3], [4, 5, 6])):
            t += a * b + i
        for i in range(10, 0, -3):
            out.append(i)
        for row in x:
            if bool(row.sum() > 0):
                t += 1
            else:
                continue
            if t > 100: break
        else_ = 0
        i = 0
        while True:
            i += 1
            if i % 2 == 0: continue
            if i > n: break
            x = x + i
        for k, v in {"a": 1, "b": 2}.items():
            out.append(v + len(k))
        for c in "xyz":
            else_ += ord(c)
        return x, t + else_, out
tryit("sc_loops", Loops, [[("forward", [torch.randn(3, 2), 4])], [("forward", [torch.randn(0, 2), 0])]], ["loops"])

class Try(nn.Module):
    def forward(self, x: Tensor, n: Optional[int] = None, k: float = 2.0) -> Tensor:
        assert x.dim() == 2, "expected a matrix"
        if n is None:
            n = x.size(1)
        x = F.pad(x, [0, n - x.size(1)]) if n > x.size(1) else x[:, :n]
        with torch.no_grad():
            y = x * k
        return y if n > 1 else -y
tryit("sc_default", Try, [[("forward", [torch.randn(2, 3)])], [("forward", [torch.randn(2, 3), 5])], [("forward", [torch.randn(2, 3), 1])], [("forward", [torch.randn(3)])]], ["defaults", "with", "ternary"])

class Outs(nn.Module):
    def forward(self, x: Tensor, y: Tensor, n: int) -> Tuple[List[Tensor], Tensor]:
        a = torch.empty(x.shape)
        torch.add(x, y, alpha=2, out=a)
        torch.mul(a, x, out=a)
        # Tensors without elements take the shape of the result.
        b = torch.empty(0)
        r = torch.matmul(x, y.t(), out=b)
        r += 1
        v, i = torch.empty(0), torch.empty(0, dtype=torch.long)
        torch.max(x, 1, max=v, max_values=i)
        # Parts of tensors are written, too.
        c = torch.zeros(x.shape[0] + 1, x.shape[1])
        torch.exp(x, out=c[1:])
        torch.sum(x, [0], out=c[0])
        d = torch.zeros_like(x)
        for k in range(n):
            torch.add(d, x * k, out=d)
        e = torch.zeros(2, dtype=torch.long)
        torch.arange(2, out=e)
        return [a, b, v, i, c, d, e, F.normalize(x, dim=-1)], F.normalize(x, p=1.0, dim=0, out=torch.empty(0))
tryit("sc_out", Outs, [[("forward", [torch.randn(2, 3), torch.randn(2, 3), 3])], [("forward", [torch.randn(4, 1), torch.randn(4, 1), 0])]], ["operators that write to out"])

class OutShares(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        base = torch.ones(3)
        part = base[0:2]
        torch.sum(x, [0], out=part)  # three elements: the part becomes as long as its memory
        late = base[2:]
        torch.sum(x, [1], out=late)  # memory grows
        return base, part, late
tryit("sc_out_shares", OutShares, [[("forward", [torch.randn(2, 3)])]], ["out takes another size"])

class Parts(nn.Module):
    """Operators that give lists of tensors, bools, and more results than are used."""
    def forward(self, x: Tensor, i: Tensor) -> Tuple[List[Tensor], List[int], List[bool]]:
        parts = torch.tensor_split(x, 3, 1) + torch.tensor_split(x, [1, -1], 0) + torch.tensor_split(x, [3, 1], 1) + torch.tensor_split(x, [-9, 9], 1) + torch.unsafe_chunk(x, 2, 1) + torch.unsafe_split(x, 2, 1)
        parts += torch.split_copy(x, 2, 1) + torch.unbind_copy(x, 0) + torch.hsplit(x, [1, 2]) + torch.vsplit(x, 2)
        parts += torch.dsplit(x.unsqueeze(0), [2]) + [torch.combinations(x[0]), torch._shape_as_tensor(x), torch.index_copy(x, 1, i, x[:, :2])]
        parts += [torch.as_strided(x, [2, 2], [1, 2], 1), torch.as_strided(x[1:], [2], [2])]
        bag, _, _, _ = torch.embedding_bag(x.t(), i, torch.tensor([0, 1]))
        solution, _, _, _ = torch.linalg.lstsq(x.t(), x.t())
        sizes: List[int] = []
        for part in parts:
            sizes += part.shape
        d: Dict[str, Tensor] = dict()
        d["bag"] = bag
        return parts + [d["bag"], solution], sizes, [torch.equal(x, x), torch.equal(x, x + 1), torch.equal(x, x[:1]), torch.allclose(x, x)]
tryit("sc_parts", Parts, [[("forward", [torch.randn(2, 5), torch.tensor([1, 0])])]], ["operators with lists of tensors, with bools and with several results"])

class Layers(nn.Module):
    """What PyTorch runs as one operator if no gradients are wanted, and functions without state."""
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.first = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True, activation="gelu")
        self.last = nn.TransformerEncoderLayer(8, 4, 16, batch_first=True)
    def forward(self, x: Tensor, mask: Tensor, padding: Tensor) -> Tuple[Tensor, Optional[Tensor], Tensor, Tensor, Tensor]:
        y, weights = self.attention(x, x, x, key_padding_mask=padding)
        z, _ = self.attention(x, x, x, need_weights=False, attn_mask=mask)
        a = self.last(self.first(x, src_mask=mask), src_key_padding_mask=padding)
        return y, weights, z, a, F.batch_norm(x, None, None, training=True)
def make_layers():
    torch.manual_seed(3)
    return Layers().eval().requires_grad_(False)
x = torch.randn(2, 4, 8)
later, padding = torch.ones(4, 4).triu(1).bool(), torch.tensor([[False, False, False, True], [False, False, False, False]])
tryit("sc_layers", make_layers, [[("forward", [x, later, padding])], [("forward", [x[:1] + 1, later, padding[:1]])]], ["layers of transformers in evaluation"])

class Same(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv1d(2, 3, 4, padding="same", dilation=2), nn.Conv2d(2, 3, 3, padding="valid")
    def forward(self, x, y): return self.a(x), self.b(y)
x = (torch.randn(1, 2, 9), torch.randn(1, 2, 5, 4))
case("tr_same", torch.jit.trace(Same().eval(), x), [[("forward", list(x))]], ["convolutions with named paddings"], "trace")

import torchvision
class Boxes(nn.Module):
    def forward(self, x: Tensor, boxes: Tensor, scores: Tensor) -> Tuple[Tensor, Tensor]:
        regions = torch.cat([torch.zeros_like(scores)[:, None], boxes], 1)
        return torchvision.ops.nms(boxes, scores, 0.4), torchvision.ops.roi_align(x, regions, [2, 3], 0.5, 2, True)
boxes = torch.rand(6, 4) * 4
boxes[:, 2:] += boxes[:, :2] + 1
tryit("sc_boxes", Boxes, [[("forward", [torch.randn(1, 2, 8, 8), boxes, torch.rand(6)])]], ["operators of torchvision"])

from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True)
        self.projected = nn.LSTM(8, 6, proj_size=2)
        self.gru, self.rnn = nn.GRU(2, 3, bidirectional=True), nn.RNN(6, 2, nonlinearity="relu")
    def forward(self, x: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        packed, (h, c) = self.lstm(packed)
        packed, _ = self.projected(packed)
        packed, last = self.gru(packed)
        y, n = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, padding_value=-1.0, total_length=7)
        return y, n, h, c, last, packed.data
def make_packed():
    torch.manual_seed(4)
    return Packed().eval()
x = torch.randn(3, 5, 3)
tryit("sc_packed", make_packed, [[("forward", [x, torch.tensor([2, 5, 3])])], [("forward", [x[:1], torch.tensor([4])])]], ["packed sequences"])
