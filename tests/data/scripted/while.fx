graph main(%x: f32[k]) -> (f32[k], i64[]) {
  %_tensor_constant0: i64[] = self._tensor_constant0
  %while_loop: [f32[k], i64[]] = while_loop(@test, @body, [%x, %_tensor_constant0], [])
  %getitem: f32[k] = getitem(%while_loop, 0)
  %getitem_1: i64[] = getitem(%while_loop, 1)
  return (%getitem, %getitem_1)
}

graph test(%x: f32[k], %n: i64[]) -> bool[] {
  %norm: f32[] = %x.norm(p=2.0)
  %gt: bool[] = %norm.gt(1.0)
  return %gt
}

graph body(%x: f32[k], %n: i64[]) -> [f32[k], i64[]] {
  %mul: f32[k] = mul(%x, 0.5)
  %add: i64[] = add(%n, 1)
  return [%mul, %add]
}
