//! `#[fx::forward]`: the call of a module from its method `forward`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::parse::Parser;
use syn::{Ident, ImplItem, ImplItemFn, ItemImpl, Path, ReceiverKind, Result, Signature, parse_quote};

use crate::options::{Options, cfg_attributes, crate_path, private};
use crate::script;
use crate::signature::{self, Argument};

/// Expands `#[fx::forward]`; if that fails, the block stays as it was, so that the rest of the crate sees its
/// methods.
pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    try_expand(options, item.clone()).unwrap_or_else(|error| {
        let error = error.into_compile_error();
        quote!(#item #error)
    })
}

fn try_expand(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let Settings { path, is_script } = read_options(options)?;
    let fx = private(path.as_ref());
    let mut block: ItemImpl = syn::parse2(item).map_err(|error| {
        syn::Error::new(
            error.span(),
            format!("#[fx::forward] goes on `impl Type {{ fn forward(&self, ..) .. }}`: {error}"),
        )
    })?;
    if let Some((path, _)) = &block.trait_ {
        let message =
            "expected `impl Type`, because #[fx::forward] implements `Forward` itself; remove the trait";
        return Err(syn::Error::new_spanned(path, message));
    }
    let method = find(&block)?;
    check_receiver(&method.sig)?;
    let (arguments, result) = signature::read(&method.sig, "`forward`")?;
    let call = call(method, &arguments, &result, has_type_parameters(&block), &fx);
    let tracked = method.attrs.iter().any(|attribute| attribute.path().is_ident("track_caller"));
    let forward = implementation(&block, &arguments, &result, tracked, &fx);
    let scripted = block.items.iter_mut().filter(|_| is_script);
    for item in scripted {
        if let ImplItem::Fn(method) = item
            && method.sig.ident == "forward"
        {
            script::apply(method, path.as_ref());
        }
    }
    block.items.push(ImplItem::Fn(call));
    Ok(quote!(#block #forward))
}

/// What the options say.
#[derive(Default)]
struct Settings {
    path: Option<Path>,
    /// Whether the body of `forward` is a script.
    is_script: bool,
}

fn read_options(options: TokenStream) -> Result<Settings> {
    let mut settings = Settings::default();
    let mut known = Options::new("`script` or `crate = path`");
    syn::meta::parser(|meta| {
        match known.key(&meta)?.as_str() {
            "crate" => settings.path = Some(crate_path(&meta)?),
            "script" => settings.is_script = true,
            _ => return Err(known.unknown(&meta)),
        }
        Ok(())
    })
    .parse2(options)?;
    Ok(settings)
}

/// Returns the method `forward`.
fn find(block: &ItemImpl) -> Result<&ImplItemFn> {
    let methods = || {
        block
            .items
            .iter()
            .filter_map(|item| if let ImplItem::Fn(method) = item { Some(method) } else { None })
    };
    if let Some(call) = methods().find(|method| method.sig.ident == "call") {
        let message =
            "#[fx::forward] adds the method `call`, which runs `forward` as a module; rename this one";
        return Err(syn::Error::new(call.sig.ident.span(), message));
    }
    methods().find(|method| method.sig.ident == "forward").ok_or_else(|| {
        let message =
            "expected the method `fn forward(&self, ..)` in this block; it is what a call of the module runs";
        syn::Error::new_spanned(&block.self_ty, message)
    })
}

fn check_receiver(signature: &Signature) -> Result<()> {
    let Some(receiver) = signature.receiver() else {
        return Err(syn::Error::new(
            signature.ident.span(),
            "`forward` needs `&self`: it is the call of a module",
        ));
    };
    let message = match &receiver.kind {
        ReceiverKind::Reference(_, None, None) => return Ok(()),
        ReceiverKind::Reference(_, _, Some(_)) => {
            "`forward` takes `&self`; keep what it changes in a `Buffer`"
        }
        ReceiverKind::Reference(_, Some(_), _) => {
            "`forward` takes `&self` without a lifetime: its result owns its data"
        }
        _ => "`forward` takes `&self`: a module is called many times",
    };
    Err(syn::Error::new_spanned(receiver, message))
}

fn has_type_parameters(block: &ItemImpl) -> bool {
    block.generics.type_params().next().is_some()
}

/// Makes `call`: `forward` with its arguments at hand as values, should the trace want them.
///
/// The closure that makes the values borrows the arguments, while `forward` may move them; so the value of an
/// argument that would be moved is made first. `call` runs `forward` itself and not in a closure, which would
/// hide the caller from a `forward` that is `#[track_caller]`.
fn call(
    method: &ImplItemFn,
    arguments: &[Argument],
    result: &syn::Type,
    generic: bool,
    fx: &TokenStream,
) -> ImplItemFn {
    let (vis, output) = (&method.vis, &method.sig.output);
    let attributes = cfg_attributes(&method.attrs);
    let idents: Vec<&Ident> = arguments.iter().map(|argument| &argument.ident).collect();
    let types = arguments.iter().map(|argument| &argument.ty);
    let mut early = TokenStream::new();
    let mut values = Vec::new();
    for argument in arguments {
        let value = argument.to_value(fx);
        if argument.is_moved() {
            let variable = format_ident!("__{}", argument.name(), span = Span::mixed_site());
            early.extend(quote!(let #variable = #value;));
            values.push(quote!(#variable));
        } else {
            values.push(value);
        }
    }
    let recorded = Ident::new("__result", Span::mixed_site());
    let frame = Ident::new("_frame", Span::mixed_site());
    let bound = generic.then(|| quote!(where Self: #fx::Module));
    parse_quote! {
        /// Calls [`forward`](Self::forward) as a module: a trace knows the path, and a leaf becomes one node.
        #(#attributes)*
        #[track_caller]
        #[allow(dead_code, clippy::too_many_arguments, reason = "a module may only be traced; its arguments are the user's")]
        #vis fn call(&self, #(#idents: #types),*) #output #bound {
            #early
            match #fx::call_module::<#result>(self, move || #fx::std::vec![#(#values),*]) {
                #fx::ModuleCall::Recorded(#recorded) => #recorded,
                #fx::ModuleCall::Through(#frame) => self.forward(#(#idents),*),
            }
        }
    }
}

fn implementation(
    block: &ItemImpl,
    arguments: &[Argument],
    result: &syn::Type,
    tracked: bool,
    fx: &TokenStream,
) -> TokenStream {
    let self_type = &block.self_ty;
    let attributes = cfg_attributes(&block.attrs);
    let mut generics = block.generics.clone();
    if has_type_parameters(block) {
        generics.make_where_clause().predicates.push(parse_quote!(#self_type: #fx::Module));
    }
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let inputs = arguments.iter().map(|argument| {
        let (name, owned) = (argument.name(), argument.owned(fx));
        quote!(#fx::InputDecl::of::<#owned>(#name))
    });
    let values = Ident::new("__values", Span::mixed_site());
    let (restore, variables) = signature::restore(arguments, &values, "forward", fx);
    let passed = arguments.iter().zip(&variables).map(|(argument, variable)| argument.pass(variable));
    let tracked = tracked.then(|| {
        quote! {
            fn tracked(&self) -> #fx::std::option::Option<#fx::SourceLoc> {
                #fx::std::option::Option::Some(#fx::SourceLoc::caller())
            }
        }
    });
    quote! {
        #(#attributes)*
        #[automatically_derived]
        impl #impl_generics #fx::Forward for #self_type #where_clause {
            fn inputs(&self) -> #fx::std::vec::Vec<#fx::InputDecl> {
                #fx::std::vec![#(#inputs),*]
            }
            fn output(&self) -> #fx::Result<#fx::Arg<()>> {
                <#result as #fx::Tree>::structure()
            }
            fn forward_values(&self, #values: &[#fx::Value]) -> #fx::Result<#fx::Value> {
                #restore
                #fx::result::<#result>(&self.forward(#(#passed),*))
            }
            #tracked
            fn as_module(&self) -> &dyn #fx::Module {
                self
            }
            fn as_module_mut(&mut self) -> &mut dyn #fx::Module {
                self
            }
        }
    }
}
