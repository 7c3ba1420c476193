//! pass: shape_prop
graph main(%x: f32[n, 3], %y: f32[m, 3], %p: bool[], %q: boolean) {
  %r = cond(%p, @joined, @plain, [%x, %y])
  %a = getitem(%r, 0)
  %b = getitem(%r, 1)
  %s = add(%a, %b)
  %o = cond(%p, @nothing, @something, [%x])
  %i = cond(%q, @one, @rows, [%x])
  %l = cond(%q, @short, @long, [%x])
  return (%s, %o, %i, %l)
}

graph joined(%x: f32[n, 3], %y: f32[m, 3]) {
  %z = cat([%x, %y], 0)
  return (%z, %z)
}

graph plain(%x: f32[n, 3], %y: f32[m, 3]) {
  %z = neg(%x)
  return (%x, %z)
}

graph nothing(%x: f32[n, 3]) {
  return none
}

graph something(%x: f32[n, 3]) {
  %z = neg(%x)
  return %z
}

graph one(%x: f32[n, 3]) {
  return 1
}

graph rows(%x: f32[n, 3]) {
  %n = size(%x, 0)
  return %n
}

graph short(%x: f32[n, 3]) {
  return [%x]
}

graph long(%x: f32[n, 3]) {
  %y = cat([%x, %x], 0)
  return [%x, %y]
}
//! =>
graph main(%x: f32[n, 3], %y: f32[m, 3], %p: bool[], %q: boolean) -> (f32[u0, 3], optional(f32[n, 3]), int, list(f32[u1, 3])) {
  %r: (f32[u0, 3], f32[u0, 3]) = cond(%p, @joined, @plain, [%x, %y])
  %a: f32[u0, 3] = getitem(%r, 0)
  %b: f32[u0, 3] = getitem(%r, 1)
  %s: f32[u0, 3] = add(%a, %b)
  %o: optional(f32[n, 3]) = cond(%p, @nothing, @something, [%x])
  %i: int = cond(%q, @one, @rows, [%x])
  %l: list(f32[u1, 3]) = cond(%q, @short, @long, [%x])
  return (%s, %o, %i, %l)
}

graph joined(%x: f32[n, 3], %y: f32[m, 3]) {
  %z = cat([%x, %y], 0)
  return (%z, %z)
}

graph plain(%x: f32[n, 3], %y: f32[m, 3]) -> (f32[n, 3], any) {
  %z = neg(%x)
  return (%x, %z)
}

graph nothing(%x: f32[n, 3]) {
  return none
}

graph something(%x: f32[n, 3]) {
  %z = neg(%x)
  return %z
}

graph one(%x: f32[n, 3]) {
  return 1
}

graph rows(%x: f32[n, 3]) {
  %n = size(%x, 0)
  return %n
}

graph short(%x: f32[n, 3]) -> [f32[n, 3]] {
  return [%x]
}

graph long(%x: f32[n, 3]) -> [f32[n, 3], any] {
  %y = cat([%x, %x], 0)
  return [%x, %y]
}
