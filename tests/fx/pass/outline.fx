//! pass: outline(module=Block)
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %a: f32[n, 4] = neg(%x)
  %w: f32[4] = self.block.w #{stack: [("block", "Block", 0)]}
  %v: f32[4] = self.v
  %b: f32[n, 4] = mul(%a, %w) #{stack: [("block", "Block", 0)]}
  %c: f32[n, 4] = add(%b, %v) #{stack: [("block", "Block", 0)]}
  %d: f32[n, 4] = mul(%c, %v)
  %e: f32[n, 4] = relu(%d) #{stack: [("other", "Block", 0)]}
  %f: f32[n, 4] = dropout(%e) #{stack: [("other", "Block", 0)]}
  return %f
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %a: f32[n, 4] = neg(%x)
  %v: f32[4] = self.v
  %block: f32[n, 4] = self.block(%a, %v)
  %d: f32[n, 4] = mul(%block, %v)
  %e: f32[n, 4] = relu(%d)
  %f: f32[n, 4] = dropout(%e)
  return %f
}
