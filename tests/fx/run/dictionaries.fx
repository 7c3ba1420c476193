//! run
graph main(%x: f32[2], %key: str) {
  %d = dict_pairs({"a": 1.0, "b": 2.0})
  %e = dict_set(%d, %key, 3.0)
  %has = dict_contains(%e, "c")
  %got = dict_get_or(%e, "c", 0.0)
  %keys = dict_keys(%e)
  %name = str_join("+", %keys)
  %y = mul(%x, %got)
  %shorter = dict_delete(%e, "a")
  return (%y, %has, %name, %shorter)
}
//! =>
main(f32[2] 1 2; "c") == (f32[2] 3 6; true; "a+b+c"; (("b"; 2.0); ("c"; 3.0)))
main(f32[2] 1 2; "a") == (f32[2] 0 0; false; "a+b"; (("b"; 2.0)))
