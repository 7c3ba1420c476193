//! pass: hoist
graph main(%x: f32[n, 4]) {
  %a = neg(%x)
  %w: f32[4] = self.w
  %b = add(%a, %w)
  %v: f32[4] = self.v
  %c = add(%b, %v)
  return %c
}
//! =>
graph main(%x: f32[n, 4]) {
  %w: f32[4] = self.w
  %v: f32[4] = self.v
  %a = neg(%x)
  %b = add(%a, %w)
  %c = add(%b, %v)
  return %c
}
