//! rule: shared_heads_mask
graph main(%q: f32[2, 6, n, 4], %k: f32[2, 3, m, 4], %v: f32[2, 3, m, 3], %mask: bool[n, m]) {
  %k1 = repeat_interleave(%k, 2, -3)
  %v1 = repeat_interleave(%v, 2, 1)
  %o = scaled_dot_product_attention(%q, %k1, %v1, %mask)
  // Keys and values are shared, but not by as many queries.
  %q1 = narrow(%q, 1, 0, 1)
  %k2 = repeat_interleave(%k, 2, -3)
  %v2 = repeat_interleave(%v, 2, 1)
  %p = scaled_dot_product_attention(%q1, %k2, %v2, %mask)
  return (%o, %p)
}
//! =>
graph main(%q: f32[2, 6, n, 4], %k: f32[2, 3, m, 4], %v: f32[2, 3, m, 3], %mask: bool[n, m]) -> (f32[2, 6, n, 3], f32[2, 6, n, 3]) {
  %scaled_dot_product_attention: f32[2, 6, n, 3] = scaled_dot_product_attention(%q, %k, %v, attn_mask=%mask, enable_gqa=true)
  %q1: f32[2, 1, n, 4] = narrow(%q, 1, 0, 1)
  %k2: f32[2, 6, m, 4] = repeat_interleave(%k, 2, -3)
  %v2: f32[2, 6, m, 3] = repeat_interleave(%v, 2, 1)
  %p: f32[2, 6, n, 3] = scaled_dot_product_attention(%q1, %k2, %v2, %mask)
  return (%scaled_dot_product_attention, %p)
}
