graph main(%tokens: i64[n, 7]) -> f32[n, 7, 8] {
  %e: f32[13, 8] = self.embedding.weight
  %x: f32[n, 7, 8] = embedding(%tokens, %e)
  %w: f32[8] = self.norm.weight
  %b: f32[8] = self.norm.bias
  %y: f32[n, 7, 8] = layer_norm(%x, [8], %w, %b)
  %h: f32[n, 7, 2, 4] = reshape(%y, [<n>, 7, 2, 4])
  %t: f32[n, 2, 7, 4] = transpose(%h, 1, 2)
  %a: f32[n, 2, 7, 4] = scaled_dot_product_attention(%t, %t, %t, is_causal=true)
  %u: f32[n, 7, 2, 4] = transpose(%a, 1, 2)
  %v: f32[n, 7, 8] = reshape(%u, [<n>, 7, 8])
  %r: f32[n, 7, 8] = add(%x, %v)
  return %r
}
