//! The text format of graphs: [`Graph`](crate::Graph) prints it and [`Graph::parse`](crate::Graph::parse)
//! reads it.
//!
//! Printing with metadata (`{:#}`, [`Graph::to_text`](crate::Graph::to_text)) and parsing give back an equal
//! graph, and the same text again. The six opcodes show in the form of the line. Version 1 of the grammar:
//!
//! ```text
//! text      = graph { graph } ;                            (* the first is the program, the others its sub-graphs *)
//! graph     = "graph" word [ "as" word ] [ symbols ] "(" [ input { "," input } ] ")" [ "->" type ] "{" { line } "}" ;
//! symbols   = "<" symbol { "," symbol } ">" ;              (* "as": the name, where the first word had to be unique *)
//! symbol    = [ "%" ] word ":" [ integer ] ".." [ "=" integer ] ;
//! input     = node [ ":" type ] | ( word | string ) ( ":" | "=" ) value ;    (* node = "%" identifier [ ":" type ] *)
//! line      = "%" identifier attrs                         (* metadata of a placeholder *)
//!           | "%" identifier [ ":" type ] "=" call [ attrs ]
//!           | "return" value [ attrs ] ;                   (* last; each line ends at the end of the line *)
//! call      = "self." path                                 (* get_attr *)
//!           | "self." path args                            (* call_module *)
//!           | ( word | string ) args                       (* call_function *)
//!           | ( node | "(" value ")" ) "." ( word | string ) args ;          (* call_method *)
//! args      = "(" [ arg { "," arg } ] ")" ;  arg = [ ( word | string ) "=" ] value ;
//! path      = segment { "." segment } | string ;           (* segment: letters, digits and underscores *)
//! value     = node | "@" word | "none" | "true" | "false" | integer | float | string | dtype | ".." | "<" dim ">"
//!           | "slice" "(" value "," value "," value ")" | "error" "(" string ")"
//!           | "(" [ value "," { value "," } [ value ] ] ")" | "[" [ value { "," value } ] "]"
//!           | "{" [ string ":" value { "," string ":" value } ] "}" ;
//! type      = dtype "[" [ dim { "," dim } ] "]" | "int" | "float" | "boolean" | "any" | value ;  (* of types *)
//! float     = digits with "." or "e" | "inf" | "-inf" | "nan" [ "(0x" 16 hex digits ")" ] ;
//! attrs     = "#{" attr { "," attr } "}" ;                 (* comments run from "//" to the end of the line *)
//! attr      = "src" ":" string | "stack" ":" "[" "(" string "," string "," integer [ "," string ] ")" .. "]"
//!           | "by" ":" "[" "(" string "," strings ")" .. "]" | "tags" ":" strings | "ext" ":" dictionary
//!           | "name" ":" string | "type" ":" type ;        (* the last two: of the output *)
//! ```
//! [`Graph::to_torch_string`](crate::Graph::to_torch_string), `tabular`, `to_dot` and `to_svg` print for
//! people and tools only. A word that begins a size, a dtype and `[` stand together; a size ends on the line
//! on which it begins. The symbols of sizes are numbers from 0 unless the graph gives their range.

mod blocks;
mod dot;
#[doc(hidden)]
pub mod layout;
mod lex;
mod meta;
mod parse;
mod print;
mod svg;
mod torch;
mod value;
