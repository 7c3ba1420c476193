graph main(%x: f32[n], %y: bool[]) -> f32[n] {
  %cond: f32[n] = cond(%y, @then, @otherwise, [%x])
  return %cond
}

graph then(%x: f32[n]) -> f32[n] {
  %add: f32[n] = add(%x, 1)
  return %add
}

graph otherwise(%x: f32[n]) -> f32[n] {
  return %x
}
