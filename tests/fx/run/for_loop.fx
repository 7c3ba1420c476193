//! run
graph main(%x: i64[n], %k: i64[]) {
  %f = for_loop(%k, @step, [%x, 0], [%k])
  %g = for_loop(<n>, @step, [%x, 10], [%k])
  return (%f, %g)
}
graph step(%i: int, %x: i64[m], %s: int, %k: i64[]) {
  %y = add(%x, %i)
  %z = cat([%y, %y], 0)
  %t = num_add(%s, %i)
  return [%z, %t]
}
//! =>
main(i64[1] 5; i64[] 2) == ((i64[4] 6 6 6 6; 1); (i64[2] 5 5; 10))
main(i64[2] 1 2; i64[] 0) == ((i64[2] 1 2; 0); (i64[8] 2 3 2 3 2 3 2 3; 11))
main(i64[1] 5; i64[] -3) == ((i64[1] 5; 0); (i64[2] 5 5; 10))
