//! Tensors: expressions, views and writes through them. Elements are whole numbers, so that sums are exact.

use super::{Generator, Line, Type};

impl Generator {
    pub(super) fn tensor_literal(&mut self) -> String {
        let dtype = self.rng.pick(&["torch.float32", "torch.float64", "torch.int64"]);
        match self.rng.below(4) {
            0 => format!("torch.zeros([2, 3], dtype={dtype})"),
            1 => format!("torch.full([3], {}, dtype={dtype})", self.rng.below(9)),
            2 => format!("torch.arange({}, dtype={dtype})", 2 + self.rng.below(4)),
            _ => format!("torch.arange(6, dtype={dtype}).reshape([{}])", self.rng.pick(&["2, 3", "3, 2"])),
        }
    }

    pub(super) fn int_of_tensor(&mut self, depth: usize) -> String {
        let x = self.expression(&Type::Tensor, depth);
        match self.rng.below(5) {
            0 => format!("({x}).dim()"),
            1 => format!("({x}).numel()"),
            2 => format!("int(torch.clamp(({x}).sum(), -500, 500))"),
            3 => format!("len(({x}).size())"),
            _ => format!("(({x}).size(0) if ({x}).dim() > 0 else -1)"),
        }
    }

    pub(super) fn bool_of_tensor(&mut self, depth: usize) -> String {
        let x = self.expression(&Type::Tensor, depth);
        match self.rng.below(4) {
            0 => format!("bool((({x}) > {}).any())", self.rng.below(5)),
            1 => format!("(({x}).dim() == {})", self.rng.below(3)),
            2 => format!("torch.is_floating_point({x})"),
            _ => format!("({x}).is_contiguous()"),
        }
    }

    pub(super) fn tensor(&mut self, depth: usize) -> String {
        let d = depth - 1;
        let x = self.expression(&Type::Tensor, d);
        match self.rng.below(16) {
            0 => {
                let op = self.rng.pick(&["+", "-"]);
                format!("({x} {op} {})", self.expression(&Type::Tensor, 0))
            }
            1 => format!("({x} {} {})", self.rng.pick(&["+", "-", "*"]), self.rng.below(5)),
            2 => format!("(({}) % 100 + {x})", self.expression(&Type::Int, d)),
            3 => format!("-({x})"),
            4 => {
                let f = self.rng.pick(&["relu", "abs", "neg", "clone", "sign", "ravel"]);
                format!("torch.{f}({x})")
            }
            5 => format!("torch.clamp({x}, -50, 50)"),
            6 => format!("({x}).sum()"),
            7 => format!("({x}).unsqueeze({})", self.rng.pick(&["0", "-1"])),
            8 => format!("({x}).reshape([-1])"),
            9 => self.view(d),
            10 => {
                let y = self.expression(&Type::Tensor, 0);
                format!("torch.where({x} > 1, {x}, {y})")
            }
            11 => format!("torch.stack([{x}, {x}])"),
            12 => format!("torch.cat([{x}, {x}])"),
            13 => {
                format!("({x}).to({})", self.rng.pick(&["torch.float32", "torch.int64", "torch.float64"]))
            }
            _ => self.view(d),
        }
    }

    /// Returns a view of a variable, or the variable.
    fn view(&mut self, depth: usize) -> String {
        let Some(x) = self.place(&Type::Tensor) else { return self.tensor_literal() };
        let i = self.expression(&Type::Int, depth.min(1));
        match self.rng.below(9) {
            0..=1 => format!("({x}[({i}) % {x}.size(0)] if {x}.dim() > 0 else {x})"),
            2 => format!("({x}[1:] if {x}.dim() > 0 else {x})"),
            3 => format!("({x}[..., 0] if {x}.dim() == 2 else {x})"),
            4 => format!("({x}[:, 1] if {x}.dim() == 2 else {x})"),
            5 => format!("({x}.t() if {x}.dim() <= 2 else {x})"),
            6 => format!("{x}.unsqueeze(0)"),
            7 => format!("({x}.view([-1]) if {x}.is_contiguous() else {x})"),
            _ => format!("({x}[None, ::2] if {x}.dim() == 2 else {x})"),
        }
    }

    /// Makes a write to a tensor or a view of one.
    pub(super) fn change_tensor(&mut self, lines: &mut Vec<Line>) {
        let Some(x) = self.variable(&Type::Tensor, false) else {
            let name = self.name("v");
            let value = self.tensor_literal();
            lines.push(Line::new(format!("{name} = {value}")));
            self.variables.push(super::Variable { name, ty: Type::Tensor, is_writable: true });
            return;
        };
        let n = self.rng.below(9);
        let i = self.expression(&Type::Int, 1);
        let guarded = |test: &str, text: String| Line::with(format!("if {x}.{test}:"), vec![Line::new(text)]);
        lines.push(match self.rng.below(11) {
            0 => Line::new(format!("{x}.{}({n})", self.rng.pick(&["add_", "sub_", "fill_"]))),
            1 => Line::new(format!("{x}.{}()", self.rng.pick(&["zero_", "neg_", "abs_", "relu_"]))),
            2 => Line::new(format!("{x}.clamp_(-50, 50)")),
            3 => Line::new(format!("{x} += {n}")),
            4 => guarded("dim() > 0", format!("{x}[0] = {n}")),
            5 => guarded("dim() > 0", format!("{x}[({i}) % {x}.size(0)] += {n}")),
            6 => guarded("dim() > 0", format!("{x}[1:] = {n}")),
            7 => guarded("dim() == 2", format!("{x}[:, 0] -= {n}")),
            8 => guarded("dim() > 0", format!("{x}[-1].add_({x}[0])")),
            9 => guarded("dim() > 0", format!("{x}[0].copy_({x}[-1])")),
            _ => Line::new(format!("{x}[...] = {n}")),
        });
    }
}
