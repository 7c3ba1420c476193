graph main(%x: f32[n, 5], %y: f32[5]) -> f32[n, 5] {
  %full: f32[n, 5] = full([<n>, 5], 0, dtype=f32)
  %for_loop: [f32[5], f32[n, 5]] = for_loop(<n>, @body, [%y, %full], [%x])
  %getitem: f32[5] = getitem(%for_loop, 0)
  %getitem_1: f32[n, 5] = getitem(%for_loop, 1)
  %full_1: i64[] = full([], <n>, dtype=i64)
  %lt: bool[] = lt(0, %full_1)
  %check: bool[] = check(%lt, message="expected at least one tensor")
  return %getitem_1
}

graph body(%i: int, %h: f32[5], %out: f32[n, 5], %x: f32[n, 5]) -> [f32[5], f32[n, 5]] {
  %getitem: f32[5] = getitem(%x, %i)
  %add: f32[5] = add(%getitem, %h)
  %tanh: f32[5] = %add.tanh()
  %select_scatter: f32[n, 5] = select_scatter(%out, %tanh, 0, %i)
  return [%tanh, %select_scatter]
}
