//! pass: shape_prop, const_fold, dead_code
graph main(%x: f32[n, 4]) {
  %w: f32[3, 4] = self.fc.weight
  %t = t(%w)
  %s = mul(%t, 2.0)
  %y = matmul(%x, %s)
  %r: f32[3] = self.running_mean
  %h = neg(%r)
  %z = add(%y, %h)
  %i = arange(3)
  %j = add(%i, 1)
  %k = mul(%z, %j)
  return %k
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 3] {
  %_folded_s: f32[4, 3] = self._folded_s
  %y: f32[n, 3] = matmul(%x, %_folded_s)
  %r: f32[3] = self.running_mean
  %h: f32[3] = neg(%r)
  %z: f32[n, 3] = add(%y, %h)
  %_folded_j: i64[3] = self._folded_j
  %k: f32[n, 3] = mul(%z, %_folded_j)
  return %k
}
