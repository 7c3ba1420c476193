//! rule: log2
graph main(%x: f32[n, 4]) {
  %a = square(%x)
  %b = add(%a, 1.0)
  %c = log(%b)
  %d = div(%c, 0.6931471805599453)
  return %d
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %a: f32[n, 4] = square(%x)
  %b: f32[n, 4] = add(%a, 1.0)
  %log2: f32[n, 4] = log2(%b)
  return %log2
}
