//! rule: leaky_relu
graph main(%x: f32[n, 4]) {
  %a = gt(%x, 0)
  %b = mul(%x, 0.2)
  %c = where(%a, %x, %b)
  return %c
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %leaky_relu: f32[n, 4] = leaky_relu(%x, negative_slope=0.2)
  return %leaky_relu
}
