class Indexing(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
  def forward(s: __torch__.Indexing,
    x: Tensor,
    i: int,
    idx: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tuple[int, int], float, List[int], int, int]:
    b, c, w, = torch.size(x)
    a = torch.slice(torch.unsqueeze(x, -2), -1, 1, None, 2)
    d = torch.select(torch.slice(x), 1, -1)
    _0 = torch.unsqueeze(torch.slice(x, 0, i), 1)
    e = torch.slice(_0, -1, None, 2)
    _1 = annotate(List[Optional[Tensor]], [idx])
    f = torch.index(x, _1)
    _2 = torch.select(torch.slice(x), 2, 0)
    _3 = annotate(List[Optional[Tensor]], [None, idx])
    g = torch.index(_2, _3)
    _4 = annotate(List[Optional[Tensor]], [torch.gt(x, 0)])
    h = torch.index(x, _4)
    _5 = torch.select(torch.select(x, 0, 0), 0, i)
    k = torch.select(_5, 0, -1)
    m = torch.unsqueeze(x, 0)
    l = torch.slice(torch.slice(torch.slice(x), 1), 2, -2)
    _6 = torch.slice(torch.slice(x, 0, 1), 2, 1)
    _7 = annotate(List[Optional[Tensor]], [None, idx])
    n = torch.index(_6, _7)
    _8 = torch.select(torch.select(x, 0, 0), 0, 0)
    p = torch.select(_8, 0, 0)
    _9 = torch.select(torch.select(x, 0, 0), 0, 0)
    q = torch.select(_9, 0, 1)
    rest = (c, w)
    _10 = (a, d, e, f, g, torch.sum(h), k, m, l, n, torch.add(p, q), rest, float(k), torch.size(x), torch.numel(x), torch.size(x, -1))
    return _10
