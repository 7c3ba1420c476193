graph main(%x: f32[n]) -> f32[n] {
  %sum: f32[] = %x.sum()
  %gt: bool[] = %sum.gt(0.0)
  %cond: f32[n] = cond(%gt, @then, @otherwise, [%x])
  %mul: f32[n] = mul(%cond, 2)
  return %mul
}

graph then(%x: f32[n]) -> f32[n] {
  %relu: f32[n] = %x.relu()
  return %relu
}

graph otherwise(%x: f32[n]) -> f32[n] {
  %neg: f32[n] = neg(%x)
  return %neg
}
