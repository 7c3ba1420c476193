//! `#[fx::wrap]`: a function of the user's as an operation of its own.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::{Attribute, Expr, ExprLit, Ident, Lit, LitStr, Meta, Path, Result, Token};

use crate::function::{Function, expand_or_keep};
use crate::options::{Options, cfg_attributes, crate_path, private};

/// What stands in the parentheses of `#[fx::wrap(..)]`.
#[derive(Default)]
struct Wrap {
    name: Option<String>,
    effects: Option<Ident>,
    crate_path: Option<Path>,
}

/// Expands `#[fx::wrap]`.
pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_or_keep(item, |item| try_expand(options, item))
}

fn try_expand(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Wrap::read(options)?;
    let fx = private(options.crate_path.as_ref());
    let on_method = "expected a free function, because a graph calls it by name; move it out of the `impl`, \
                     or make the type a module with #[fx::forward]";
    let function = Function::read(item, "#[fx::wrap]", "a wrapped function", on_method)?;
    let (ident, vis, result) = (&function.item.sig.ident, &function.item.vis, &function.result);
    let name = options.name.unwrap_or_else(|| function.name());
    let effects = options.effects.unwrap_or_else(|| Ident::new("PURE", Span::call_site()));
    let doc = documentation(&function.item.attrs, &fx);
    let parameters = function.arguments.iter().map(|argument| {
        let (name, kind) = (argument.name(), Ident::new(argument.kind(), Span::call_site()));
        let none = quote!(#fx::std::option::Option::None);
        quote!(#fx::Param { name: #name, kind: #fx::Kind::#kind, default: #none, keyword_only: false })
    });
    let function_name = ident.to_string();
    let cfg = cfg_attributes(&function.item.attrs);
    let inner = function.inner("__wrapped", "__eval", &name, &fx);
    let values = function.values(&fx);
    let outer = function.outer(&quote!(#fx::call_wrapped::<#result>(#ident::OP, #values)));

    Ok(quote! {
        #outer

        #(#cfg)*
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code, reason = "the handle is named as the function")]
        #vis enum #ident {}

        #(#cfg)*
        #[doc(hidden)]
        #[allow(dead_code, reason = "the row may not be named")]
        impl #ident {
            /// The row of the operation.
            #vis const OP: #fx::Op = {
                #inner
                fn __infer(types: &[#fx::TypeTree]) -> #fx::Result<#fx::TypeTree> {
                    #fx::infer_by_tracing(types, __eval)
                }
                static __DEF: #fx::OpDef = #fx::OpDef {
                    name: #name,
                    doc: #doc,
                    path: #fx::std::concat!(#fx::std::module_path!(), "::", #function_name),
                    returns: #fx::std::stringify!(#result),
                    params: &[#(#parameters),*],
                    class: #fx::Class::Composite,
                    effects: #fx::Effects::#effects,
                    method: false,
                    infer: &__infer,
                    eval: &__eval,
                    ..#fx::OpDef::BASE
                };
                #fx::Op::new(&__DEF)
            };
        }
    })
}

impl Wrap {
    fn read(options: TokenStream) -> Result<Self> {
        let mut wrap = Wrap::default();
        let mut known =
            Options::new("`name = \"name\"`, `effects = random`, `effects = host` or `crate = path`");
        syn::meta::parser(|meta| {
            match known.key(&meta)?.as_str() {
                "name" => {
                    let name: LitStr = meta.value()?.parse()?;
                    if syn::parse_str::<Ident>(&name.value()).is_err() {
                        let message = format!(
                            "expected an identifier, because the text of a graph calls it, got {:?}",
                            name.value()
                        );
                        return Err(syn::Error::new(name.span(), message));
                    }
                    wrap.name = Some(name.value());
                }
                "effects" => {
                    let value = meta.value()?;
                    let effects = value.call(Ident::parse_any)?;
                    let constant = match effects.to_string().as_str() {
                        "random" => "RANDOM",
                        "host" => "HOST",
                        _ => return Err(syn::Error::new(effects.span(), "expected `random` or `host`")),
                    };
                    wrap.effects = Some(Ident::new(constant, Span::call_site()));
                }
                "crate" => wrap.crate_path = Some(crate_path(&meta)?),
                _ => return Err(known.unknown(&meta)),
            }
            Ok(())
        })
        .parse2(options)?;
        Ok(wrap)
    }
}

/// Makes an expression for the text of the doc comments, with the space after `///` removed.
fn documentation(attrs: &[Attribute], fx: &TokenStream) -> TokenStream {
    let docs = attrs.iter().filter_map(|attr| match &attr.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => Some(&meta.value),
        _ => None,
    });
    let mut parts = syn::punctuated::Punctuated::<TokenStream, Token![,]>::new();
    for doc in docs {
        if !parts.is_empty() {
            parts.push(quote!("\n"));
        }
        parts.push(match doc {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
                let text = text.value();
                let text = text.strip_prefix(' ').unwrap_or(&text);
                quote!(#text)
            }
            other => quote!(#other),
        });
    }
    quote!(#fx::std::concat!(#parts))
}
