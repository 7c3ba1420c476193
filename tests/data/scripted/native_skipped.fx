graph main(%x: f32[n, 3]) -> f32[n, 3] {
  return %x
}
