//! rule: layer_norm
graph main(%x: f32[n, 5, 4]) {
  %m = mean(%x, -1, keepdim=true)
  %c = sub(%x, %m)
  %s = mul(%c, %c)
  %v = mean(%s, [-1], keepdim=true)
  %e = add(%v, 1e-5)
  %q = sqrt(%e)
  %y = div(%c, %q)
  %m2 = mean(%y, [-1], true)
  %c2 = sub(%y, %m2)
  %v2 = var(%y, [-1], correction=0, keepdim=true)
  %e2 = add(1e-3, %v2)
  %q2 = rsqrt(%e2)
  %z = mul(%q2, %c2)
  return %z
}
//! =>
graph main(%x: f32[n, 5, 4]) -> f32[n, 5, 4] {
  %layer_norm: f32[n, 5, 4] = layer_norm(%x, [4])
  %layer_norm_1: f32[n, 5, 4] = layer_norm(%layer_norm, [4], eps=0.001)
  return %layer_norm_1
}
