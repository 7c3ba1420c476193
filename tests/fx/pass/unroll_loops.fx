//! pass: shape_prop, unroll_loops
graph main(%x: f32[4, 5], %h: f32[5], %k: i64[]) {
  %f = for_loop(3, @step, [%h], [%x])
  %y = getitem(%f, 0)
  %g = for_loop(%k, @step, [%y], [%x])
  %e = for_loop(-1, @step, [%y], [%x])
  return (%y, %g, %e)
}

graph step(%i: int, %h: f32[5], %x: f32[4, 5]) {
  %s = select(%x, 0, %i)
  %a = add(%s, %h)
  return [%a]
}
//! =>
graph main(%x: f32[4, 5], %h: f32[5], %k: i64[]) -> (f32[5], [f32[5]], [f32[5]]) {
  %s: f32[5] = select(%x, 0, 0)
  %a: f32[5] = add(%s, %h)
  %s_1: f32[5] = select(%x, 0, 1)
  %a_1: f32[5] = add(%s_1, %a)
  %s_2: f32[5] = select(%x, 0, 2)
  %a_2: f32[5] = add(%s_2, %a_1)
  %g: [f32[5]] = for_loop(%k, @step, [%a_2], [%x])
  return (%a_2, %g, [%a_2])
}

graph step(%i: int, %h: f32[5], %x: f32[4, 5]) {
  %s = select(%x, 0, %i)
  %a = add(%s, %h)
  return [%a]
}
