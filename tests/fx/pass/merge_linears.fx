//! pass: shape_prop, merge_linears, dead_code
graph main(%x: f32[n, 5, 4]) {
  %q: f32[6, 4] = self.q.weight
  %a = linear(%x, %q)
  %k: f32[2, 4] = self.k.weight
  %b = linear(%x, %k)
  %v: f32[3, 4] = self.v.weight
  %vb: f32[3] = self.v.bias
  %c = linear(%x, %v, %vb)
  return (%a, %b, %c)
}
//! =>
graph main(%x: f32[n, 5, 4]) -> (f32[n, 5, 6], f32[n, 5, 2], f32[n, 5, 3]) {
  %_folded_q_joined: f32[8, 4] = self._folded_q_joined
  %linear: f32[n, 5, 8] = linear(%x, %_folded_q_joined)
  %narrow: f32[n, 5, 6] = narrow(%linear, -1, 0, 6)
  %narrow_1: f32[n, 5, 2] = narrow(%linear, -1, 6, 2)
  %v: f32[3, 4] = self.v.weight
  %vb: f32[3] = self.v.bias
  %c: f32[n, 5, 3] = linear(%x, %v, %vb)
  return (%narrow, %narrow_1, %c)
}
