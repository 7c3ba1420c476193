class WhileNorm(Module):
  __parameters__ = []
  __buffers__ = ["limit", ]
  limit : Tensor
  training : bool
  _is_full_backward_hook : Optional[bool]
  l : __torch__.torch.nn.modules.linear.___torch_mangle_321.Linear
  def forward(s: __torch__.WhileNorm,
    x: Tensor,
    most: int=20) -> Tuple[Tensor, int]:
    _0 = torch.norm(x)
    limit = s.limit
    if bool(torch.gt(_0, limit)):
      _1 = torch.lt(0, most)
    else:
      _1 = False
    x0 = x
    n = 0
    _2 = _1
    while _2:
      l = s.l
      x1 = torch.mul(torch.tanh((l).forward(x0, )), 0.90000000000000002)
      n0 = torch.add(n, 1)
      _3 = torch.norm(x1)
      limit0 = s.limit
      if bool(torch.gt(_3, limit0)):
        _4 = torch.lt(n0, most)
      else:
        _4 = False
      _2, x0, n = _4, x1, n0
    return (x0, n)
