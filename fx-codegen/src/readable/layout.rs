//! Expressions and how they are broken into lines: as rustfmt does with its defaults.

/// The columns of a line.
pub(super) const WIDTH: usize = 100;
/// The columns that the arguments of a call, a chain of calls, or the items of an array may have on one line.
const NARROW: usize = 60;
/// The columns that the fields of a struct may have on one line.
const FIELDS: usize = 18;
/// Items of arrays up to this length share lines.
const SHORT: usize = 10;

/// An expression.
#[derive(Clone, Debug)]
pub(super) enum Expr {
    /// Text that is not broken.
    Text(String),
    /// `a + b`.
    Binary(String, &'static str, String),
    /// `head(args)`.
    Call(String, Vec<Expr>),
    /// `receiver.method(args)`; the receiver may have fields.
    Method(String, String, Vec<Expr>),
    /// `[items]`.
    Array(Vec<Expr>),
    /// `(items)`.
    Tuple(Vec<Expr>),
    /// `name { fields }`; a field with no name has that of its value.
    Struct(String, Vec<Expr>),
    /// A text right before an expression.
    Prefixed(String, Box<Expr>),
    /// `expr?`.
    Try(Box<Expr>),
    /// A closure with a body of several lines.
    Closure(String, Vec<String>),
}

impl Expr {
    pub(super) fn text(text: impl Into<String>) -> Expr {
        Expr::Text(text.into())
    }

    /// Returns the expression on one line, if it has no closure.
    pub(super) fn flat(&self) -> Option<String> {
        let list = |items: &[Expr]| {
            let items: Option<Vec<String>> = items.iter().map(Expr::flat).collect();
            items.map(|items| items.join(", "))
        };
        Some(match self {
            Expr::Text(text) => text.clone(),
            Expr::Binary(a, operator, b) => format!("{a} {operator} {b}"),
            Expr::Call(head, args) => format!("{head}({})", list(args)?),
            Expr::Method(receiver, method, args) => format!("{receiver}.{method}({})", list(args)?),
            Expr::Array(items) => format!("[{}]", list(items)?),
            Expr::Tuple(items) if items.len() == 1 => format!("({},)", list(items)?),
            Expr::Tuple(items) => format!("({})", list(items)?),
            Expr::Struct(name, fields) if fields.is_empty() => format!("{name} {{}}"),
            Expr::Struct(name, fields) => format!("{name} {{ {} }}", list(fields)?),
            Expr::Prefixed(prefix, expr) => format!("{prefix}{}", expr.flat()?),
            Expr::Try(expr) => format!("{}?", expr.flat()?),
            Expr::Closure(..) => return None,
        })
    }

    /// Returns the lines of the expression, the first of which begins at column `at` of a line that is
    /// indented by `indent`, and the last of which is followed by `after` columns.
    pub(super) fn lines(&self, indent: usize, at: usize, after: usize) -> Vec<String> {
        if let Some(flat) = self.flat()
            && at + flat.chars().count() + after <= WIDTH
            && self.is_narrow()
        {
            return vec![flat];
        }
        let pad = " ".repeat(indent);
        match self {
            Expr::Text(text) => vec![text.clone()],
            Expr::Binary(a, operator, b) => vec![a.clone(), format!("{pad}    {operator} {b}")],
            Expr::Call(head, args) => broken(&format!("{head}("), args, ")", indent),
            Expr::Method(receiver, method, args) => {
                let args_flat: Option<Vec<String>> = args.iter().map(Expr::flat).collect();
                let is_chain = receiver.contains('.');
                match args_flat.map(|args| args.join(", ")) {
                    Some(args) if is_chain && args.len() <= NARROW => {
                        let mut parts = receiver.split('.');
                        let mut first = parts.next().unwrap_or_default().to_owned();
                        // A short beginning has the next part on its line, if it begins the line itself.
                        if at == indent
                            && first.len() <= 4
                            && let Some(part) = parts.next()
                        {
                            first.push('.');
                            first.push_str(part);
                        }
                        let mut lines = vec![first];
                        lines.extend(parts.map(|part| format!("{pad}    .{part}")));
                        lines.push(format!("{pad}    .{method}({args})"));
                        lines
                    }
                    _ => broken(&format!("{receiver}.{method}("), args, ")", indent),
                }
            }
            Expr::Array(items) => broken("[", items, "]", indent),
            Expr::Tuple(items) => broken("(", items, ")", indent),
            Expr::Struct(name, fields) => broken(&format!("{name} {{"), fields, "}", indent),
            Expr::Prefixed(prefix, expr) => {
                let mut lines = expr.lines(indent, at + prefix.chars().count(), after);
                lines[0].insert_str(0, prefix);
                lines
            }
            Expr::Try(expr) => {
                let mut lines = expr.lines(indent, at, after + 1);
                if let Some(last) = lines.last_mut() {
                    last.push('?');
                }
                lines
            }
            Expr::Closure(head, body) => {
                let mut lines = vec![format!("{head} {{")];
                lines.extend(body.iter().map(|line| match line.is_empty() {
                    true => String::new(),
                    false => format!("{pad}    {line}"),
                }));
                lines.push(format!("{pad}}}"));
                lines
            }
        }
    }

    /// Returns whether it is a chain of calls that is broken at its dots.
    pub(super) fn is_broken_chain(&self) -> bool {
        match self {
            Expr::Method(receiver, _, args) => {
                let flat: Option<Vec<String>> = args.iter().map(Expr::flat).collect();
                let args_fit = flat.is_some_and(|flat| flat.join(", ").len() <= NARROW);
                receiver.contains('.') && args_fit && !self.is_narrow()
            }
            Expr::Try(expr) => expr.is_broken_chain(),
            _ => false,
        }
    }

    /// Returns whether items like this share lines: names, numbers, fields and elements; in arrays other
    /// short ones, too.
    fn is_short(&self, in_array: bool) -> bool {
        let Expr::Text(text) = self else { return false };
        let is_simple = |text: &str| !text.contains("::") && !text.contains(['(', ' ', '{']);
        text.len() <= SHORT && (in_array || is_simple(text))
    }

    /// Returns whether no list in the expression is too wide for one line.
    pub(super) fn is_narrow(&self) -> bool {
        let fits = |items: &[Expr]| {
            // The one argument may end on the line of the call, so that only it must be narrow.
            if let [only @ Expr::Array(_)] = items {
                return only.is_narrow();
            }
            let flat: Option<Vec<String>> = items.iter().map(Expr::flat).collect();
            flat.is_some_and(|flat| flat.join(", ").chars().count() <= NARROW)
                && items.iter().all(Expr::is_narrow)
        };
        match self {
            Expr::Text(_) | Expr::Binary(..) => true,
            Expr::Closure(..) => false,
            Expr::Prefixed(_, expr) | Expr::Try(expr) => expr.is_narrow(),
            Expr::Struct(_, fields) => {
                let flat: Option<Vec<String>> = fields.iter().map(Expr::flat).collect();
                flat.is_some_and(|flat| flat.join(", ").chars().count() <= FIELDS)
            }
            Expr::Call(_, items) | Expr::Array(items) | Expr::Tuple(items) => fits(items),
            Expr::Method(receiver, ..) if receiver.contains('.') => {
                self.flat().is_some_and(|flat| flat.chars().count() <= NARROW)
            }
            Expr::Method(_, _, items) => fits(items),
        }
    }
}

/// Writes a list an item a line, or around the one item that breaks itself.
fn broken(open: &str, items: &[Expr], close: &str, indent: usize) -> Vec<String> {
    let pad = " ".repeat(indent);
    let is_struct = open.ends_with('{');
    if let [only @ (Expr::Call(..) | Expr::Method(..) | Expr::Array(_) | Expr::Tuple(_))] = items
        && !is_struct
    {
        let mut lines = only.lines(indent, WIDTH, 0);
        if lines.len() > 1 {
            lines[0].insert_str(0, open);
            if let Some(last) = lines.last_mut() {
                last.push_str(close);
            }
            return lines;
        }
    }
    if items.len() > 1 && !is_struct && items.iter().all(|item| item.is_short(open == "[")) {
        return filled(open, items, close, indent);
    }
    let mut lines = vec![open.to_owned()];
    for item in items {
        let mut inner = item.lines(indent + 4, indent + 4, 1);
        inner[0].insert_str(0, &format!("{pad}    "));
        if let Some(last) = inner.last_mut() {
            last.push(',');
        }
        lines.extend(inner);
    }
    lines.push(format!("{pad}{close}"));
    lines
}

/// Writes a list with as many short items a line as fit.
fn filled(open: &str, items: &[Expr], close: &str, indent: usize) -> Vec<String> {
    let pad = " ".repeat(indent + 4);
    let mut lines = vec![open.to_owned()];
    let mut line = String::new();
    for item in items.iter().filter_map(Expr::flat) {
        if !line.is_empty() && pad.len() + line.len() + 1 + item.len() + 1 > WIDTH {
            lines.push(format!("{pad}{line}"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&item);
        line.push(',');
    }
    lines.push(format!("{pad}{line}"));
    lines.push(format!("{}{close}", " ".repeat(indent)));
    lines
}
