//! run
graph main(%x: f32[n, 2]) {
  %a = add(%x, <2*n + 1>)
  %s = size(%x, 0)
  %b = mul(%s, 10)
  %c = add(%a, %b)
  return (%c, %b)
}
//! =>
main(f32[1, 2] 0 1) == (f32[1, 2] 13 14; 10)
main(f32[0, 2]) == (f32[0, 2]; 0)
main(f32[2] 0 1) == error: argument "x": expected f32[n, 2], got f32[2]
