//! pass: sink
graph main(%x: f32[n, 4]) {
  %v: f32[4] = self.v
  %w: f32[4] = self.w
  %o = ones([4])
  %a = neg(%x)
  %b = add(%a, %w)
  %c = add(%b, %v)
  %d = add(%c, %o)
  return %d
}
//! =>
graph main(%x: f32[n, 4]) {
  %a = neg(%x)
  %w: f32[4] = self.w
  %b = add(%a, %w)
  %v: f32[4] = self.v
  %c = add(%b, %v)
  %o = ones([4])
  %d = add(%c, %o)
  return %d
}
