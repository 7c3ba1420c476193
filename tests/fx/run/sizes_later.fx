//! run
graph main(%x: f32[max(0, n - 2)], %y: f32[n], %z: f32[k*n]) {
  %a = add(%y, <n + k>)
  return %a
}
//! =>
main(f32[1] 0; f32[3] 1 2 3; f32[6] 0 0 0 0 0 0) == f32[3] 6 7 8
main(f32[2] 0 0; f32[3] 1 2 3; f32[6] 0 0 0 0 0 0) == error: argument "y": expected f32[n], got f32[3]: max(0, n - 2) is 1 by the other sizes, got 2
main(f32[1] 0; f32[3] 1 2 3; f32[7] 0 0 0 0 0 0 0) == error: argument "z": expected f32[k*n], got f32[7]: no k*n is 7
main(f32[0]; f32[0]; f32[0]) == error: symbol k has no value
