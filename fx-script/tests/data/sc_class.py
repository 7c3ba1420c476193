class Classes(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
  def forward(s: __torch__.Classes,
    x: Tensor,
    n: int) -> Tuple[Tensor, bool, int, int, Tensor, int]:
    st = __torch__.Stack.__new__(__torch__.Stack)
    _0 = (st).__init__(3, )
    for i in range(n):
      ok = (st).push(torch.add(x, i), )
    total = (st).__add__(torch.zeros_like(x), )
    _1 = (st).__full_getter()
    items = st.items
    _2 = torch.len(items)
    dropped = st.dropped
    items0 = st.items
    if torch.gt(torch.len(items0), 0):
      _3 = (st).pop()
    else:
      _3 = x
    _4 = (total, _1, _2, dropped, _3, __torch__.two())
    return _4
def two() -> int:
  return 2
class Stack:
  items : List[Tensor]
  limit : int
  dropped : int
  def __full_getter(self: __torch__.Stack) -> bool:
    items = self.items
    _5 = torch.len(items)
    limit = self.limit
    return torch.eq(_5, limit)
  def __add__(self: __torch__.Stack,
    other: Tensor) -> Tensor:
    items = self.items
    out = other
    for _6 in range(torch.len(items)):
      x = items[_6]
      out = torch.add(out, x)
    return out
  def __init__(self: __torch__.Stack,
    limit: int) -> NoneType:
    self.items = annotate(List[Tensor], [])
    self.limit = limit
    self.dropped = 0
    return None
  def __len__(self: __torch__.Stack) -> int:
    items = self.items
    return torch.len(items)
  def pop(self: __torch__.Stack) -> Tensor:
    items = self.items
    return torch.pop(items)
  def push(self: __torch__.Stack,
    x: Tensor) -> bool:
    items = self.items
    _7 = torch.len(items)
    limit = self.limit
    if torch.ge(_7, limit):
      dropped = self.dropped
      self.dropped = torch.add(dropped, 1)
      _8 = False
    else:
      items1 = self.items
      _9 = torch.append(items1, x)
      _8 = True
    return _8
