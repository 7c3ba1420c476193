//! rule: tanhshrink
graph main(%x: f32[n, 4]) {
  %a = tanh(%x)
  %b = sub(%x, %a)
  return %b
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %tanhshrink: f32[n, 4] = tanhshrink(%x)
  return %tanhshrink
}
