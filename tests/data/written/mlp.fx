graph main(%x: f32[n, 6]) -> f32[n, 3] {
  %w0: f32[8, 6] = self.layers.0.weight
  %b0: f32[8] = self.layers.0.bias
  %h: f32[n, 8] = linear(%x, %w0, %b0)
  %r: f32[n, 8] = gelu(%h)
  %w1: f32[3, 8] = self.layers.2.weight
  %b1: f32[3] = self.layers.2.bias
  %y: f32[n, 3] = linear(%r, %w1, %b1)
  %s: f32[n, 3] = log_softmax(%y, -1)
  return %s
}
