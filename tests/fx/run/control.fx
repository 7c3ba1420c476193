//! run
graph main(%x: i64[]) {
  %p = gt(%x, 10)
  %r = cond(%p, @halve, @triple, [%x])
  %w = while_loop(@small, @double, [%r], [%x])
  %v = getitem(%w, 0)
  return (%r, %v)
}
graph halve(%a: i64[]) {
  %y = floor_divide(%a, 2)
  return %y
}
graph triple(%a: i64[]) {
  %y = mul(%a, 3)
  return %y
}
graph small(%a: i64[], %limit: i64[]) {
  %m = mul(%limit, 100)
  %t = lt(%a, %m)
  return %t
}
graph double(%a: i64[], %limit: i64[]) {
  %y = add(%a, %a)
  return [%y]
}
//! =>
main(i64[] 11) == (i64[] 5; i64[] 1280)
main(i64[] 3) == (i64[] 9; i64[] 576)
