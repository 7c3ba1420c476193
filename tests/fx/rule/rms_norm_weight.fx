//! rule: rms_norm_weight
graph main(%x: f32[n, 5, 4]) {
  %w: f32[4] = self.w
  %a = rms_norm(%x, [4], eps=1e-6)
  %b = mul(%w, %a)
  %v: f32[1] = self.v
  %c = rms_norm(%b, [4], eps=1e-6)
  %d = mul(%v, %c)
  return %d
}
//! =>
graph main(%x: f32[n, 5, 4]) -> f32[n, 5, 4] {
  %w: f32[4] = self.w
  %rms_norm: f32[n, 5, 4] = rms_norm(%x, [4], weight=%w, eps=1e-6)
  %v: f32[1] = self.v
  %c: f32[n, 5, 4] = rms_norm(%rms_norm, [4], eps=1e-6)
  %d: f32[n, 5, 4] = mul(%v, %c)
  return %d
}
