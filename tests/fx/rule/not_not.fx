//! rule: not_not
graph main(%x: i64[n, 4]) {
  %a = bitwise_not(%x)
  %b = bitwise_not(%a)
  return %b
}
//! =>
graph main(%x: i64[n, 4]) -> i64[n, 4] {
  return %x
}
