//! pass: shape_prop, fold_batch_norm, dead_code
graph main(%x: f32[n, 4, 6, 6]) {
  %w: f32[6, 2, 3, 3] = self.conv.weight
  %g: f32[6] = self.bn.weight
  %h: f32[6] = self.bn.bias
  %m: f32[6] = self.bn.running_mean
  %v: f32[6] = self.bn.running_var
  %a = conv2d(%x, %w, none, [2], 1, groups=2)
  %b = batch_norm(%a, %m, %v, %g, %h, eps=1e-3)
  %c = relu(%b)
  return %c
}
//! =>
graph main(%x: f32[n, 4, 6, 6]) -> f32[n, 6, 3, 3] {
  %_folded_a_weight: f32[6, 2, 3, 3] = self._folded_a_weight
  %_folded_a_bias: f32[6] = self._folded_a_bias
  %a_1: f32[n, 6, 3, 3] = conv2d(%x, %_folded_a_weight, bias=%_folded_a_bias, stride=[2], padding=1, groups=2)
  %c: f32[n, 6, 3, 3] = relu(%a_1)
  return %c
}
