//! rule: triu_triu
graph main(%x: f32[3, 4]) {
  %a = triu(%x)
  %b = triu(%a)
  return %b
}
//! =>
graph main(%x: f32[3, 4]) -> f32[3, 4] {
  %triu: f32[3, 4] = triu(%x, diagonal=0)
  return %triu
}
