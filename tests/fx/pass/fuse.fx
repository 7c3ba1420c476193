//! pass: shape_prop, fuse
graph main(%x: f32[n, 8], %y: f32[n, 8]) {
  %scale: f32[8] = self.scale
  %a = add(%x, %y)
  %b = tanh(%a)
  %c = mul(%b, %scale)
  %d = gt(%c, %x)
  %turned = transpose(%c, 0, 1)
  %e = exp(%turned)
  return (%c, %d, %e)
}
//! =>
graph main(%x: f32[n, 8], %y: f32[n, 8]) -> (f32[n, 8], bool[n, 8], f32[8, n]) {
  %scale: f32[8] = self.scale
  %fused: (f32[n, 8], bool[n, 8]) = fused(@add_tanh_mul_gt, [%x, %y, %scale])
  %getitem: f32[n, 8] = getitem(%fused, 0)
  %getitem_1: bool[n, 8] = getitem(%fused, 1)
  %turned: f32[8, n] = transpose(%getitem, 0, 1)
  %e: f32[8, n] = exp(%turned)
  return (%getitem, %getitem_1, %e)
}

graph add_tanh_mul_gt(%x: f32[n, 8], %y: f32[n, 8], %scale: f32[8]) -> (f32[n, 8], bool[n, 8]) {
  %a: f32[n, 8] = add(%x, %y)
  %b: f32[n, 8] = tanh(%a)
  %c: f32[n, 8] = mul(%b, %scale)
  %d: bool[n, 8] = gt(%c, %x)
  return (%c, %d)
}
