//! run
graph main(%x: f32[n, 2]) {
  %f = for_loop(<n>, @collect, [[]], [%x])
  %rows = getitem(%f, 0)
  %y = stack(%rows, 0)
  %z = cat(%rows)
  %count = list_len(%rows)
  %even = list_slice(%rows, none, none, 2)
  %popped = list_pop(%rows)
  %last = getitem(%popped, 0)
  return (%y, %z, %count, %even, %last)
}
graph collect(%i: int, %rows: list(f32[2]), %x: f32[n, 2]) {
  %row = select(%x, 0, %i)
  %new = list_push(%rows, %row)
  return [%new]
}
//! =>
main(f32[3, 2] 1 2 3 4 5 6) == (f32[3, 2] 1 2 3 4 5 6; f32[6] 1 2 3 4 5 6; 3; (f32[2] 1 2; f32[2] 5 6); f32[2] 5 6)
main(f32[1, 2] 1 2) == (f32[1, 2] 1 2; f32[2] 1 2; 1; (f32[2] 1 2); f32[2] 1 2)
main(f32[0, 2]) == error: expected at least one tensor
