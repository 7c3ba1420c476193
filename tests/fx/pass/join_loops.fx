//! pass: shape_prop
graph main(%x: f32[n, 3], %m: f32[n], %k: i64[]) {
  %w = while_loop(@test, @grow, [0, %x, %m], [%k])
  %h = getitem(%w, 1)
  %l = getitem(%w, 2)
  %f = for_loop(<n>, @prefix, [%m, none], [%x])
  %o = getitem(%f, 1)
  return (%h, %l, %f, %o)
}

graph test(%i: int, %h, %m, %k: i64[]) {
  %t = lt(%i, %k)
  return %t
}

graph grow(%i: int, %h, %m, %k: i64[]) {
  %j = num_add(%i, 1)
  %g = cat([%h, %h], 0)
  %l = cat([%m, %m], 0)
  %u = unsqueeze(%l, 1)
  %s = add(%g, %u)
  return [%j, %s, %l]
}

graph prefix(%i: int, %m, %last, %x: f32[n, 3]) {
  %y = getitem(%x, slice(none, %i, none))
  %s = sum(%y, 1)
  return [%s, %y]
}
//! =>
graph main(%x: f32[n, 3], %m: f32[n], %k: i64[]) -> (f32[u0, 3], f32[u0], [f32[u1], optional(f32[min(n, u2), 3])], optional(f32[min(n, u2), 3])) {
  %w: [int, f32[u0, 3], f32[u0]] = while_loop(@test, @grow, [0, %x, %m], [%k])
  %h: f32[u0, 3] = getitem(%w, 1)
  %l: f32[u0] = getitem(%w, 2)
  %f: [f32[u1], optional(f32[min(n, u2), 3])] = for_loop(<n>, @prefix, [%m, none], [%x])
  %o: optional(f32[min(n, u2), 3]) = getitem(%f, 1)
  return (%h, %l, %f, %o)
}

graph test(%i: int, %h, %m, %k: i64[]) {
  %t = lt(%i, %k)
  return %t
}

graph grow(%i: int, %h, %m, %k: i64[]) {
  %j = num_add(%i, 1)
  %g = cat([%h, %h], 0)
  %l = cat([%m, %m], 0)
  %u = unsqueeze(%l, 1)
  %s = add(%g, %u)
  return [%j, %s, %l]
}

graph prefix(%i: int, %m, %last, %x: f32[n, 3]) {
  %y = getitem(%x, slice(none, %i, none))
  %s = sum(%y, 1)
  return [%s, %y]
}
