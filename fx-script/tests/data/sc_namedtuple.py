class NamedIO(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
  def forward(s: __torch__.NamedIO,
    p: __torch__.Point,
    q: Tuple[Tensor, Tuple[int, float]]) -> Tuple[__torch__.Point, Tuple[Tensor, int], Tensor]:
    a, _0, = q
    n, f, = _0
    x, w, tag, = p
    if torch.__isnot__(tag, None):
      tag0 = unchecked_cast(str, tag)
      _1 = torch.eq(tag0, "neg")
    else:
      _1 = False
    if _1:
      x0 = torch.neg(x)
    else:
      x0 = x
    _2 = torch.add(torch.mul(x0, (p)[1]), a)
    _3 = torch.add(n, w)
    r = __torch__.Point(_2, _3, None)
    return (r, (torch.mul(_2, f), _3), (q)[0])
class Point(NamedTuple):
  x : Tensor
  w : int
  tag : Optional[str]
