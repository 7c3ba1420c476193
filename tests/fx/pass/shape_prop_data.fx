//! pass: shape_prop, simplify_sizes, dead_code
graph main<u0: 2..=5>(%n: i64[], %x: f32[4]) -> (i64[u0], f32[2*u1]) {
  %clamp: i64[] = clamp(%n, 2, 5)
  %item: <u0> = item(%clamp)
  %arange: i64[u0] = arange(%item)
  %nonzero: i64[u1, 1] = nonzero(%x)
  %size: <u1> = size(%nonzero, 0)
  %mul: <2*u1> = mul(%size, 2)
  %zeros: f32[2*u1] = zeros([%mul])
  return (%arange, %zeros)
}
//! =>
graph main<u0: 2..=5>(%n: i64[], %x: f32[4]) -> (i64[u0], f32[2*u1]) {
  %clamp: i64[] = clamp(%n, 2, 5)
  %item: <u0> = item(%clamp)
  %arange: i64[u0] = arange(%item)
  %nonzero: i64[u1, 1] = nonzero(%x)
  %size: <u1> = size(%nonzero, 0)
  %mul: int = mul(%size, 2)
  %zeros: f32[2*u1] = zeros([%mul])
  return (%arange, %zeros)
}
