class ForkWait(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
  ls : __torch__.torch.nn.modules.container.___torch_mangle_329.ModuleList
  def forward(s: __torch__.ForkWait,
    x: Tensor,
    n: int) -> Tuple[Tensor, List[Tensor]]:
    futures = annotate(List[Future[Tensor]], [])
    for i in range(n):
      _0 = torch.add(x, i)
      def __forked_function():
        return __torch__.half_work(_0, i, )
      _1 = fork(__forked_function)
      _2 = torch.append(futures, _1)
    ls = s.ls
    _00 = getattr(ls, "0")
    def __forked_function0():
      return (_00).forward(x, )
    f = fork(__forked_function0)
    ls0 = s.ls
    _10 = getattr(ls0, "1")
    y = (_10).forward(x, )
    outs = annotate(List[Tensor], [])
    for _3 in range(torch.len(futures)):
      q = futures[_3]
      _4 = torch.append(outs, torch.wait(q))
    return (torch.add(torch.wait(f), y), outs)
def half_work(x: Tensor,
    n: int) -> Tensor:
  x0 = x
  for _5 in range(n):
    _6 = torch.tanh(torch.matmul(x0, torch.t(x0)))
    x0 = torch.matmul(_6, x0)
  return x0
