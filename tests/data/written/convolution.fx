graph main(%x: f32[2, 4, 9, 8]) -> (f32[2, 6, 3, 2], f32[2, 4, 18, 16], f32[2, 4, 5, 12], f32[2, 4, 9, 8]) {
  %w: f32[6, 4, 3, 3] = self.conv.weight
  %b: f32[6] = self.conv.bias
  %c: f32[2, 6, 9, 8] = conv2d(%x, %w, %b, [1, 1], [1, 1])
  %mean: f32[6] = self.norm.mean
  %var: f32[6] = self.norm.var
  %n: f32[2, 6, 9, 8] = batch_norm(%c, %mean, %var)
  %p: f32[2, 6, 4, 4] = max_pool2d(%n, [2, 2])
  %a: f32[2, 6, 3, 2] = adaptive_avg_pool2d(%p, [3, 2])
  %u: f32[2, 4, 18, 16] = upsample_nearest(%x, scale_factor=2)
  %v: f32[2, 4, 5, 12] = upsample_bilinear(%x, [5, 12])
  %l: f32[2, 4, 9, 8] = local_response_norm(%x, 3, alpha=0.5, k=2.0)
  return (%a, %u, %v, %l)
}
