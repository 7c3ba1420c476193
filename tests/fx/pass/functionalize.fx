//! pass: functionalize
graph main(%x: f32[n, 4]) {
  %w: f32[4] = self.fc.weight
  %mean: f32[4] = self.running_mean
  %a = mul(%x, %w)
  %b = sub(%a, %mean)
  %m = mean(%a, [0])
  %new = add(%mean, %m)
  %s = set_buffer("running_mean", %new)
  %again: f32[4] = self.running_mean
  %c = add(%b, %again)
  return %c
}
//! =>
graph main(parameters: {"fc.weight": %parameters_fc_weight: f32[4]}, buffers: {"running_mean": %buffers_running_mean: f32[4]}, %x: f32[n, 4]) {
  %a = mul(%x, %parameters_fc_weight)
  %b = sub(%a, %buffers_running_mean)
  %m = mean(%a, [0])
  %new = add(%buffers_running_mean, %m)
  %c = add(%b, %buffers_running_mean)
  return (%c, {"running_mean": %new})
}
