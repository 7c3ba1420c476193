graph main(%x: f32[k]) -> f32[k] {
  %_tensor_constant0: bool[] = self._tensor_constant0
  %while_loop: [int, f32[k], bool[]] = while_loop(@test, @body, [0, %x, %_tensor_constant0], [%x])
  %getitem: f32[k] = getitem(%while_loop, 1)
  return %getitem
}

graph test(%i: int, %z: f32[k], %stop: bool[], %x: f32[k]) -> bool[] {
  %lt: boolean = lt(%i, 50)
  %logical_not: bool[] = logical_not(%stop)
  %logical_and: bool[] = logical_and(%lt, %logical_not)
  return %logical_and
}

graph body(%i: int, %z: f32[k], %stop: bool[], %x: f32[k]) -> [int, f32[k], bool[]] {
  %mul: f32[k] = mul(%z, 0.3)
  %add: f32[k] = add(%mul, %x)
  %tanh: f32[k] = %add.tanh()
  %sub: f32[k] = sub(%tanh, %z)
  %norm: f32[] = %sub.norm(p=2.0)
  %lt: bool[] = %norm.lt(0.0001)
  %add_1: int = add(%i, 1)
  return [%add_1, %tanh, %lt]
}
