// Written by fx from a graph; it is yours to change.

use fx::prelude::*;

/// `"; std::process::exit(1); //x\u{a}std::process::exit(1);\u{a}*/ std::process::exit(1) /*"# ; std::process::exit(1)fn\u{202e}\u{2028}\u{feff}\{}{{}}'\"\u{0}\u{d}`, written by fx from a graph of 14 nodes.
#[derive(Module)]
pub struct StdProcessExit1XStdProcessExit1StdProces {
    #[module(rename = "part.0")]
    pub part_0: StdProcessExit1,
    #[module(rename = "part.1")]
    pub part_1: StdProcessExit1,
    #[module(rename = "part.2")]
    pub part_2: StdProcessExit1,
    #[module(rename = "part.3")]
    pub part_3: StdProcessExit1,
    #[module(rename = "part.4")]
    pub part_4: StdProcessExit1,
    #[module(rename = "part.5")]
    pub part_5: StdProcessExit1,
}

impl StdProcessExit1XStdProcessExit1StdProces {
    /// Takes the members from a graph module, or from weights.
    pub fn new(members: &fx::Members<'_>) -> Result<Self> {
        Ok(StdProcessExit1XStdProcessExit1StdProces {
            part_0: StdProcessExit1::new(&members.at("part.0"))?,
            part_1: StdProcessExit1::new(&members.at("part.1"))?,
            part_2: StdProcessExit1::new(&members.at("part.2"))?,
            part_3: StdProcessExit1::new(&members.at("part.3"))?,
            part_4: StdProcessExit1::new(&members.at("part.4"))?,
            part_5: StdProcessExit1::new(&members.at("part.5"))?,
        })
    }
}

#[fx::forward]
impl StdProcessExit1XStdProcessExit1StdProces {
    /// Runs the graph.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        // "; std::process::exit(1); // of "; std::process::exit(1); //
        // "; std::process::exit(1); //:0
        let _print = fx::print(x, "\"; std::process::exit(1); //");
        let relu = self.part_0.call(x);
        // x\u{a}std::process::exit(1);\u{a} of x\u{a}std::process::exit(1);\u{a}
        // x\u{a}std::process::exit(1);\u{a}:1
        let _print_1 = fx::print(&relu, "x\nstd::process::exit(1);\n");
        let relu_1 = self.part_1.call(&relu);
        // */ std::process::exit(1) /* of */ std::process::exit(1) /*
        // */ std::process::exit(1) /*:2
        let _print_2 = fx::print(&relu_1, "*/ std::process::exit(1) /*");
        let relu_2 = self.part_2.call(&relu_1);
        // "# ; std::process::exit(1) of "# ; std::process::exit(1)
        // "# ; std::process::exit(1):3
        let _print_3 = fx::print(&relu_2, "\"# ; std::process::exit(1)");
        let relu_3 = self.part_3.call(&relu_2);
        // fn\u{202e}\u{2028}\u{feff}\ of fn\u{202e}\u{2028}\u{feff}\
        // fn\u{202e}\u{2028}\u{feff}\:4
        let _print_4 = fx::print(&relu_3, "fn\u{202e}\u{2028}\u{feff}\\");
        let relu_4 = self.part_4.call(&relu_3);
        // {}{{}}'\"\u{0}\u{d} of {}{{}}'\"\u{0}\u{d}
        // {}{{}}'\"\u{0}\u{d}:5
        let _print_5 = fx::print(&relu_4, "{}{{}}'\\\"\u{0}\u{d}");
        self.part_5.call(&relu_4)
    }
}

/// `"; std::process::exit(1); //`, first called as `part.0`.
#[derive(Module)]
pub struct StdProcessExit1 {}

impl StdProcessExit1 {
    /// Takes the members from a graph module, or from weights.
    pub fn new(_members: &fx::Members<'_>) -> Result<Self> {
        Ok(StdProcessExit1 {})
    }
}

#[fx::forward]
impl StdProcessExit1 {
    /// Runs the graph.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        fx::relu(x)
    }
}
