//! Functions that a graph can call: their arguments as values, and back.
//!
//! A borrowed argument is restored as its owner (`&T` as `T`, `&[T]` as `Vec<T>`, `&str` as `String`) and
//! borrowed for the call. [`Argument`] knows both directions; the rest of the crate never looks at a type
//! again.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{FnArg, Ident, Pat, Result, ReturnType, Safety, Signature, Type, parse_quote};

use crate::options::{argument_of, at, is_named, peel};

/// How an argument is passed; the type is what is restored.
enum Pass {
    Owned(Type),
    Borrowed(Type),
    Slice(Type),
    Str,
    Optional(Box<Pass>),
}

/// One argument of a function.
pub(crate) struct Argument {
    /// Its name.
    pub(crate) ident: Ident,
    /// Its type as written.
    pub(crate) ty: Type,
    pass: Pass,
}

/// Reads the arguments and the type of the result, and refuses what a graph cannot call; `what` names the
/// function in messages.
pub(crate) fn read(signature: &Signature, what: &str) -> Result<(Vec<Argument>, Type)> {
    if let Some(token) = &signature.constness {
        return Err(syn::Error::new(
            token.span,
            format!("{what} cannot be `const`, because it records operations"),
        ));
    }
    if let Some(token) = &signature.asyncness {
        let message =
            format!("{what} cannot be `async`: a graph runs from start to end; await outside of it");
        return Err(syn::Error::new(token.span, message));
    }
    if let Safety::Unsafe(token) = &signature.safety {
        let message =
            format!("{what} cannot be `unsafe`, because a graph calls it; put the `unsafe` block inside");
        return Err(syn::Error::new(token.span, message));
    }
    if let Some(abi) = &signature.abi {
        return Err(syn::Error::new_spanned(
            abi,
            format!("{what} cannot be `extern`; wrap the foreign call in it"),
        ));
    }
    if let Some(parameter) = signature.generics.params.first() {
        let message =
            format!("{what} cannot be generic, because a graph calls one function; write the types out");
        return Err(syn::Error::new_spanned(parameter, message));
    }
    if let Some(clause) = &signature.generics.where_clause {
        return Err(syn::Error::new_spanned(
            clause,
            format!("{what} cannot be generic; remove the `where` clause"),
        ));
    }
    let mut arguments = Vec::new();
    for input in &signature.inputs {
        if let FnArg::Typed(input) = input {
            arguments.push(Argument::read(&input.pat, &input.ty)?);
        }
    }
    let result = match &signature.output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, ty) => {
            let advice = "the result must own its data; return `Tensor`, a tuple, a `Vec` or a `#[derive(Tree)]` struct";
            check_owned(ty, advice)?;
            (**ty).clone()
        }
    };
    Ok((arguments, result))
}

impl Argument {
    fn read(pattern: &Pat, ty: &Type) -> Result<Self> {
        let ident = match pattern {
            Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => {
                pattern.ident.clone()
            }
            _ => {
                let message = "expected a plain name, because it names the input of the graph; take the value apart inside";
                return Err(syn::Error::new_spanned(pattern, message));
            }
        };
        Ok(Argument { ident, ty: ty.clone(), pass: Pass::read(ty)? })
    }

    /// Returns the name in the graph.
    pub(crate) fn name(&self) -> String {
        self.ident.unraw().to_string()
    }

    /// Returns the type that is restored from a value.
    pub(crate) fn owned(&self, fx: &TokenStream) -> TokenStream {
        self.pass.owned(fx)
    }

    /// Returns an expression for the value of the argument, which is borrowed.
    pub(crate) fn to_value(&self, fx: &TokenStream) -> TokenStream {
        let ident = &self.ident;
        match &self.pass {
            Pass::Owned(_) => self.pass.value(&quote!(&#ident), at(&self.ty), fx),
            pass => pass.value(&quote!(#ident), at(&self.ty), fx),
        }
    }

    /// Returns whether passing the argument moves it out of its variable. Types that may or may not be `Copy`
    /// count as moved.
    pub(crate) fn is_moved(&self) -> bool {
        matches!(self.pass, Pass::Owned(_))
            && !is_named(&self.ty, &["bool", "f32", "f64", "i32", "i64", "usize"])
    }

    /// Returns an expression that passes the variable `owner`, of the restored type.
    pub(crate) fn pass(&self, owner: &Ident) -> TokenStream {
        match &self.pass {
            Pass::Owned(_) => quote!(#owner),
            Pass::Borrowed(_) => quote!(&#owner),
            Pass::Slice(_) => quote!(#owner.as_slice()),
            Pass::Str => quote!(#owner.as_str()),
            Pass::Optional(inner) => match **inner {
                Pass::Borrowed(_) => quote!(#owner.as_ref()),
                _ => quote!(#owner.as_deref()),
            },
        }
    }

    /// Returns the kind of a parameter of this type.
    pub(crate) fn kind(&self) -> &'static str {
        self.pass.kind()
    }
}

impl Pass {
    fn read(ty: &Type) -> Result<Self> {
        if let Some(pass) = Pass::read_reference(ty)? {
            return Ok(pass);
        }
        if let Some(Some(pass)) = argument_of(ty, "Option").map(Pass::read_reference).transpose()? {
            return Ok(Pass::Optional(Box::new(pass)));
        }
        check_owned(ty, OWNED)?;
        Ok(Pass::Owned(ty.clone()))
    }

    fn read_reference(ty: &Type) -> Result<Option<Self>> {
        let Type::Reference(reference) = peel(ty) else { return Ok(None) };
        if let Some(token) = &reference.mutability {
            let message = "an argument cannot be changed in place, because a graph has values only; return the new value";
            return Err(syn::Error::new(token.span, message));
        }
        Ok(Some(match peel(&reference.elem) {
            Type::Slice(slice) => {
                check_owned(&slice.elem, OWNED)?;
                Pass::Slice((*slice.elem).clone())
            }
            elem if is_named(elem, &["str"]) => Pass::Str,
            elem => {
                check_owned(elem, OWNED)?;
                Pass::Borrowed(elem.clone())
            }
        }))
    }

    fn owned(&self, fx: &TokenStream) -> TokenStream {
        let std = quote!(#fx::std);
        match self {
            Pass::Owned(ty) | Pass::Borrowed(ty) => quote!(#ty),
            Pass::Slice(elem) => quote!(#std::vec::Vec<#elem>),
            Pass::Str => quote!(#std::string::String),
            Pass::Optional(inner) => {
                let inner = inner.owned(fx);
                quote!(#std::option::Option<#inner>)
            }
        }
    }

    /// Returns an expression for the value of `place`, a reference (or an `Option` of one).
    fn value(&self, place: &TokenStream, span: Span, fx: &TokenStream) -> TokenStream {
        match self {
            Pass::Owned(ty) | Pass::Borrowed(ty) => {
                quote_spanned!(span=> <#ty as #fx::Tree>::to_value(#place))
            }
            Pass::Slice(elem) => quote_spanned!(span=> #fx::list::<#elem>(#place)),
            Pass::Str => quote_spanned!(span=> #fx::Arg::str(#place)),
            Pass::Optional(inner) => {
                let some = Ident::new("__some", Span::mixed_site());
                let value = inner.value(&quote!(#some), span, fx);
                quote_spanned!(span=> #place.map_or(#fx::Arg::None, |#some| #value))
            }
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Pass::Owned(ty) | Pass::Borrowed(ty) => kind(ty),
            Pass::Slice(elem) => kind_of_list(elem),
            Pass::Str => "Str",
            Pass::Optional(inner) => optional(inner.kind()),
        }
    }
}

fn kind(ty: &Type) -> &'static str {
    if let Type::Array(array) = peel(ty) {
        return kind_of_list(&array.elem);
    }
    if let Some(elem) = argument_of(ty, "Vec") {
        return kind_of_list(elem);
    }
    if let Some(inner) = argument_of(ty, "Option") {
        return optional(kind(inner));
    }
    const KINDS: [(&[&str], &str); 5] = [
        (&["Tensor"], "Tensor"),
        (&["f64", "f32"], "Float"),
        (&["i64", "i32", "usize"], "Int"),
        (&["bool"], "Bool"),
        (&["String"], "Str"),
    ];
    KINDS.iter().find(|(names, _)| is_named(ty, names)).map_or("Any", |(_, kind)| kind)
}

fn kind_of_list(elem: &Type) -> &'static str {
    match kind(elem) {
        "Tensor" => "Tensors",
        "Int" if is_named(elem, &["i64"]) => "Ints",
        _ => "Any",
    }
}

fn optional(kind: &'static str) -> &'static str {
    match kind {
        "Tensor" => "OptTensor",
        "Int" => "OptInt",
        "Float" => "OptFloat",
        "Ints" => "OptInts",
        _ => "Any",
    }
}

const OWNED: &str = "only a whole argument may be borrowed: `&T`, `&[T]`, `&str` or `Option<&T>`";

/// Refuses types that cannot be restored from a value, with the advice for borrows.
fn check_owned(ty: &Type, advice: &str) -> Result<()> {
    struct Search<'a>(&'a str, Result<()>);
    impl Visit<'_> for Search<'_> {
        fn visit_type(&mut self, ty: &Type) {
            let error = match ty {
                Type::Reference(reference) => Some((reference.and_token.span, self.0)),
                Type::ImplTrait(ty) => Some((ty.span(), "`impl Trait` hides the type; write it out")),
                Type::TraitObject(ty) => {
                    Some((ty.span(), "a `dyn` type cannot be restored from a value; name the type"))
                }
                Type::Slice(ty) => Some((ty.span(), "a slice has no known size here; use `Vec`")),
                Type::Infer(ty) => Some((ty.span(), "`_` hides the type; write it out")),
                _ => None,
            };
            match error {
                Some((span, message)) if self.1.is_ok() => self.1 = Err(syn::Error::new(span, message)),
                _ => visit::visit_type(self, ty),
            }
        }
    }
    let mut search = Search(advice, Ok(()));
    search.visit_type(ty);
    search.1
}

/// Makes the statements that restore the arguments from the slice `values`, and the variables they end up in;
/// `function` names the function in errors.
pub(crate) fn restore(
    arguments: &[Argument],
    values: &Ident,
    function: &str,
    fx: &TokenStream,
) -> (TokenStream, Vec<Ident>) {
    let variables: Vec<Ident> =
        (0..arguments.len()).map(|i| format_ident!("__argument{i}", span = Span::mixed_site())).collect();
    let restored = arguments.iter().zip(&variables).map(|(argument, variable)| {
        let (name, owned) = (argument.name(), argument.owned(fx));
        quote_spanned!(at(&argument.ty)=> let #variable = #fx::argument::<#owned>(#name, #variable)?;)
    });
    let statements = quote! {
        let [#(#variables),*] = #fx::arguments(#function, #values)?;
        #(#restored)*
    };
    (statements, variables)
}
