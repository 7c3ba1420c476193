//! rule: pad_nothing
graph main(%x: f32[3, 4]) {
  %a = pad(%x, [0, 0, 0, 0])
  %b = pad(%a, [0, 0], "reflect")
  %c = pad(%b, [1, -1])
  %d = pad(%c, [])
  return %d
}
//! =>
graph main(%x: f32[3, 4]) -> f32[3, 4] {
  %c: f32[3, 4] = pad(%x, [1, -1])
  return %c
}
