// native, seed 993787: expected a right operand with 4 rows, got 6  in %matmul: f32[n, 4] = matmul(%a0, %a0)  at src/fuzz/outcome.rs:45:69   help: cannot multiply f32[6, 4] with f32[6, 4]
graph main(%x: f32[n, 4]) {
  %size = size(%x, -1)
  %mul_1 = mul(%x, %size)
  %cond_1 = cond(true, @then, @otherwise, [%mul_1])
  return %cond_1
}

graph then(%a0: f32[n, 4]) -> f32[n, 4] {
  return %a0
}

graph otherwise(%a0: f32[n, 4]) -> f32[n, 4] {
  %matmul: f32[n, 4] = matmul(%a0, %a0)
  return %matmul
}
