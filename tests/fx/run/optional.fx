//! run
graph main(%x: f32[n], %h: optional(f32[n])) {
  %absent = is_none(%h)
  %y = cond(%absent, @first, @next, [%x, %h])
  return (%y, %absent)
}
graph first(%x: f32[n], %h: optional(f32[n])) {
  %y = neg(%x)
  return %y
}
graph next(%x: f32[n], %h: optional(f32[n])) {
  %prior = unwrap(%h, "there is no state")
  %y = add(%x, %prior)
  return %y
}
//! =>
main(f32[2] 1 2; none) == (f32[2] -1 -2; true)
main(f32[2] 1 2; f32[2] 10 20) == (f32[2] 11 22; false)
