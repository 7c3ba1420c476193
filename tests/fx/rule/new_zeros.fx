//! rule: new_zeros
graph main(%x: f64[n, 4], %y: i32[3]) {
  %a = new_zeros(%x, [2, 3])
  %b = new_zeros(%y, [5], dtype=f16)
  %c = size(%x, 0)
  %d = new_zeros(%y, [%c])
  return (%a, %b, %d)
}
//! =>
graph main(%x: f64[n, 4], %y: i32[3]) -> (f64[2, 3], f16[5], i32[n]) {
  %zeros: f32[2, 3] = zeros([2, 3])
  %to: f64[2, 3] = to(%zeros, f64)
  %zeros_1: f32[5] = zeros([5])
  %to_1: f16[5] = to(%zeros_1, f16)
  %c: <n> = size(%x, 0)
  %d: i32[n] = new_zeros(%y, [%c])
  return (%to, %to_1, %d)
}
