//! pass: dead_code
graph main(%x: f32[n, 4], %p: bool[]) {
  %a = neg(%x)
  %b = abs(%a)
  %c = dropout(%x)
  %r = cond(%p, @then, @otherwise, [%x])
  return %r
}
graph then(%y: f32[n, 4]) {
  %a = neg(%y)
  %b = relu(%y)
  return %b
}
graph otherwise(%y: f32[n, 4]) {
  return %y
}
//! =>
graph main(%x: f32[n, 4], %p: bool[]) {
  %c = dropout(%x)
  %r = cond(%p, @then, @otherwise, [%x])
  return %r
}

graph then(%y: f32[n, 4]) {
  %b = relu(%y)
  return %b
}

graph otherwise(%y: f32[n, 4]) -> f32[n, 4] {
  return %y
}
