//! pass: unroll_loops
graph main(%y: i8[n, 7], %z: i8[m, 7]) {
  %p = permute(%y, [1, 0])
  %f = for_loop(2, @step, [%p, %y], [])
  %q = permute(%z, [1, 0])
  %w = permute(%q, [1, 0])
  %g = for_loop(2, @step, [%q, %w], [])
  return (%f, %g)
}

graph step(%i: int, %a: i8[7, n], %b: i8[n, 7]) -> [i8[7, n], i8[n, 7]] {
  %sum: i64[] = sum(%a, none, false, dtype=none)
  %gt: bool[] = gt(%sum, 0)
  %cond: i8[n, 7] = cond(%gt, @then, @otherwise, [%b])
  return [%a, %cond]
}

graph then(%b: i8[n, 7]) -> i8[n, 7] {
  return %b
}

graph otherwise(%b: i8[n, 7]) -> i8[n, 7] {
  %narrow: i8[n, 7] = narrow(%b, 0, 0, <n>)
  return %narrow
}
//! =>
graph main(%y: i8[n, 7], %z: i8[m, 7]) -> ([any, i8[n, 7]], any) {
  %p = permute(%y, [1, 0])
  %sum: i64[] = sum(%p, none, false, dtype=none)
  %gt: bool[] = gt(%sum, 0)
  %cond: i8[n, 7] = cond(%gt, @then, @otherwise, [%y])
  %sum_1: i64[] = sum(%p, none, false, dtype=none)
  %gt_1: bool[] = gt(%sum_1, 0)
  %cond_1: i8[n, 7] = cond(%gt_1, @then, @otherwise, [%cond])
  %q = permute(%z, [1, 0])
  %w = permute(%q, [1, 0])
  %g = for_loop(2, @step, [%q, %w], [])
  return ([%p, %cond_1], %g)
}

graph then(%b: i8[n, 7]) -> i8[n, 7] {
  return %b
}

graph otherwise(%b: i8[n, 7]) -> i8[n, 7] {
  %narrow: i8[n, 7] = narrow(%b, 0, 0, <n>)
  return %narrow
}

graph step(%i: int, %a: i8[7, n], %b: i8[n, 7]) -> [i8[7, n], i8[n, 7]] {
  %sum: i64[] = sum(%a, none, false, dtype=none)
  %gt: bool[] = gt(%sum, 0)
  %cond: i8[n, 7] = cond(%gt, @then, @otherwise, [%b])
  return [%a, %cond]
}
