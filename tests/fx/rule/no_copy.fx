//! rule: no_copy
graph main(%x: f32[n, 4]) {
  %a = clone(%x)
  %b = contiguous(%a)
  %c = detach(%b)
  %d = positive(%c)
  return %d
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  return %x
}
