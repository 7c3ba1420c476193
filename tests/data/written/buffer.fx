graph main(%x: f32[3]) -> f32[3] {
  %count: i64[] = self.stats.count
  %mean: f32[3] = self.stats.mean
  %next: i64[] = add(%count, 1)
  %set: none = set_buffer("stats.count", %next)
  %half: f32[3] = mul(%mean, 0.5)
  %part: f32[3] = mul(%x, 0.5)
  %new: f32[3] = add(%half, %part)
  %again: none = set_buffer("stats.mean", %new)
  %y: f32[3] = sub(%x, %mean)
  return %y
}
