graph main(%x: f32[5]) -> (f32[5], f32[5]) {
  %sum: f32[] = sum(%x)
  %positive: bool[] = gt(%sum, 0.0)
  %c: f32[5] = cond(%positive, @then, @otherwise, [%x])
  %w: [f32[5]] = while_loop(@test, @body, [%c], [])
  %y: f32[5] = getitem(%w, 0)
  return (%c, %y)
}
graph then(%x: f32[5]) -> f32[5] {
  %y: f32[5] = exp(%x)
  return %y
}
graph otherwise(%x: f32[5]) -> f32[5] {
  %y: f32[5] = sub(1.0, %x)
  return %y
}
graph test(%x: f32[5]) -> bool[] {
  %n: f32[] = amax(%x)
  %p: bool[] = lt(%n, 100.0)
  return %p
}
graph body(%x: f32[5]) -> [f32[5]] {
  %a: f32[5] = abs(%x)
  %y: f32[5] = add(%a, 1.5)
  %z: f32[5] = mul(%y, 2)
  return [%z]
}
