//! rule: softsign
graph main(%x: f32[n, 4]) {
  %a = abs(%x)
  %b = add(%a, 1)
  %c = div(%x, %b)
  return %c
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %softsign: f32[n, 4] = softsign(%x)
  return %softsign
}
