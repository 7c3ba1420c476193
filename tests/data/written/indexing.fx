graph main(%x: f32[4, 6], %i: i64[3], %flat: i64[5]) -> (f32[3, 6], f32[4, 6], (i64[5], i64[5]), f32[4, 6], f32[4, 3], f32[4, 6]) {
  %s: f32[3, 6] = index_select(%x, 0, %i)
  %c: f32[4, 6] = cumsum(%x, 1)
  %u: (i64[5], i64[5]) = unravel_index(%flat, [4, 6])
  %f: f32[4, 6] = flip(%x, [1])
  %n: f32[4, 3] = narrow(%x, 1, 2, 3)
  %p: bool[4, 6] = gt(%x, 0.0)
  %w: f32[4, 6] = where(%p, %x, %c)
  return (%s, %c, %u, %f, %n, %w)
}
