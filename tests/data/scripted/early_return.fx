graph main(%x: f32[n]) -> f32[n] {
  %sum: f32[] = %x.sum()
  %lt: bool[] = %sum.lt(0.0)
  %cond: f32[n] = cond(%lt, @then, @otherwise, [%x])
  return %cond
}

graph then(%x: f32[n]) -> f32[n] {
  return %x
}

graph otherwise(%x: f32[n]) -> f32[n] {
  %exp: f32[n] = %x.exp()
  %sum: f32[] = %exp.sum()
  %div: f32[n] = div(%exp, %sum)
  return %div
}
