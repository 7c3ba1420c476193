//! What every macro shares: its options, the path by which generated code names fx, and questions about types.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, GenericArgument, Ident, LitStr, Path, PathArguments, Result, Type, TypePath};

/// The options that were read so far: each may be given once.
pub(crate) struct Options {
    seen: Vec<String>,
    known: &'static str,
}

impl Options {
    /// `known` lists the options in messages.
    pub(crate) fn new(known: &'static str) -> Self {
        Options { seen: Vec::new(), known }
    }

    /// Returns the option's name; that it was given before is an error.
    pub(crate) fn key(&mut self, meta: &ParseNestedMeta<'_>) -> Result<String> {
        let key = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
        if self.seen.contains(&key) {
            return Err(meta.error(format!("`{key}` is given twice; remove one")));
        }
        self.seen.push(key.clone());
        Ok(key)
    }

    /// Returns the error of an option that does not exist here.
    pub(crate) fn unknown(&self, meta: &ParseNestedMeta<'_>) -> syn::Error {
        meta.error(format!("unknown option; expected {}", self.known))
    }
}

/// Reads the path of `crate = path`.
pub(crate) fn crate_path(meta: &ParseNestedMeta<'_>) -> Result<Path> {
    meta.value()?.call(Path::parse_mod_style)
}

/// Returns the path by which generated code names everything: `::fx::__private`, unless `crate = path` was given.
pub(crate) fn private(crate_path: Option<&Path>) -> TokenStream {
    match crate_path {
        Some(path) => quote!(#path::__private),
        None => quote!(::fx::__private),
    }
}

/// Returns the `#[cfg]` attributes: generated items must vanish together with what they were made from.
pub(crate) fn cfg_attributes(attrs: &[Attribute]) -> Vec<&Attribute> {
    attrs.iter().filter(|attr| attr.path().is_ident("cfg")).collect()
}

/// Returns where the type stands, so that its missing traits are reported there, with names resolved as in
/// the macro.
pub(crate) fn at(ty: &Type) -> Span {
    ty.span().resolved_at(Span::call_site())
}

/// Adds an error to those found before, so that all are reported at once.
pub(crate) fn collect(errors: &mut Option<syn::Error>, error: syn::Error) {
    match errors {
        Some(errors) => errors.combine(error),
        None => *errors = Some(error),
    }
}

/// Removes parentheses and the invisible groups that `macro_rules!` leaves around types.
pub(crate) fn peel(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => peel(&group.elem),
        Type::Paren(paren) => peel(&paren.elem),
        _ => ty,
    }
}

/// Returns the last name of a path type and its only type argument, if it has one.
pub(crate) fn named(ty: &Type) -> Option<(&Ident, Option<&Type>)> {
    let Type::Path(TypePath { qself: None, path, .. }) = peel(ty) else { return None };
    let last = path.segments.last()?;
    match &last.arguments {
        PathArguments::None => Some((&last.ident, None)),
        PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
            Some(GenericArgument::Type(argument)) if arguments.args.len() == 1 => {
                Some((&last.ident, Some(argument)))
            }
            _ => None,
        },
        PathArguments::Parenthesized(_) => None,
    }
}

/// Returns whether the type is written as this plain name.
pub(crate) fn is_named(ty: &Type, names: &[&str]) -> bool {
    matches!(named(ty), Some((ident, None)) if names.iter().any(|name| ident == name))
}

/// Returns `T` if the type is written as `name<T>`.
pub(crate) fn argument_of<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    match named(ty) {
        Some((ident, Some(argument))) if ident == name => Some(argument),
        _ => None,
    }
}

/// Returns whether the type parameter stands somewhere in the type as a type of its own, not as `T::Item`.
pub(crate) fn mentions(ty: &Type, parameter: &Ident) -> bool {
    struct Search<'a>(&'a Ident, bool);
    impl Visit<'_> for Search<'_> {
        fn visit_type_path(&mut self, ty: &TypePath) {
            let is_it = |segment: &syn::PathSegment| segment.ident == *self.0;
            self.1 |= ty.qself.is_none() && ty.path.segments.len() == 1 && ty.path.segments.iter().any(is_it);
            visit::visit_type_path(self, ty);
        }
    }
    let mut search = Search(parameter, false);
    search.visit_type(ty);
    search.1
}

/// Reads the path inside the string of `key = "path"`.
pub(crate) fn path_in_string(meta: &ParseNestedMeta<'_>) -> Result<Path> {
    let value = meta.value()?;
    let advice = "expected the path of a function in quotes, such as \"Self::describe\"";
    let text: LitStr = value.parse().map_err(|error| syn::Error::new(error.span(), advice))?;
    text.parse_with(Path::parse_mod_style).map_err(|_| syn::Error::new(text.span(), advice))
}
