//! print
graph main(%x: f32[2]) {
  %y = ad(%x, 1)
  %y = add(%x, %q)
  %z = add(%x, "text"
  return %z, 2
}
//! =>
