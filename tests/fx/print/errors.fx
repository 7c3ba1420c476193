//! print
graph main(%x: f32[2]) {
  %y = ad(%x, 1)
  %y = add(%x, %q)
  %z = add(%x, "text"
  return %z, 2
}
//! =>
5 errors
- unknown operation "ad"  at <text>:2:8
    help: did you mean "add" or "pad"?
- %y is defined twice  at <text>:3:3
    help: give each node a name of its own
- no node is called %q  at <text>:3:16
    help: did you mean "x"?
- expected `,` or `)`, got `return`  at <text>:5:3
- expected `return` as the last line of the graph, got `}`  at <text>:6:1
