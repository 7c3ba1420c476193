//! rule: t_t
graph main(%x: f32[n, 4]) {
  %a = t(%x)
  %b = t(%a)
  return %b
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  return %x
}
