//! Lines and modules of imported nodes.

use fx::__test::import::{module_stack, source};

#[test]
fn the_users_innermost_line_is_taken() {
    let trace = "File \"net.py\", line 3, in forward\n    x = self.a(x)\n  File \"/venv/torch/nn/linear.py\", line 9, in f\n    y";
    assert_eq!(source(trace).unwrap().to_string(), "net.py:3:1");
    assert_eq!(source("File \"torch/nn/a.py\", line 7, in f").unwrap().to_string(), "torch/nn/a.py:7:1");
    assert!(source("File \"<eval>\", line 7\n File \"x\", line 99999999999").is_none());
}

#[test]
fn stacks_name_modules_and_calls() {
    let stack = module_stack("L__self__,,a.Net;L__self___fc@2,fc@2,torch.nn.Linear").unwrap();
    assert_eq!((&*stack[0].path, &*stack[0].type_name, stack[0].call), ("fc", "Linear", 2));
    assert!(module_stack("L__self__,,a.Net").is_none() && module_stack(";;,").is_none());
}
