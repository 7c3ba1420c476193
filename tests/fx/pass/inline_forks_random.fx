//! pass: shape_prop, inline_forks
graph main(%x: f32[3]) {
  %f = fork(@draw, [%x])
  %g = fork(@one, [%x])
  %a = wait(%f)
  %b = wait(%g)
  %c = add(%a, %b)
  return %c
}

graph draw(%x: f32[3]) {
  %r = rand([3])
  %a = add(%r, %x)
  return %a
}

graph one(%x: f32[3]) {
  %e = exp(%x)
  return %e
}
//! =>
graph main(%x: f32[3]) -> f32[3] {
  %f: f32[3] = fork(@draw, [%x])
  %g: f32[3] = fork(@one, [%x])
  %a: f32[3] = wait(%f)
  %b: f32[3] = wait(%g)
  %c: f32[3] = add(%a, %b)
  return %c
}

graph draw(%x: f32[3]) {
  %r = rand([3])
  %a = add(%r, %x)
  return %a
}

graph one(%x: f32[3]) {
  %e = exp(%x)
  return %e
}
