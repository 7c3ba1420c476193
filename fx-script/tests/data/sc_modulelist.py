class ModuleLists(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
  ls : __torch__.torch.nn.modules.container.___torch_mangle_326.ModuleList
  d : __torch__.torch.nn.modules.container.ModuleDict
  ps : __torch__.torch.nn.modules.container.ParameterList
  def forward(s: __torch__.ModuleLists,
    x: Tensor,
    skip: int) -> Tuple[Tensor, List[Tensor], int, bool, Tensor, Tensor]:
    outs = annotate(List[Tensor], [])
    ls = s.ls
    _0 = getattr(ls, "0")
    _1 = getattr(ls, "1")
    _2 = getattr(ls, "2")
    if torch.ne(0, skip):
      x1 = (_0).forward(x, )
      _3 = torch.append(outs, x1)
      x0 = x1
    else:
      x0 = x
    if torch.ne(1, skip):
      x3 = (_1).forward(x0, )
      _4 = torch.append(outs, x3)
      x2 = x3
    else:
      x2 = x0
    if torch.ne(2, skip):
      x5 = (_2).forward(x2, )
      _5 = torch.append(outs, x5)
      x4 = x5
    else:
      x4 = x2
    d = s.d
    up = d.up
    act = d.act
    x6 = (up).forward(x4, )
    if torch.gt(skip, 0):
      x7 = (act).forward(x6, )
    else:
      x7 = x6
    ps = s.ps
    _06 = getattr(ps, "0")
    _15 = getattr(ps, "1")
    _6 = outs[0]
    _7 = torch.mul(_06, (act).forward(outs[0], ))
    _8 = torch._set_item(outs, 0, torch.add(_6, _7))
    _9 = outs[0]
    _10 = torch.mul(_15, (act).forward(outs[0], ))
    _11 = torch._set_item(outs, 0, torch.add(_9, _10))
    _12 = torch.append(outs, (act).forward(outs[-1], ))
    _13 = torch.append(outs, (act).forward(outs[-1], ))
    ls0 = s.ls
    _14 = (ls0).__len__()
    d0 = s.d
    _16 = (d0).__contains__("up", )
    ls1 = s.ls
    _017 = getattr(ls1, "0")
    _18 = (_017).forward(outs[0], )
    ls2 = s.ls
    _26 = getattr(ls2, "2")
    _19 = (x7, outs, _14, _16, _18, (_26).forward(x7, ))
    return _19
