//! pass: inline, inline_leaves, remove_identities
graph main(%x: f32[n, 4]) {
  %a = neg(%x)
  return %a
}
//! =>
graph main(%x: f32[n, 4]) {
  %a = neg(%x)
  return %a
}
