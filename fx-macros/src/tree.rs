//! `#[derive(Tree)]`: a struct as a dictionary of its fields, or as a tuple.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Fields, FieldsNamed, FieldsUnnamed, Ident, Result, Type, parse_quote};

use crate::options::{Options, at, collect, crate_path, mentions, private};

/// The bodies of the four functions of `Tree`.
struct Bodies {
    structure: TokenStream,
    to_value: TokenStream,
    from_value: TokenStream,
    failed: TokenStream,
}

/// Expands `#[derive(Tree)]`.
pub(crate) fn derive(input: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    let mut errors = None;
    let mut path = None;
    let mut options = Options::new("`crate = path`");
    for attr in input.attrs.iter().filter(|attr| attr.path().is_ident("tree")) {
        let read = attr.parse_nested_meta(|meta| {
            match options.key(&meta)?.as_str() {
                "crate" => path = Some(crate_path(&meta)?),
                _ => return Err(options.unknown(&meta)),
            }
            Ok(())
        });
        if let Err(error) = read {
            collect(&mut errors, error);
        }
    }
    if let Some(lifetime) = input.generics.lifetimes().next() {
        let message = "a tree cannot borrow, because it is restored from the values of a graph; own the data";
        collect(&mut errors, syn::Error::new(lifetime.span(), message));
    }
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        Data::Enum(data) => {
            let message = "an enum cannot be a tree, because its structure depends on its value; \
                           use a struct, with an `Option` for what may be absent";
            collect(&mut errors, syn::Error::new(data.enum_token.span, message));
            &Fields::Unit
        }
        Data::Union(data) => {
            let message = "a union cannot be a tree, because its active field is not known; use a struct";
            collect(&mut errors, syn::Error::new(data.union_token.span, message));
            &Fields::Unit
        }
    };
    for attr in fields.iter().flat_map(|field| &field.attrs).filter(|attr| attr.path().is_ident("tree")) {
        let message = "a field takes no `tree` options; every field is part of the structure";
        collect(&mut errors, syn::Error::new_spanned(attr, message));
    }
    if let Some(errors) = errors {
        return Err(errors);
    }
    let fx = private(path.as_ref());
    let bodies = match fields {
        Fields::Named(fields) if !fields.named.is_empty() => dictionary(&input.ident, fields, &fx),
        Fields::Unnamed(fields) if !fields.unnamed.is_empty() => tuple(&input.ident, fields, &fx),
        _ => unit(&fx),
    };
    Ok(expand(&input, fields, &fx, &bodies))
}

fn expand(input: &DeriveInput, fields: &Fields, fx: &TokenStream, bodies: &Bodies) -> TokenStream {
    let ident = &input.ident;
    let mut generics = input.generics.clone();
    for parameter in input.generics.type_params().map(|parameter| &parameter.ident) {
        if fields.iter().any(|field| mentions(&field.ty, parameter)) {
            generics.make_where_clause().predicates.push(parse_quote!(#parameter: #fx::Tree));
        }
    }
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let Bodies { structure, to_value, from_value, failed } = bodies;
    let takes_symbols = fields.iter().map(|field| {
        let ty = &field.ty;
        quote_spanned!(at(ty)=> && <#ty as #fx::Tree>::takes_symbols())
    });
    quote! {
        #[automatically_derived]
        impl #impl_generics #fx::Tree for #ident #type_generics #where_clause {
            fn structure() -> #fx::Result<#fx::Arg<()>> {
                #fx::std::result::Result::Ok(#structure)
            }
            fn takes_symbols() -> bool {
                true #(#takes_symbols)*
            }
            fn to_value(&self) -> #fx::Value {
                #to_value
            }
            fn from_value(__value: &#fx::Value) -> #fx::Result<Self> {
                #from_value
            }
            fn failed(__error: &#fx::Error) -> Self {
                #failed
            }
        }
    }
}

fn dictionary(ident: &Ident, fields: &FieldsNamed, fx: &TokenStream) -> Bodies {
    let type_name = ident.unraw().to_string();
    let each = |make: &dyn Fn(&Ident, &Type, String) -> TokenStream| -> Vec<TokenStream> {
        let named =
            fields.named.iter().filter_map(|field| field.ident.as_ref().map(|ident| (ident, &field.ty)));
        named.map(|(ident, ty)| make(ident, ty, ident.unraw().to_string())).collect()
    };
    let structures = each(&|_, ty, name| quote_spanned!(at(ty)=> (#name, <#ty as #fx::Tree>::structure()?)));
    let values =
        each(&|field, ty, name| quote_spanned!(at(ty)=> (#name, <#ty as #fx::Tree>::to_value(&self.#field))));
    let restored = each(
        &|field, ty, name| quote_spanned!(at(ty)=> #field: #fx::tree::field::<#ty>(__value, #type_name, #name)?),
    );
    let failed = each(&|field, ty, _| quote_spanned!(at(ty)=> #field: <#ty as #fx::Tree>::failed(__error)));
    Bodies {
        structure: quote!(#fx::Arg::dict([#(#structures),*])),
        to_value: quote!(#fx::Arg::dict([#(#values),*])),
        from_value: quote!(#fx::std::result::Result::Ok(Self { #(#restored),* })),
        failed: quote!(Self { #(#failed),* }),
    }
}

fn tuple(ident: &Ident, fields: &FieldsUnnamed, fx: &TokenStream) -> Bodies {
    let type_name = ident.unraw().to_string();
    let types: Vec<&Type> = fields.unnamed.iter().map(|field| &field.ty).collect();
    let indices = (0..types.len()).map(syn::Index::from);
    let items: Vec<Ident> =
        (0..types.len()).map(|i| format_ident!("__item{i}", span = Span::mixed_site())).collect();
    let structures = types.iter().map(|ty| quote_spanned!(at(ty)=> <#ty as #fx::Tree>::structure()?));
    let values = types
        .iter()
        .zip(indices)
        .map(|(ty, index)| quote_spanned!(at(ty)=> <#ty as #fx::Tree>::to_value(&self.#index)));
    let restored = types
        .iter()
        .zip(&items)
        .map(|(ty, item)| quote_spanned!(at(ty)=> <#ty as #fx::Tree>::from_value(#item)?));
    let failed = types.iter().map(|ty| quote_spanned!(at(ty)=> <#ty as #fx::Tree>::failed(__error)));
    Bodies {
        structure: quote!(#fx::Arg::tuple([#(#structures),*])),
        to_value: quote!(#fx::Arg::tuple([#(#values),*])),
        from_value: quote! {
            let [#(#items),*] = #fx::items(__value, #type_name)?;
            #fx::std::result::Result::Ok(Self(#(#restored),*))
        },
        failed: quote!(Self(#(#failed),*)),
    }
}

fn unit(fx: &TokenStream) -> Bodies {
    Bodies {
        structure: quote!(#fx::Arg::tuple([])),
        to_value: quote!(#fx::Arg::tuple([])),
        from_value: quote! {
            <() as #fx::Tree>::from_value(__value)?;
            #fx::std::result::Result::Ok(Self {})
        },
        failed: quote! {
            let _ = __error;
            Self {}
        },
    }
}
