//! `#[fx::script]`: Rust control flow that may depend on symbols.
//!
//! The text of the function stays in place, with calls of `fx::__private::script` around each `if` and each
//! loop; see there for what happens at run time. [`scope`] finds the variables that a piece may change,
//! [`rewrite`] walks over the body, the other files put the calls in.

mod branches;
mod exits;
mod loops;
mod rewrite;
mod scope;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::Parser;
use syn::{Block, ImplItemFn, ItemImpl, Path, Result, ReturnType, Safety, Type, parse_quote};

use crate::options::{Options, crate_path, private};

/// Expands `#[fx::script]`; if that fails, the body of the function is the errors, so that nothing else is
/// reported.
pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    let path = read_options(options);
    let method = syn::parse2::<ImplItemFn>(item.clone()).map_err(|error| {
        match syn::parse2::<ItemImpl>(item.clone()) {
            Ok(block) => {
                let message = "#[fx::script] goes on a function; on this block, write #[fx::forward(script)]";
                syn::Error::new(block.impl_token.span, message)
            }
            Err(_) => syn::Error::new(
                error.span(),
                format!("#[fx::script] goes on a function with a body: {error}"),
            ),
        }
    });
    match (path, method) {
        (Ok(path), Ok(mut method)) => {
            apply(&mut method, path.as_ref());
            method.into_token_stream()
        }
        (Err(error), _) | (_, Err(error)) => {
            let error = error.into_compile_error();
            quote!(#item #error)
        }
    }
}

/// Makes the body of a function that of a script, or its errors.
pub(crate) fn apply(method: &mut ImplItemFn, path: Option<&Path>) {
    if let Err(error) = rewrite(method, path) {
        let error = error.into_compile_error();
        method.block = parse_quote!({ #error });
        method
            .attrs
            .push(parse_quote!(#[allow(unused_variables, unused_mut, reason = "the body is not compiled")]));
    }
}

fn read_options(options: TokenStream) -> Result<Option<Path>> {
    let mut path = None;
    let mut known = Options::new("`crate = path`");
    syn::meta::parser(|meta| {
        match known.key(&meta)?.as_str() {
            "crate" => path = Some(crate_path(&meta)?),
            _ => return Err(known.unknown(&meta)),
        }
        Ok(())
    })
    .parse2(options)?;
    Ok(path)
}

/// Puts the calls into the body of a function.
fn rewrite(method: &mut ImplItemFn, path: Option<&Path>) -> Result<()> {
    let signature = &method.sig;
    if let Some(token) = &signature.constness {
        return Err(syn::Error::new(token.span, "a script cannot be `const`, because it records operations"));
    }
    if let Some(token) = &signature.asyncness {
        let message = "a script cannot be `async`: a graph runs from start to end; await outside of it";
        return Err(syn::Error::new(token.span, message));
    }
    if let Safety::Unsafe(token) = &signature.safety {
        let message = "a script cannot be `unsafe`; put an `unsafe` block inside";
        return Err(syn::Error::new(token.span, message));
    }
    let result: Type = match &signature.output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, ty) => {
            if let Type::ImplTrait(ty) = &**ty {
                let message = "`impl Trait` hides the type of the result; write it out";
                return Err(syn::Error::new_spanned(ty, message));
            }
            (**ty).clone()
        }
    };
    let fx = private(path);
    let body: Block = rewrite::body(&method.block, &method.sig.inputs, &result, &fx)?;
    method.block = body;
    Ok(())
}
