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
  %_folded_a_weight: f32[6, 4] = self._folded_a_weight
  %_folded_a_bias: f32[6] = self._folded_a_bias
  %a_1: f32[n, 6] = linear(%x, %_folded_a_weight, bias=%_folded_a_bias)
  %u: f32[n, 6, 1] = unsqueeze(%a_1, -1)
  %_folded_d_weight: f32[6, 3, 3] = self._folded_d_weight
  %_folded_d_bias: f32[3] = self._folded_d_bias
  %d_1: f32[n, 3, 3] = conv_transpose1d(%u, %_folded_d_weight, bias=%_folded_d_bias)
  return %d_1
}
