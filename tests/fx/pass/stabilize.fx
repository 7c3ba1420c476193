//! pass: shape_prop, repeat(stabilize, dead_code)
graph main(%x: f32[n, 5], %y: f16[n, 5]) {
  %a = exp(%x)
  %b = sum(%a, [1])
  %c = log(%b)
  %d = exp(%y)
  %e = sum(%d, [1])
  %f = log(%e)
  return (%c, %f)
}
//! =>
graph main(%x: f32[n, 5], %y: f16[n, 5]) -> (f32[n], f16[n]) {
  %logsumexp: f32[n] = logsumexp(%x, [1])
  %d: f16[n, 5] = exp(%y)
  %e: f16[n] = sum(%d, [1])
  %f: f16[n] = log(%e)
  return (%logsumexp, %f)
}
