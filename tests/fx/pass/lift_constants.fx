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
graph main(%x: f32[n, 3], %p: bool[]) {
  %a: f32[3] = self._lifted_a
  %b = add(%x, %a)
  %c: f32[3] = self._lifted_a
  %d = mul(%b, %c)
  %i: i64[3] = self._lifted_i
  %o: f32[3] = self._lifted_a
  %e = cond(%p, @then, @otherwise, [%d, %i, %o])
  return %e
}

graph then(%x, i: %i_1, %o) {
  %y = add(%x, %i_1)
  return %y
}

graph otherwise(%x, %i, o: %o_1) {
  %y = sub(%x, %o_1)
  return %y
}
