//! rule: logical_not_not
graph main(%x: bool[n, 4], %y: f32[3]) {
  %a = logical_not(%x)
  %b = logical_not(%a)
  %c = logical_not(%y)
  %d = logical_not(%c)
  return (%b, %d)
}
//! =>
graph main(%x: bool[n, 4], %y: f32[3]) -> (bool[n, 4], bool[3]) {
  %c: bool[3] = logical_not(%y)
  %d: bool[3] = logical_not(%c)
  return (%x, %d)
}
