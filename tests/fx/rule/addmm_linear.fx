//! rule: addmm_linear
graph main(%x: f32[n, 4]) {
  %w: f32[3, 4] = self.w
  %v: f32[3] = self.v
  %a = t(%w)
  %b = addmm(%v, %x, %a)
  %c = t(%w)
  %d = addmm(%v, %x, %c, beta=2)
  return (%b, %d)
}
//! =>
graph main(%x: f32[n, 4]) -> (f32[n, 3], f32[n, 3]) {
  %w: f32[3, 4] = self.w
  %v: f32[3] = self.v
  %linear: f32[n, 3] = linear(%x, %w, bias=%v)
  %c: f32[4, 3] = t(%w)
  %d: f32[n, 3] = addmm(%v, %x, %c, beta=2)
  return (%linear, %d)
}
