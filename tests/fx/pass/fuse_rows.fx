//! pass: shape_prop, fuse
graph main(%x: f32[n, 8], %r: f32[n, 8]) {
  %w: f32[8] = self.w
  %b: f32[8] = self.b
  %a = add(%x, %r)
  %norm = layer_norm(%a, [8], %w, %b)
  %g = gelu(%norm)
  %mean = mean(%g, [-1], true)
  %centred = sub(%g, %mean)
  %p = softmax(%centred, -1)
  %total = sum(%p, 0)
  return (%p, %total)
}
//! =>
graph main(%x: f32[n, 8], %r: f32[n, 8]) -> (f32[n, 8], f32[8]) {
  %w: f32[8] = self.w
  %b: f32[8] = self.b
  %fused: f32[n, 8] = fused(@add_layer_norm_gelu_mean_6, [%x, %r, %w, %b])
  %total: f32[8] = sum(%fused, 0)
  return (%fused, %total)
}

graph add_layer_norm_gelu_mean_6(%x: f32[n, 8], %r: f32[n, 8], %w: f32[8], %b: f32[8]) -> f32[n, 8] {
  %a: f32[n, 8] = add(%x, %r)
  %norm: f32[n, 8] = layer_norm(%a, [8], %w, %b)
  %g: f32[n, 8] = gelu(%norm)
  %mean: f32[n, 1] = mean(%g, [-1], true)
  %centred: f32[n, 8] = sub(%g, %mean)
  %p: f32[n, 8] = softmax(%centred, -1)
  return %p
}
