//! lint
graph main(%x: f32[4, 2], %y: f32[3]) {
  %a: f32[4, 3] = neg(%x)
  %b = add(%x, %y)
  %c: i64[4, 2] = mul(%x, 2)
  return %c
}
//! =>
%a: expected f32[4, 2], got f32[4, 3]
%b: cannot broadcast [4, 2] with [3]
%c: expected f32[4, 2], got i64[4, 2]
