//! rule: log1p
graph main(%x: f32[n, 4]) {
  %a = square(%x)
  %b = add(1, %a)
  %c = log(%b)
  return %c
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %a: f32[n, 4] = square(%x)
  %log1p: f32[n, 4] = log1p(%a)
  return %log1p
}
