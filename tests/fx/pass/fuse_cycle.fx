//! pass: shape_prop, fuse
graph main(%x: f32[4, 8]) {
  %a = exp(%x)
  %order = sort(%a)
  %sorted = getitem(%order, 0)
  %b = add(%a, %sorted)
  %c = mul(%a, %x)
  %d = sub(%b, %c)
  return %d
}
//! =>
graph main(%x: f32[4, 8]) -> f32[4, 8] {
  %fused: (f32[4, 8], f32[4, 8]) = fused(@exp_mul, [%x])
  %getitem: f32[4, 8] = getitem(%fused, 0)
  %getitem_1: f32[4, 8] = getitem(%fused, 1)
  %order: (f32[4, 8], i64[4, 8]) = sort(%getitem)
  %sorted: f32[4, 8] = getitem(%order, 0)
  %fused_1: f32[4, 8] = fused(@add_sub, [%getitem, %sorted, %getitem_1])
  return %fused_1
}

graph exp_mul(%x: f32[4, 8]) -> (f32[4, 8], f32[4, 8]) {
  %a: f32[4, 8] = exp(%x)
  %c: f32[4, 8] = mul(%a, %x)
  return (%a, %c)
}

graph add_sub(%getitem: f32[4, 8], %sorted: f32[4, 8], %getitem_1: f32[4, 8]) -> f32[4, 8] {
  %b: f32[4, 8] = add(%getitem, %sorted)
  %d: f32[4, 8] = sub(%b, %getitem_1)
  return %d
}
