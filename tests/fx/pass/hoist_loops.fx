//! pass: shape_prop, hoist_loops
graph main(%x: f32[2], %y: f32[2], %k: i64[2]) {
  %i = zeros([], dtype=i64)
  %r = while_loop(@test, @body, [%i, %x], [%y, %k])
  %z = getitem(%r, 1)
  return %z
}

graph test(%i: i64[], %x: f32[2], %y: f32[2], %k: i64[2]) {
  %most: i64[] = sum(%k)
  %go: bool[] = lt(%i, %most)
  return %go
}

graph body(%i: i64[], %x: f32[2], %y: f32[2], %k: i64[2]) {
  %a: f32[2] = exp(%y)
  %b: f32[2] = mul(%a, 0.5)
  %c: i64[2] = remainder(%k, %k)
  %d: f32[2] = mul(%x, %b)
  %e: f32[2] = add(%d, %c)
  %j: i64[] = add(%i, 1)
  return [%j, %e]
}
//! =>
