//! pass: shape_prop, inline_forks
graph main(%x: f32[n], %y: f32[n]) {
  %f = fork(@both, [%x, %y])
  %g = fork(@one, [%y])
  %lost = fork(@one, [%x])
  %b = wait(%f)
  %s = getitem(%b, 0)
  %t = getitem(%b, 1)
  %w = wait(%g)
  %again = wait(%g)
  %z = add(%w, %again)
  return (%s, %t, %z, %f)
}

graph both(%x: f32[n], %y: f32[n]) {
  %inner = fork(@one, [%x])
  %w = wait(%inner)
  %a = mul(%w, %y)
  return [%a, %x]
}

graph one(%x: f32[n]) {
  %e = exp(%x)
  return %e
}
//! =>
graph main(%x: f32[n], %y: f32[n]) -> (f32[n], f32[n], f32[n], [f32[n], f32[n]]) {
  %e: f32[n] = exp(%x)
  %a: f32[n] = mul(%e, %y)
  %e_1: f32[n] = exp(%y)
  %e_2: f32[n] = exp(%x)
  %z: f32[n] = add(%e_1, %e_1)
  return (%a, %x, %z, [%a, %x])
}
