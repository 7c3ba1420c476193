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
  %c: i64[2] = remainder(%k, 3)
  %d: f32[2] = mul(%x, %b)
  %e: f32[2] = add(%d, %c)
  %j: i64[] = add(%i, 1)
  return [%j, %e]
}
//! =>
graph main(%x: f32[2], %y: f32[2], %k: i64[2]) -> f32[2] {
  %i: i64[] = zeros([], dtype=i64)
  %most: i64[] = sum(%k)
  %a: f32[2] = exp(%y)
  %b: f32[2] = mul(%a, 0.5)
  %r: [i64[], f32[2]] = while_loop(@test, @body, [%i, %x], [%y, %k, %most, %b])
  %z: f32[2] = getitem(%r, 1)
  return %z
}

graph test(%i: i64[], %x: f32[2], %y: f32[2], %k: i64[2], most: %most_1: i64[], %b: f32[2]) -> bool[] {
  %go: bool[] = lt(%i, %most_1)
  return %go
}

graph body(%i: i64[], %x: f32[2], %y: f32[2], %k: i64[2], %most: i64[], b: %b_1: f32[2]) -> [i64[], f32[2]] {
  %c: i64[2] = remainder(%k, 3)
  %d: f32[2] = mul(%x, %b_1)
  %e: f32[2] = add(%d, %c)
  %j: i64[] = add(%i, 1)
  return [%j, %e]
}
