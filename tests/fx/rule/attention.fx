//! rule: attention
graph main(%q: f32[b, 2, 5, 4], %k: f32[b, 2, 6, 4], %v: f32[b, 2, 6, 3], %rows: f32[b, 6, 2, 4]) {
  %t = transpose(%k, -2, -1)
  %s = matmul(%q, %t)
  %d = div(%s, 2.0)
  %p = softmax(%d, -1)
  %o = matmul(%p, %v)
  %u = transpose(%k, 2, 3)
  %r = mul(%q, 0.5)
  %e = matmul(%r, %u)
  %f = softmax(%e, 3)
  %g = matmul(%f, %v)
  %h = transpose(%k, 1, 3)
  %kt = permute(%rows, [0, 2, 3, 1])
  %n = matmul(%q, %kt)
  %m = softmax(%n, -1)
  %l = matmul(%m, %v)
  return (%o, %g, %h, %l)
}
//! =>
graph main(%q: f32[b, 2, 5, 4], %k: f32[b, 2, 6, 4], %v: f32[b, 2, 6, 3], %rows: f32[b, 6, 2, 4]) -> (f32[b, 2, 5, 3], f32[b, 2, 5, 3], f32[b, 4, 6, 2], f32[b, 2, 5, 3]) {
  %scaled_dot_product_attention: f32[b, 2, 5, 3] = scaled_dot_product_attention(%q, %k, %v, scale=0.5, safe_softmax=false)
  %mul: f32[b, 2, 5, 4] = mul(%q, 0.5)
  %scaled_dot_product_attention_1: f32[b, 2, 5, 3] = scaled_dot_product_attention(%mul, %k, %v, scale=1.0, safe_softmax=false)
  %h: f32[b, 4, 6, 2] = transpose(%k, 1, 3)
  %permute: f32[b, 2, 6, 4] = permute(%rows, [0, 2, 1, 3])
  %scaled_dot_product_attention_2: f32[b, 2, 5, 3] = scaled_dot_product_attention(%q, %permute, %v, scale=1.0, safe_softmax=false)
  return (%scaled_dot_product_attention, %scaled_dot_product_attention_1, %h, %scaled_dot_product_attention_2)
}
