//! rule: attention_mask
graph main(%q: f32[b, 5, 4], %k: f32[b, 6, 4], %v: f32[b, 6, 3], %m: f32[5, 6]) {
  %t = transpose(%k, 1, 2)
  %s = bmm(%q, %t)
  %d = mul(0.5, %s)
  %a = add(%d, %m)
  %p = softmax(%a, -1)
  %o = bmm(%p, %v)
  return %o
}
//! =>
graph main(%q: f32[b, 5, 4], %k: f32[b, 6, 4], %v: f32[b, 6, 3], %m: f32[5, 6]) -> f32[b, 5, 3] {
  %scaled_dot_product_attention: f32[b, 5, 3] = scaled_dot_product_attention(%q, %k, %v, attn_mask=%m, scale=0.5, safe_softmax=false)
  return %scaled_dot_product_attention
}
