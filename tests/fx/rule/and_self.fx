//! rule: and_self
graph main(%x: i64[n, 4]) {
  %a = bitwise_and(%x, %x)
  %b = bitwise_or(%a, %a)
  return %b
}
//! =>
graph main(%x: i64[n, 4]) -> i64[n, 4] {
  return %x
}
