//! rule: squeeze_unsqueeze
graph main(%x: f32[n, 4]) {
  %a = unsqueeze(%x, 1)
  %b = squeeze(%a, 1)
  %c = unsqueeze(%b, 0)
  %d = squeeze(%c, dim=[0])
  return %d
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  return %x
}
