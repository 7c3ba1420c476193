//! rule: keep_reduced
graph main(%x: f32[n, 4, 5]) {
  %a = mean(%x, -1)
  %b = unsqueeze(%a, 2)
  %c = sub(%x, %b)
  %d = linalg_vector_norm(%c, 1.5, [1])
  %e = unsqueeze(%d, -2)
  %f = div(%c, %e)
  %g = sum(%f, [2])
  %h = unsqueeze(%g, 0)
  %i = amax(%f, 1)
  %j = unsqueeze(%i, 1)
  return (%h, %i, %j)
}
//! =>
graph main(%x: f32[n, 4, 5]) -> (f32[1, n, 4], f32[n, 5], f32[n, 1, 5]) {
  %mean: f32[n, 4, 1] = mean(%x, dim=-1, keepdim=true)
  %c: f32[n, 4, 5] = sub(%x, %mean)
  %linalg_vector_norm: f32[n, 1, 5] = linalg_vector_norm(%c, ord=1.5, dim=[1], keepdim=true)
  %f: f32[n, 4, 5] = div(%c, %linalg_vector_norm)
  %g: f32[n, 4] = sum(%f, [2])
  %h: f32[1, n, 4] = unsqueeze(%g, 0)
  %i: f32[n, 5] = amax(%f, 1)
  %j: f32[n, 1, 5] = unsqueeze(%i, 1)
  return (%h, %i, %j)
}
