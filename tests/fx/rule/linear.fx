//! rule: linear
graph main(%x: f32[n, 4]) {
  %w: f32[3, 4] = self.w
  %v: f32[2, 3] = self.v
  %a = t(%w)
  %b = matmul(%x, %a)
  %c = transpose(%v, 0, 1)
  %d = matmul(%b, %c)
  return %d
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 2] {
  %w: f32[3, 4] = self.w
  %v: f32[2, 3] = self.v
  %linear: f32[n, 3] = linear(%x, %w)
  %linear_1: f32[n, 2] = linear(%linear, %v)
  return %linear_1
}
