//! rule: linear_bias
graph main(%x: f32[n, 4]) {
  %w: f32[3, 4] = self.w
  %v: f32[3] = self.v
  %u: f32[1] = self.u
  %a = linear(%x, %w)
  %b = add(%v, %a)
  %c = linear(%x, %w)
  %d = add(%c, %u)
  return (%b, %d)
}
//! =>
graph main(%x: f32[n, 4]) -> (f32[n, 3], f32[n, 3]) {
  %w: f32[3, 4] = self.w
  %v: f32[3] = self.v
  %u: f32[1] = self.u
  %linear: f32[n, 3] = linear(%x, %w, bias=%v)
  %c: f32[n, 3] = linear(%x, %w)
  %d: f32[n, 3] = add(%c, %u)
  return (%linear, %d)
}
