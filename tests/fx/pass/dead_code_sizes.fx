//! pass: dead_code
graph main(%x: f32[n, 4], %k: i64[]) {
  %size: <u0> = num_int(%k)
  %other: <u1> = num_int(%k)
  %found: i64[u2, 2] = nonzero(%x)
  %more: i64[u3, 2] = nonzero(%x)
  %rows = arange(0, <u0 + u2>)
  return %rows
}
//! =>
graph main(%x: f32[n, 4], %k: i64[]) {
  %size: <u0> = num_int(%k)
  %found: i64[u2, 2] = nonzero(%x)
  %rows = arange(0, <u0 + u2>)
  return %rows
}
