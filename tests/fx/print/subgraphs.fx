//! print
graph main<n: 1..=64>(%p: bool[], %x: f32[n]) {
  %r = cond(%p, @double, @negate, [%x])
  %w = self.head.weight
  %h = self.head(%r)
  return (%r, %w, %h)
}
graph double(%a: f32[n]) {
  %y = add(%a, %a)
  return %y
}
graph negate(%a: f32[n]) {
  %y = neg(%a)
  return %y
}
//! =>
graph main<n: 1..=64>(%p: bool[], %x: f32[n]) {
  %r = cond(%p, @double, @negate, [%x])
  %w = self.head.weight
  %h = self.head(%r)
  return (%r, %w, %h)
}

graph double(%a: f32[n]) {
  %y = add(%a, %a)
  return %y
}

graph negate(%a: f32[n]) {
  %y = neg(%a)
  return %y
}
