//! rule: tril_tril
graph main(%x: f32[3, 4]) {
  %a = tril(%x, 1)
  %b = tril(%a, 1)
  %c = tril(%b)
  return %c
}
//! =>
graph main(%x: f32[3, 4]) -> f32[3, 4] {
  %tril: f32[3, 4] = tril(%x, diagonal=1)
  %c: f32[3, 4] = tril(%tril)
  return %c
}
