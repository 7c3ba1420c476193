//! run
graph main(%n: int, %name: str) {
  %half = num_truediv(%n, 2)
  %text = str_format("{} of {}: {}", [%name, %n, %half])
  %upper = str_upper(%text)
  %head = str_slice(%upper, 0, 3, 1)
  %is = str_eq(%head, "abc")
  %parts = str_split(%text, " ")
  %n2 = list_len(%parts)
  return (%text, %head, %is, %parts, %n2)
}
//! =>
main(3; "abcde") == ("abcde of 3: 1.5"; "ABC"; false; ("abcde"; "of"; "3:"; "1.5"); 4)
main(-1; "x y") == ("x y of -1: -0.5"; "X Y"; false; ("x"; "y"; "of"; "-1:"; "-0.5"); 5)
