//! pass: shape_prop, fold_batch_norm(freeze=true), dead_code
graph main(%x: f32[n, 4]) {
  %w: f32[6, 4] = self.fc.weight
  %b: f32[6] = self.fc.bias
  %m: f32[6] = self.bn.running_mean
  %v: f32[6] = self.bn.running_var
  %a = linear(%x, %w, %b)
  %c = batch_norm(%a, %m, %v)
  %t: f32[6, 3, 3] = self.up.weight
  %u = unsqueeze(%c, -1)
  %d = conv_transpose1d(%u, %t)
  %o: f32[3] = self.bn2.running_mean
  %p: f32[3] = self.bn2.running_var
  %e = batch_norm(%d, %o, %p)
  return %e
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 3, 3] {
  %_folded_mul: f32[6] = self._folded_mul
  %_folded_mul_1: f32[6, 4] = self._folded_mul_1
  %a_1: f32[n, 6] = linear(%x, %_folded_mul_1, bias=%_folded_mul)
  %u: f32[n, 6, 1] = unsqueeze(%a_1, -1)
  %_folded_mul_2: f32[3] = self._folded_mul_2
  %_folded_mul_1_1: f32[6, 3, 3] = self._folded_mul_1_1
  %d_1: f32[n, 3, 3] = conv_transpose1d(%u, %_folded_mul_1_1, bias=%_folded_mul_2)
  return %d_1
}
