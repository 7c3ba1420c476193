class Constants(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : NoneType
  a_list : List[float]
  a_dict : Dict[str, List[int]]
  a_tuple : Tuple[int, Tuple[float, str]]
  big : int
  neg : int
  a_str : str
  ts : List[Tensor]
  c : complex
  b : Final[bool] = True
  l : Final[Tuple[int, int]] = (1, 2)
  c_none : Final[NoneType] = None
  f : Final[float] = 0.001
  c_tuple : Final[Tuple[int, str, float]] = (3, "x", 1.5)
  def forward(s: __torch__.Constants,
    x: Tensor) -> Tuple[Tensor, List[float], Dict[str, List[int]], Tuple[int, Tuple[float, str]], int, int, str, Tensor, Tensor, float, float, Tensor]:
    y = torch.add(torch.add(torch.mul(x, 3), 1.5), 0.001)
    y0 = torch.add(y, 1)
    y1 = torch.add(y0, 2)
    _0 = torch.tensor([[1, 2], [3, 4]])
    a_list = s.a_list
    a_dict = s.a_dict
    a_tuple = s.a_tuple
    big = s.big
    neg = s.neg
    a_str = s.a_str
    ts = s.ts
    _1 = torch.add(ts[0], 1)
    ts0 = s.ts
    _2 = (y1, a_list, a_dict, a_tuple, big, neg, a_str, _1, _0, -inf, 9.9999999999999995e-08, ts0[1])
    return _2
