graph main(%x: f32[n]) -> f32[] {
  %sum: f32[] = %x.sum()
  %gt: bool[] = %sum.gt(0.0)
  %cond: f32[n] = cond(%gt, @then, @otherwise, [%x])
  %mean: f32[] = %cond.mean(dim=0)
  return %mean
}

graph then(%x: f32[n]) -> f32[n] {
  %mul: f32[n] = mul(%x, 2)
  return %mul
}

graph otherwise(%x: f32[n]) -> f32[n] {
  return %x
}
