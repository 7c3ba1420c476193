graph main(%x: f32[n]) -> f32[] {
  %sum: f32[] = %x.sum(dim=0)
  return %sum
}
