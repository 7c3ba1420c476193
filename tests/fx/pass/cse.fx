//! pass: cse, dead_code
graph main(%x: f32[n, 4], %y: f32[4]) {
  %a = add(%x, %y)
  %b = %y.add(%x, alpha=1)
  %c = sum(%a, 1)
  %d = sum(%b, dim=[1], keepdim=false)
  %e = dropout(%a)
  %f = dropout(%a)
  return (%c, %d, %e, %f)
}
//! =>
graph main(%x: f32[n, 4], %y: f32[4]) {
  %a = add(%x, %y)
  %c = sum(%a, 1)
  %e = dropout(%a)
  %f = dropout(%a)
  return (%c, %c, %e, %f)
}
