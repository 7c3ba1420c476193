//! print
graph main(%x: f32[batch, 3], pair: (%a, %b: i64[2]), opts: {"w": %w: f32[3], "train": false}, n = 3) {
  %y = add(%x, %w, alpha=2.0)
  %z = %y.neg()
  return {"out": (%z, [%a, %b]), "none": none, "pi": 3.5, "big": 9223372036854775807}
}
//! =>
graph main(%x: f32[batch, 3], pair: (%a, %b: i64[2]), opts: {"w": %w: f32[3], "train": false}, n = 3) -> {"out": (any, [any, i64[2]]), "none": none, "pi": 3.5, "big": 9223372036854775807} {
  %y = add(%x, %w, alpha=2.0)
  %z = %y.neg()
  return {"out": (%z, [%a, %b]), "none": none, "pi": 3.5, "big": 9223372036854775807}
}
