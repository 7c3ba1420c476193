//! pass: canonicalize
graph main(%x: f32[n, 4], %y: f32[4]) {
  %zeta = exp(%y)
  %w: f32[4] = self.w
  %alpha = %x.add(y=%zeta)
  %unused = neg(%x)
  %beta = mul(%w, %alpha)
  %gamma = add(%zeta, %x)
  %delta = sub(%beta, %gamma)
  return %delta
}
//! =>
graph main(%x: f32[n, 4], %y: f32[4]) {
  %w: f32[4] = self.w
  %exp = exp(%y)
  %add = add(%exp, %x)
  %mul = mul(%w, %add)
  %sub = sub(%mul, %add)
  return %sub
}
