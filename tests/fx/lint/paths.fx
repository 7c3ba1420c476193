//! lint
graph main(%x: f32[4]) {
  %w = self.fc.weight
  %h = self.fc(%x)
  %u = set_buffer("mean", %x)
  %r = cond(%x, @inner, @inner, [%x])
  return (%h, %w, %r)
}
graph inner(%a: f32[4]) {
  %w = self.fc.weight
  return %w
}
//! =>
%w: M has no attribute "fc.weight"
%h: M has no sub-module "fc"
%u: M has no attribute "mean"
%r: the predicate of cond has one element, got f32[4]
@inner %w: a closed sub-graph reads the attribute "fc.weight"
