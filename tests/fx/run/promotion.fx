//! run
graph main(%x: i64[2], %y: f16[], %z: bool[2]) {
  %a = add(%x, %y)
  %b = add(%x, 1)
  %c = mul(%x, 1.5)
  %d = div(%x, 2)
  %e = add(%z, true)
  %f = add(%z, %z, alpha=2)
  %g = lt(%x, 2)
  return (%a, %b, %c, %d, %e, %f, %g)
}
//! =>
main(i64[2] 1 -3; f16[] 0.5; bool[2] 0 1) == (f16[2] 1.5 -2.5; i64[2] 2 -2; f32[2] 1.5 -4.5; f32[2] 0.5 -1.5; bool[2] 1 1; bool[2] 0 1; bool[2] 1 1)
