//! rule: layer_norm_weight
graph main(%x: f32[n, 4]) {
  %w: f32[4] = self.w
  %a = layer_norm(%x, [4])
  %b = mul(%a, %w)
  return %b
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %w: f32[4] = self.w
  %layer_norm: f32[n, 4] = layer_norm(%x, [4], weight=%w, eps=1e-5)
  return %layer_norm
}
