class Strings(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : NoneType
  name : str
  sep : Final[str] = "/"
  def forward(s: __torch__.Strings,
    x: Tensor,
    w: str,
    n: int,
    f: float) -> Tuple[str, List[str], int, bool]:
    name = s.name
    a = torch.format("{}{}{}:{}", name, "/", w, n)
    b = torch.format("{} and {} {}", f, torch.gt(n, 2), [n, 3])
    c = torch.percentFormat("%s has %d of %f", (w, n, f))
    parts = torch.split(torch.add(torch.add(a, "/"), b), "/")
    j = torch.join(",", parts)
    print(a, n, f)
    if torch.startswith(w, "k"):
      t = torch.upper(torch.strip(w))
    else:
      t = torch.slice(torch.slice(w, 1))
    _0 = torch.add(j, c)
    _1 = torch.add(w, w)
    _2 = w[-1]
    _3 = str(n)
    _4 = torch.replace(w, "a", "o")
    _5 = torch.join("x", [w, w])
    _6 = str(f)
    if torch.isalpha(w):
      _7 = torch.title(w)
    else:
      _7 = torch.lower(w)
    _8 = [t, _1, _2, _3, _4, _5, _6, _7, __torch__.repr_(x, )]
    _9 = torch.find(j, "and")
    if torch.endswith(w, "y"):
      _10 = True
    else:
      _11 = torch.find(w, "a", 0, torch.len(w))
      _10 = torch.ne(_11, -1)
    return (_0, _8, _9, _10)
def repr_(x: Tensor) -> str:
  _12 = torch.add(str(torch.list(torch.size(x))), str(torch.dim(x)))
  return _12
