//! pass: shape_prop, fold_batch_norm
graph main(%x: f32[n, 4, 6]) {
  %w: f32[6, 4, 3] = self.conv.weight
  %m: f32[6] = self.bn.running_mean
  %v: f32[6] = self.bn.running_var
  %a = conv1d(%x, %w)
  %b = batch_norm(%a, %m, %v)
  %c = add(%a, %b)
  %l: f32[6, 6] = self.fc.weight
  %d = transpose(%c, 1, 2)
  %e = linear(%d, %l)
  %f = batch_norm(%e, none, none, training=true)
  %h = conv1d(%x, %w)
  %i = batch_norm(%h, %m, %v, training=true)
  return (%f, %i)
}
//! =>
graph main(%x: f32[n, 4, 6]) -> (f32[n, 4, 6], f32[n, 6, 4]) {
  %w: f32[6, 4, 3] = self.conv.weight
  %m: f32[6] = self.bn.running_mean
  %v: f32[6] = self.bn.running_var
  %a: f32[n, 6, 4] = conv1d(%x, %w)
  %b: f32[n, 6, 4] = batch_norm(%a, %m, %v)
  %c: f32[n, 6, 4] = add(%a, %b)
  %l: f32[6, 6] = self.fc.weight
  %d: f32[n, 4, 6] = transpose(%c, 1, 2)
  %e: f32[n, 4, 6] = linear(%d, %l)
  %f: f32[n, 4, 6] = batch_norm(%e, none, none, training=true)
  %h: f32[n, 6, 4] = conv1d(%x, %w)
  %i: f32[n, 6, 4] = batch_norm(%h, %m, %v, training=true)
  return (%f, %i)
}
