graph main(%x: f32[n, 3]) -> f32[n, 2] {
  %layers_0: f32[n, 4] = self.layers.0(%x)
  %layers_1: f32[n, 2] = self.layers.1(%layers_0)
  return %layers_1
}
