//! pass: shape_prop, fuse
graph main(%x: f32[n, 4], %r: f32[n, 6], %image: f32[1, 3, 8, 8]) {
  %w: f32[6, 4] = self.w
  %b: f32[6] = self.b
  %k: f32[5, 3, 3, 3] = self.k
  %kb: f32[5] = self.kb
  %h = linear(%x, %w, %b)
  %g = gelu(%h)
  %y = add(%g, %r)
  %p = softmax(%y, -1)
  %c = conv2d(%image, %k, %kb, padding=[1, 1])
  %d = relu(%c)
  return (%y, %p, %d)
}
//! =>
graph main(%x: f32[n, 4], %r: f32[n, 6], %image: f32[1, 3, 8, 8]) -> (f32[n, 6], f32[n, 6], f32[1, 5, 8, 8]) {
  %w: f32[6, 4] = self.w
  %b: f32[6] = self.b
  %k: f32[5, 3, 3, 3] = self.k
  %kb: f32[5] = self.kb
  %fused: f32[n, 6] = fused(@linear_gelu_add, [%x, %w, %b, %r])
  %p: f32[n, 6] = softmax(%fused, -1)
  %fused_1: f32[1, 5, 8, 8] = fused(@conv2d_relu, [%image, %k, %kb])
  return (%fused, %p, %fused_1)
}

graph linear_gelu_add(%x: f32[n, 4], %w: f32[6, 4], %b: f32[6], %r: f32[n, 6]) -> f32[n, 6] {
  %h: f32[n, 6] = linear(%x, %w, %b)
  %g: f32[n, 6] = gelu(%h)
  %y: f32[n, 6] = add(%g, %r)
  return %y
}

graph conv2d_relu(%image: f32[1, 3, 8, 8], %k: f32[5, 3, 3, 3], %kb: f32[5]) -> f32[1, 5, 8, 8] {
  %c: f32[1, 5, 8, 8] = conv2d(%image, %k, %kb, padding=[1, 1])
  %d: f32[1, 5, 8, 8] = relu(%c)
  return %d
}
