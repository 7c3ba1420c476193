class Aliasing(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
  def forward(s: __torch__.Aliasing,
    x: Tensor,
    n: int) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    y = torch.clone(x)
    v = torch.view(y, [-1])
    row = torch.select(y, 0, 0)
    _0 = torch.add_(row, 1)
    _1 = torch.select(v, 0, 1)
    _2 = torch.tensor(9, dtype=ops.prim.dtype(_1), device=ops.prim.device(_1))
    _3 = torch.copy_(_1, _2)
    _4 = torch.mul_(torch.select(torch.slice(y), 1, 0), 2)
    t = torch.t(y)
    _5 = torch.select(torch.select(t, 0, 0), 0, 0)
    _6 = torch.tensor(-1, dtype=ops.prim.dtype(_5), device=ops.prim.device(_5))
    _7 = torch.copy_(_5, _6)
    out = torch.zeros([n, 2])
    for i in range(n):
      _8 = torch.remainder(i, torch.size(y, 0))
      _9 = torch.slice(torch.select(y, 0, _8), 0, None, 2)
      _10 = torch.copy_(torch.select(out, 0, i), _9)
      o = torch.select(out, 0, i)
      o0 = torch.add_(o, i)
      _11 = torch.eq(torch.remainder(i, 2), 0)
      if _11:
        _12 = torch.neg_(torch.select(out, 0, i))
      else:
        pass
    a = [y, out]
    _13 = torch.clamp_(a[0], -1)
    w = torch.slice(a[1], 0, None, 1)
    _14 = torch.zero_(w)
    p, q, = torch.chunk(y, 2, 1)
    _15 = torch.slice(torch.slice(q), 1, None, 1)
    _16 = torch.copy_(p, _15)
    _17 = torch.gt(y, 3)
    _18 = torch.tensor(3., dtype=ops.prim.dtype(y), device=ops.prim.device(y))
    _19 = annotate(List[Optional[Tensor]], [_17])
    _20 = torch.index_put_(y, _19, _18)
    _21 = annotate(List[Optional[Tensor]], [torch.tensor([0, 0])])
    sel = torch.index(y, _21)
    _22 = torch.fill_(sel, 5)
    return (y, v, t, out, row, sel)
