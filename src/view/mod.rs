//! [`Page`]: a program as one HTML page that is complete and needs no network.
//!
//! The page holds its data as JSON and lays them out itself, so that modules fold and unfold. In `view/`,
//! `model.js` reads the data, `layout.js` places boxes, `scene.js` draws what is in view, `app.js` holds the
//! other parts of the page together.
//!
//! Names and text come from files, and are never markup or script: here they are JSON without `<`, `>` and
//! `&`, there they become text nodes and attributes only. The policy in the page forbids all requests.

mod data;
pub(crate) mod family;

use crate::GraphModule;
use crate::pass::Report;

/// The page, with a mark where each part goes.
const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
const SCRIPT: [&str; 11] = [
    include_str!("dom.js"),
    include_str!("model.js"),
    include_str!("layout.js"),
    include_str!("scene.js"),
    include_str!("outline.js"),
    include_str!("search.js"),
    include_str!("details.js"),
    include_str!("steps.js"),
    include_str!("overview.js"),
    include_str!("input.js"),
    include_str!("app.js"),
];

/// Returns a page that shows a program: its graph, zoomable, with boxes for modules and sub-graphs, search,
/// and what is known of each node. Equal programs give equal pages.
///
/// ```
/// use fx::prelude::*;
///
/// let gm = fx::trace(|x: &Tensor| (x * 2).relu()).input("x", "f32[n]").build()?;
/// let page = fx::view::html(&gm);
/// assert!(page.starts_with("<!doctype html>") && page.contains("relu"));
/// # Ok::<(), fx::Error>(())
/// ```
pub fn html(gm: &GraphModule) -> String {
    Page::new(gm).html()
}

/// A page to be written: a program, with a title and the steps of passes, if given.
///
/// ```
/// let mut gm = fx::trace(|x: &fx::Tensor| x * 1.0 + x * 1.0).input("x", "f32[n]").build()?;
/// let before = gm.clone();
/// let report = fx::Passes::parse("cse, simplify", &fx::pass::all())?.keep_modules().keep_diffs().run(&mut gm)?;
/// let page = fx::view::Page::new(&before).title("twice").report(&report).html();
/// # assert!(page.contains("simplify"));
/// # Ok::<(), fx::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    gm: &'a GraphModule,
    title: &'a str,
    report: Option<&'a Report>,
}

impl<'a> Page<'a> {
    /// Makes the page of a program, under its name.
    pub fn new(gm: &'a GraphModule) -> Self {
        Page { gm, title: gm.name(), report: None }
    }

    /// Sets the title.
    #[must_use]
    pub fn title(self, title: &'a str) -> Self {
        Page { title, ..self }
    }

    /// Adds the steps of passes to the program, which is given as it was before them: the graph after each,
    /// its counts and its time, and the difference of the text.
    ///
    /// What the report does not have is not shown: ask for it by
    /// [`Passes::keep_modules`](crate::Passes::keep_modules) and
    /// [`Passes::keep_diffs`](crate::Passes::keep_diffs).
    #[must_use]
    pub fn report(self, report: &'a Report) -> Self {
        Page { report: Some(report), ..self }
    }

    /// Returns the data of the page, as it holds them.
    pub fn json(&self) -> serde_json::Value {
        data::data(self)
    }

    /// Returns the page.
    pub fn html(&self) -> String {
        let parts = [
            ("title", in_markup(self.title)),
            ("style", STYLE.to_owned()),
            ("data", in_script(&self.json().to_string())),
            ("script", SCRIPT.concat()),
        ];
        let (mut out, mut rest) = (String::new(), PAGE);
        // Each mark is sought in the template alone, never in what was filled in.
        for (name, part) in parts {
            let mark = format!("<!--{name}-->");
            let (before, after) = rest.split_once(&mark).expect("the template has each mark, in this order");
            out.push_str(before);
            out.push_str(&part);
            rest = after;
        }
        out + rest
    }
}

/// Writes JSON so that it can stand in a `script` element: what could end the element only occurs inside of
/// strings.
pub(crate) fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn in_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
