//! pass: shape_prop, simplify, cse, dead_code
graph main(%x: f32[n, 4, 3], %p: bool[]) {
  %a = transpose(%x, 1, 2)
  %b = transpose(%a, 2, 1)
  %c = mul(%b, 1.0)
  %d = neg(%c)
  %e = neg(%d)
  %f = clone(%e)
  %g = reshape(%f, [-1, 12])
  %h = reshape(%g, [-1, 4, 3])
  %r = cond(%p, @then, @otherwise, [%h])
  return %r
}
graph then(%y: f32[n, 4, 3]) {
  %a: f32[n, 4, 3] = neg(%y)
  %b: f32[n, 4, 3] = neg(%a)
  return %b
}
graph otherwise(%y: f32[n, 4, 3]) {
  %a: f32[n, 4, 3] = div(%y, 1)
  return %a
}
//! =>
graph main(%x: f32[n, 4, 3], %p: bool[]) -> f32[n, 4, 3] {
  %r: f32[n, 4, 3] = cond(%p, @then, @otherwise, [%x])
  return %r
}

graph then(%y: f32[n, 4, 3]) -> f32[n, 4, 3] {
  return %y
}

graph otherwise(%y: f32[n, 4, 3]) -> f32[n, 4, 3] {
  return %y
}
