//! rule: shared_heads
graph main(%q: f32[b, 8, n, 4], %k: f32[b, 2, 6, 4], %v: f32[b, 2, 6, 3], %w: f32[b, 8, 6, 3]) {
  %k1 = repeat_interleave(%k, 4, 1)
  %v1 = unsqueeze(%v, 2)
  %v2 = expand(%v1, [-1, -1, 4, -1, -1])
  %v3 = reshape(%v2, [-1, 8, 6, 3])
  %o = scaled_dot_product_attention(%q, %k1, %v3, is_causal=true, scale=0.25)
  // One alone is no reason.
  %k2 = repeat_interleave(%k, 4, 1)
  %p = scaled_dot_product_attention(%q, %k2, %w)
  // Heads that follow each other are not those of one head.
  %k3 = repeat_interleave(%k, 4, 1)
  %v4 = unsqueeze(%v, 1)
  %v5 = expand(%v4, [-1, 4, -1, -1, -1])
  %v6 = reshape(%v5, [-1, 8, 6, 3])
  %r = scaled_dot_product_attention(%q, %k3, %v6)
  return (%o, %p, %r)
}
//! =>
graph main(%q: f32[b, 8, n, 4], %k: f32[b, 2, 6, 4], %v: f32[b, 2, 6, 3], %w: f32[b, 8, 6, 3]) -> (f32[b, 8, n, 3], f32[b, 8, n, 3], f32[b, 8, n, 3]) {
  %scaled_dot_product_attention: f32[b, 8, n, 3] = scaled_dot_product_attention(%q, %k, %v, is_causal=true, scale=0.25, enable_gqa=true)
  %k2: f32[b, 8, 6, 4] = repeat_interleave(%k, 4, 1)
  %p: f32[b, 8, n, 3] = scaled_dot_product_attention(%q, %k2, %w)
  %k3: f32[b, 8, 6, 4] = repeat_interleave(%k, 4, 1)
  %v4: f32[b, 1, 2, 6, 3] = unsqueeze(%v, 1)
  %v5: f32[b, 4, 2, 6, 3] = expand(%v4, [-1, 4, -1, -1, -1])
  %v6: f32[b, 8, 6, 3] = reshape(%v5, [-1, 8, 6, 3])
  %r: f32[b, 8, n, 3] = scaled_dot_product_attention(%q, %k3, %v6)
  return (%scaled_dot_product_attention, %p, %r)
}
