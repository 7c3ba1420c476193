//! pass: outline(module=Block)
graph main(%x: f16[n]) -> f16[max(0, n - 2)] {
  %a: f16[max(0, n - 2)] = diff(%x, n=2)
  %b: f16[max(0, n - 2)] = mul(%a, -1) #{stack: [("block", "Block", 0)]}
  return %b
}
//! =>
graph main(%x: f16[n]) -> f16[max(0, n - 2)] {
  %a: f16[max(0, n - 2)] = diff(%x, n=2)
  %block: f16[max(0, n - 2)] = self.block(%a)
  return %block
}
