//! pass: normalize
graph main(%x: f32[n, 4]) {
  %a = %x.sum(keepdim=true, dim=1)
  %b = %a.softmax(dim=-1)
  %c = mul(2, %b)
  %d = batch_norm(%x, none, none, training=true, eps=1e-5)
  return (%c, %d)
}
//! =>
graph main(%x: f32[n, 4]) {
  %a = sum(%x, dim=[1], keepdim=true)
  %b = softmax(%a, -1)
  %c = mul(%b, 2)
  %d = batch_norm(%x, none, none, training=true)
  return (%c, %d)
}
