//! rule: layer_norm_bias
graph main(%x: f32[n, 4]) {
  %w: f32[4] = self.w
  %v: f32[4] = self.v
  %a = layer_norm(%x, [4], %w)
  %b = add(%v, %a)
  return %b
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %w: f32[4] = self.w
  %v: f32[4] = self.v
  %layer_norm: f32[n, 4] = layer_norm(%x, [4], weight=%w, bias=%v, eps=1e-5)
  return %layer_norm
}
