class Unions(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
  def forward(s: __torch__.Unions,
    v: Union[Tensor, List[int], int],
    any: Any) -> Tuple[Tensor, int]:
    _0 = isinstance(v, int)
    if _0:
      v0 = unchecked_cast(int, v)
      y = torch.full([2], float(v0))
    else:
      v1 = unchecked_cast(Union[Tensor, List[int]], v)
      _1 = isinstance(v1, Tensor)
      if _1:
        v2 = unchecked_cast(Tensor, v1)
        y0 = torch.mul(v2, 2)
      else:
        v3 = unchecked_cast(List[int], v1)
        y0 = torch.to(torch.tensor(v3), 6)
      y = y0
    _2 = isinstance(any, str)
    if _2:
      any0 = unchecked_cast(str, any)
      k = torch.len(any0)
    else:
      any1 = unchecked_cast(Any, any)
      _3 = isinstance(any1, (float, int))
      if _3:
        k0 = 100
      else:
        any2 = unchecked_cast(Any, any1)
        _4 = isinstance(any2, List[Tensor])
        if _4:
          any3 = unchecked_cast(List[Tensor], any2)
          k2 = torch.add(torch.len(any3), 1000)
          k1 = k2
        else:
          any4 = unchecked_cast(Any, any2)
          _5 = isinstance(any4, tuple)
          if _5:
            k3 = -1
          else:
            k3 = 0
          k1 = k3
        k0 = k1
      k = k0
    return (y, k)
