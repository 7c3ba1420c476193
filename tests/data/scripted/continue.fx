graph main(%x: f32[n, 5], %y: bool[n]) -> f32[5] {
  %zeros: f32[5] = zeros([5])
  %for_loop: [f32[5]] = for_loop(<n>, @body, [%zeros], [%y, %x])
  %getitem: f32[5] = getitem(%for_loop, 0)
  return %getitem
}

graph body(%i: int, %acc: f32[5], %y: bool[n], %x: f32[n, 5]) -> [f32[5]] {
  %getitem: bool[] = getitem(%y, %i)
  %cond: f32[5] = cond(%getitem, @then, @otherwise, [%acc, %x, %i])
  return [%cond]
}

graph then(%acc: f32[5], %x: f32[n, 5], %i: int) -> f32[5] {
  return %acc
}

graph otherwise(%acc: f32[5], %x: f32[n, 5], %i: int) -> f32[5] {
  %getitem: f32[5] = getitem(%x, %i)
  %add: f32[5] = add(%acc, %getitem)
  return %add
}
