//! pass: lift_constants
graph main(%x: f32[n, 3], %p: bool[]) {
  %a = ones([3])
  %b = add(%x, %a)
  %c = full([3], 1.0)
  %d = mul(%b, %c)
  %e = cond(%p, @then, @otherwise, [%d])
  return %e
}

graph then(%x) {
  %i = arange(3)
  %y = add(%x, %i)
  return %y
}

graph otherwise(%x) {
  %o = ones([3])
  %y = sub(%x, %o)
  return %y
}
//! =>
