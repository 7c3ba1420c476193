//! `#[fx::compile]`: a function whose tensor work runs compiled.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Expr, ExprMethodCall, ExprPath, Ident, ItemFn, ItemStatic, LitInt, LitStr, Macro, Path, Result,
    StaticMutability,
};

use crate::function::{Function, expand_or_keep};
use crate::options::{Options, cfg_attributes, collect, crate_path, private};

/// What stands in the parentheses of `#[fx::compile(..)]`.
#[derive(Default)]
struct Compile {
    is_pure: bool,
    is_whole: bool,
    verify: Option<LitInt>,
    backend: Option<LitStr>,
    crate_path: Option<Path>,
}

/// Expands `#[fx::compile]`.
pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_or_keep(item, |item| try_expand(options, item))
}

fn try_expand(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Compile::read(options)?;
    let fx = private(options.crate_path.as_ref());
    let on_method = "expected a free function, because its compiled code belongs to no value; compile the module \
                     with `fx::compile(&module)`, or move the function out of the `impl`";
    let function = Function::read(item, "#[fx::compile]", "a compiled function", on_method)?;
    if options.is_pure {
        check_pure(&function.item)?;
    }
    let (ident, vis, result) = (&function.item.sig.ident, &function.item.vis, &function.result);
    let (name, values) = (function.name(), function.values(&fx));
    let arguments = function.arguments.iter().map(|argument| {
        let (name, owned) = (argument.name(), argument.owned(&fx));
        quote!((#name, <#owned as #fx::Tree>::takes_symbols))
    });
    let cfg = cfg_attributes(&function.item.attrs);
    let inner = function.inner("__compiled", "__run", &name, &fx);
    let outer = function.outer(&quote!(#fx::call_compiled::<#result>(#ident::compiled(), #values)));
    let options = options.calls();

    Ok(quote! {
        #outer

        #(#cfg)*
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code, reason = "the handle is named as the function")]
        #vis enum #ident {}

        #(#cfg)*
        #[doc(hidden)]
        #[allow(dead_code, reason = "a program need not ask what was compiled")]
        impl #ident {
            /// Returns the compiled function, which tells what was compiled and why.
            #vis fn compiled() -> &'static #fx::Compiled {
                #inner
                static __COMPILED: #fx::std::sync::LazyLock<#fx::Compiled> =
                    #fx::std::sync::LazyLock::new(|| {
                        let place =
                            #fx::SourceLoc::new(#fx::std::file!(), #fx::std::line!(), #fx::std::column!());
                        #fx::compiled(#name, &[#(#arguments),*], __run, place)#options
                    });
                &__COMPILED
            }
        }
    })
}

impl Compile {
    fn read(options: TokenStream) -> Result<Self> {
        let mut compile = Compile::default();
        let mut known =
            Options::new("`pure`, `whole`, `verify = number`, `backend = \"name\"` or `crate = path`");
        syn::meta::parser(|meta| {
            match known.key(&meta)?.as_str() {
                "pure" => compile.is_pure = true,
                "whole" => compile.is_whole = true,
                "verify" => {
                    let number: LitInt = meta.value()?.parse()?;
                    number.base10_parse::<u64>()?;
                    compile.verify = Some(number);
                    compile.is_pure = true;
                }
                "backend" => compile.backend = Some(meta.value()?.parse()?),
                "crate" => compile.crate_path = Some(crate_path(&meta)?),
                _ => return Err(known.unknown(&meta)),
            }
            Ok(())
        })
        .parse2(options)?;
        Ok(compile)
    }

    /// Returns the calls that set the options.
    fn calls(&self) -> TokenStream {
        let mut calls = TokenStream::new();
        if let Some(backend) = &self.backend {
            calls.extend(quote!(.backend(#backend)));
        }
        if self.is_whole {
            calls.extend(quote!(.whole()));
        }
        match &self.verify {
            Some(every) => calls.extend(quote!(.verify(#every))),
            None if self.is_pure => calls.extend(quote!(.pure())),
            None => {}
        }
        calls
    }
}

/// Refuses what a pure function evidently must not do: its Rust code runs for the first calls only. Reports all
/// places at once.
fn check_pure(function: &ItemFn) -> Result<()> {
    let mut effects = Effects(None);
    effects.visit_block(&function.block);
    effects.0.map_or(Ok(()), Err)
}

struct Effects(Option<syn::Error>);

impl Effects {
    fn found(&mut self, span: Span, what: &str, cure: &str) {
        let message =
            format!("{what}, but the Rust code of a pure function does not run on every call; {cure}");
        collect(&mut self.0, syn::Error::new(span, message));
    }
}

/// What the last names of a path mean: the function, and what it does.
const CALLS: &[(&[&str], &str, &str)] = &[
    (&["Instant", "now"], "the clock is read here", MEASURE),
    (&["SystemTime", "now"], "the clock is read here", MEASURE),
    (&["env", "var"], "the environment is read here", PASS),
    (&["env", "var_os"], "the environment is read here", PASS),
    (&["env", "args"], "the arguments of the program are read here", PASS),
    (&["io", "stdin"], "the standard input is read here", PASS),
    (&["io", "stdout"], "this prints", OUTSIDE),
    (&["io", "stderr"], "this prints", OUTSIDE),
    (&["File", "open"], "a file is read here", PASS),
    (&["File", "create"], "a file is written here", OUTSIDE),
    (&["fs", "read"], "a file is read here", PASS),
    (&["fs", "read_to_string"], "a file is read here", PASS),
    (&["fs", "write"], "a file is written here", OUTSIDE),
    (&["fs", "remove_file"], "a file is removed here", OUTSIDE),
    (&["rand", "random"], "Rust code draws a random number here", "draw it with `fx::rand`, or pass it"),
    (&["thread_rng"], "Rust code draws random numbers here", "draw them with `fx::rand`, or pass them"),
    (&["thread", "spawn"], "a thread is started here", OUTSIDE),
    (&["thread", "sleep"], "this waits", OUTSIDE),
    (&["process", "exit"], "the program ends here", OUTSIDE),
];

const MEASURE: &str = "measure around the call";
const PASS: &str = "pass what it gives as an argument";
const OUTSIDE: &str = "do it around the call, or leave out `pure`";

impl<'ast> Visit<'ast> for Effects {
    fn visit_macro(&mut self, found: &'ast Macro) {
        let name = found.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        match name.as_str() {
            "println" | "print" | "eprintln" | "eprint" | "dbg" => {
                self.found(found.path.span(), "this prints", OUTSIDE);
            }
            "thread_local" => self.state(found.path.span()),
            _ => {}
        }
        // Arguments such as those of `assert!` and `vec!` are expressions.
        let arguments = syn::punctuated::Punctuated::<Expr, syn::Token![,]>::parse_terminated;
        if let Ok(arguments) = arguments.parse2(found.tokens.clone()) {
            arguments.iter().for_each(|argument| Effects::visit_expr(self, argument));
        }
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        let names: Vec<String> =
            path.path.segments.iter().map(|segment| segment.ident.unraw().to_string()).collect();
        let is_call = |(ends, ..): &&(&[&str], &str, &str)| {
            names.len() >= ends.len() && names[names.len() - ends.len()..].iter().eq(ends.iter())
        };
        if let Some((_, what, cure)) = CALLS.iter().find(is_call) {
            self.found(path.span(), what, cure);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let name = call.method.to_string();
        if name.starts_with("fetch_") {
            self.state(call.method.span());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_item_static(&mut self, item: &'ast ItemStatic) {
        if matches!(item.mutability, StaticMutability::Mut(_)) || has_state(&item.ty) {
            self.state(item.ident.span());
        }
    }
}

impl Effects {
    fn state(&mut self, span: Span) {
        self.found(span, "state that outlives the call changes here", "pass it, and return the new one");
    }
}

/// Returns whether a static of the type can change, by the names of the standard library.
fn has_state(ty: &syn::Type) -> bool {
    struct Search(bool);
    impl Visit<'_> for Search {
        fn visit_ident(&mut self, ident: &Ident) {
            let name = ident.to_string();
            self.0 |= name.starts_with("Atomic") || ["Mutex", "RwLock", "Cell", "RefCell"].contains(&&*name);
        }
    }
    let mut search = Search(false);
    search.visit_type(ty);
    search.0
}
