//! pass: shape_prop, convert_dtype(dtype=f64, only="linear"), repeat(simplify, cse, dead_code), const_fold, dead_code
graph main(%x: f32[n, 4]) {
  %w: f32[6, 4] = self.a.weight
  %v: f32[6, 6] = self.b.weight
  %a = linear(%x, %w)
  %b = linear(%a, %v)
  %c = relu(%b)
  return %c
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 6] {
  %to: f64[n, 4] = to(%x, f64)
  %_folded_to_1: f64[6, 4] = self._folded_to_1
  %a_1: f64[n, 6] = linear(%to, %_folded_to_1)
  %to_2: f32[n, 6] = to(%a_1, f32)
  %to_3: f64[n, 6] = to(%to_2, f64)
  %_folded_to_4: f64[6, 6] = self._folded_to_4
  %b_1: f64[n, 6] = linear(%to_3, %_folded_to_4)
  %to_5: f32[n, 6] = to(%b_1, f32)
  %c: f32[n, 6] = relu(%to_5)
  return %c
}
