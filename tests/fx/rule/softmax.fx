//! rule: softmax
graph main(%x: f32[n, 4]) {
  %a = amax(%x, [-1], keepdim=true)
  %b = sub(%x, %a)
  %c = exp(%b)
  %d = sum(%c, -1, keepdim=true)
  %e = div(%c, %d)
  %f = exp(%e)
  %g = sum(%f, [0], true)
  %h = div(%f, %g)
  return %h
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %softmax: f32[n, 4] = softmax(%x, -1)
  %f: f32[n, 4] = exp(%softmax)
  %g: f32[1, 4] = sum(%f, [0], true)
  %h: f32[n, 4] = div(%f, %g)
  return %h
}
