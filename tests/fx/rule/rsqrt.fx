//! rule: rsqrt
graph main(%x: f32[n, 4]) {
  %s = square(%x)
  %q = sqrt(%s)
  %a = reciprocal(%q)
  %t = square(%a)
  %r = sqrt(%t)
  %b = div(1, %r)
  return %b
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %s: f32[n, 4] = square(%x)
  %rsqrt: f32[n, 4] = rsqrt(%s)
  %t: f32[n, 4] = square(%rsqrt)
  %rsqrt_1: f32[n, 4] = rsqrt(%t)
  return %rsqrt_1
}
