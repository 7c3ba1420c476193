//! pass: unflatten
graph main(%x: f32[n, 4]) {
  %a = neg(%x) #{stack: [("outer", "Outer", 0)]}
  %b = exp(%a) #{stack: [("outer", "Outer", 0), ("outer.inner", "Inner", 0)]}
  %c = mul(%b, %a) #{stack: [("outer", "Outer", 0), ("outer.inner", "Inner", 0)]}
  %d = tanh(%c) #{stack: [("outer", "Outer", 0)]}
  %e = exp(%d) #{stack: [("twice", "Twice", 0)]}
  %f = exp(%e) #{stack: [("twice", "Twice", 1)]}
  %g = add(%f, 1) #{stack: [("differs", "Differs", 0)]}
  %h = add(%g, 2) #{stack: [("differs", "Differs", 1)]}
  %i = neg(%h) #{stack: [("apart", "Apart", 0)]}
  %j = exp(%i)
  %k = neg(%j) #{stack: [("apart", "Apart", 0)]}
  return (%k, %c)
}
//! =>
graph main(%x: f32[n, 4]) {
  %outer: (any, any) = self.outer(%x)
  %getitem = getitem(%outer, 0)
  %getitem_1 = getitem(%outer, 1)
  %twice = self.twice(%getitem_1)
  %twice_1 = self.twice(%twice)
  %g = add(%twice_1, 1)
  %h = add(%g, 2)
  %i = neg(%h)
  %j = exp(%i)
  %k = neg(%j)
  return (%k, %getitem)
}
