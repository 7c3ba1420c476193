class OptionalIn(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : NoneType
  extra : Optional[Tensor]
  l : __torch__.torch.nn.modules.linear.___torch_mangle_322.Linear
  def forward(s: __torch__.OptionalIn,
    x: Tensor,
    mask: Optional[Tensor]=None,
    scale: Optional[float]=None) -> Tuple[Tensor, Optional[Tensor]]:
    l = s.l
    y = (l).forward(x, )
    if torch.__isnot__(mask, None):
      mask1 = unchecked_cast(Tensor, mask)
      y0, mask0 = torch.masked_fill(y, mask1, 0.), mask1
    else:
      y0, mask0 = y, mask
    extra = s.extra
    if torch.__isnot__(extra, None):
      e = unchecked_cast(Tensor, extra)
      y1 = torch.add(y0, e)
    else:
      l0 = s.l
      bias = l0.bias
      y1 = torch.sub(y0, bias)
    if torch.__is__(scale, None):
      _0 = (y1, mask0)
    else:
      scale0 = unchecked_cast(float, scale)
      _0 = (torch.mul(y1, scale0), None)
    return _0
