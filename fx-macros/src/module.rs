//! `#[derive(Module)]`: the structure of a model from the fields of a type.
//!
//! A struct is treated as an enum of one variant, and a tuple field as a field named by its position, so that
//! there is one way to match (`Self::A { 0: x, .. }`) for every shape of type.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Fields, GenericArgument, Generics, Ident, LitStr, Member, Path,
    PathArguments, Result, Type, WherePredicate, parse_quote,
};

use crate::options::{Options, at, collect, crate_path, is_named, mentions, path_in_string, private};

/// The options of the type.
#[derive(Default)]
struct Container {
    leaf: bool,
    impure: Option<Impure>,
    no_load: bool,
    repr: Option<Path>,
    crate_path: Option<Path>,
}

/// When a call has an effect.
enum Impure {
    Always,
    /// If this function of the module says so.
    If(Path),
}

/// What a field is to its module.
enum Role {
    /// A member of this name.
    Member(String),
    /// Plain data.
    Skipped,
    /// The training flag.
    Training,
}

struct Field {
    member: Member,
    ty: Type,
    role: Role,
    binding: Ident,
}

struct Variant {
    /// `Self` or `Self::A`.
    path: TokenStream,
    fields: Vec<Field>,
}

/// Expands `#[derive(Module)]`.
pub(crate) fn derive(input: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    let mut errors = None;
    let container = Container::read(&input.attrs).unwrap_or_else(|error| {
        collect(&mut errors, error);
        Container::default()
    });
    if let Some(lifetime) = input.generics.lifetimes().next() {
        let message = "a module cannot borrow, because a traced graph outlives the call; own the data or share it in an `Arc`";
        collect(&mut errors, syn::Error::new(lifetime.span(), message));
    }
    let mut variants = Vec::new();
    match &input.data {
        Data::Struct(data) => variants.push(Variant::read(quote!(Self), &data.fields, &mut errors)),
        Data::Enum(data) => {
            for variant in &data.variants {
                if let Some(attr) = module_attributes(&variant.attrs).next() {
                    let message = "a variant takes no `module` options; put them on the enum or on a field";
                    collect(&mut errors, syn::Error::new_spanned(attr, message));
                }
                let ident = &variant.ident;
                variants.push(Variant::read(quote!(Self::#ident), &variant.fields, &mut errors));
            }
        }
        Data::Union(data) => {
            let message = "a union cannot be a module, because its active field is not known; use an enum";
            collect(&mut errors, syn::Error::new(data.union_token.span, message));
        }
    }
    match errors {
        Some(errors) => Err(errors),
        None => Ok(expand(&input, &container, &variants)),
    }
}

fn module_attributes(attrs: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attrs.iter().filter(|attr| attr.path().is_ident("module"))
}

impl Container {
    fn read(attrs: &[Attribute]) -> Result<Self> {
        let mut container = Container::default();
        let mut options = Options::new(
            "`leaf`, `impure`, `impure = \"function\"`, `no_load`, `repr = \"function\"` or `crate = path`",
        );
        for attr in module_attributes(attrs) {
            attr.parse_nested_meta(|meta| {
                match options.key(&meta)?.as_str() {
                    "leaf" => container.leaf = true,
                    "impure" if meta.input.peek(syn::Token![=]) => {
                        container.impure = Some(Impure::If(path_in_string(&meta)?));
                    }
                    "impure" => container.impure = Some(Impure::Always),
                    "no_load" => container.no_load = true,
                    "repr" => container.repr = Some(path_in_string(&meta)?),
                    "crate" => container.crate_path = Some(crate_path(&meta)?),
                    key @ ("skip" | "rename" | "training") => {
                        return Err(meta.error(format!("`{key}` is an option of a field; move it there")));
                    }
                    _ => return Err(options.unknown(&meta)),
                }
                Ok(())
            })?;
        }
        Ok(container)
    }
}

impl Variant {
    /// Reads the fields; mistakes are added to `errors`.
    fn read(path: TokenStream, fields: &Fields, errors: &mut Option<syn::Error>) -> Self {
        let mut out: Vec<Field> = Vec::new();
        for (index, (field, member)) in fields.iter().zip(fields.members()).enumerate() {
            let (role, span) = match read_role(field, &member) {
                Ok(read) => read,
                Err(error) => {
                    collect(errors, error);
                    continue;
                }
            };
            let repeated = out.iter().find(|other| match (&other.role, &role) {
                (Role::Member(a), Role::Member(b)) => a == b,
                (Role::Training, Role::Training) => true,
                _ => false,
            });
            match (repeated, &role) {
                (Some(other), Role::Member(name)) => {
                    let message =
                        format!("`{}` is named {name:?} already; rename one of them", show(&other.member));
                    collect(errors, syn::Error::new(span, message));
                }
                (Some(other), _) => {
                    let message =
                        format!("`{}` is the training flag already; a module has one", show(&other.member));
                    collect(errors, syn::Error::new(span, message));
                }
                (None, _) => {}
            }
            let binding = format_ident!("__field{index}", span = Span::mixed_site());
            out.push(Field { member, ty: field.ty.clone(), role, binding });
        }
        Variant { path, fields: out }
    }

    fn members(&self) -> impl Iterator<Item = (&Field, &str)> {
        self.fields.iter().filter_map(|field| match &field.role {
            Role::Member(name) => Some((field, name.as_str())),
            _ => None,
        })
    }
}

/// Returns the name of a field in the source.
fn show(member: &Member) -> String {
    match member {
        Member::Named(ident) => ident.unraw().to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}

/// Reads the options of a field; the span is where its role was given.
fn read_role(field: &syn::Field, member: &Member) -> Result<(Role, Span)> {
    let (mut skip, mut rename, mut training) = (None, None, None);
    let mut options = Options::new("`skip`, `rename = \"name\"` or `training`");
    for attr in module_attributes(&field.attrs) {
        attr.parse_nested_meta(|meta| {
            let span = meta.path.span();
            match options.key(&meta)?.as_str() {
                "skip" => skip = Some(span),
                "training" => training = Some(span),
                "rename" => {
                    let name: LitStr = meta.value()?.parse()?;
                    check_name(&name)?;
                    rename = Some(name);
                }
                key @ ("leaf" | "impure" | "no_load" | "repr" | "crate") => {
                    return Err(
                        meta.error(format!("`{key}` is an option of the whole type; move it above the type"))
                    );
                }
                _ => return Err(options.unknown(&meta)),
            }
            Ok(())
        })?;
    }
    if let (Some(span), Some(_)) = (skip, training) {
        return Err(syn::Error::new(span, "a training flag is skipped anyway; remove `skip`"));
    }
    if let (Some(name), true) = (&rename, skip.or(training).is_some()) {
        return Err(syn::Error::new(
            name.span(),
            "a skipped field has no name in the module; remove `rename`",
        ));
    }
    if training.is_some() && !is_named(&field.ty, &["bool"]) {
        return Err(syn::Error::new_spanned(&field.ty, "a training flag must be a `bool`"));
    }
    Ok(match (skip, training, rename) {
        (Some(span), _, _) => (Role::Skipped, span),
        (_, Some(span), _) => (Role::Training, span),
        (_, _, Some(name)) => (Role::Member(name.value()), name.span()),
        _ => (Role::Member(show(member)), member.span()),
    })
}

/// Checks that a name consists of identifiers and numbers between dots.
fn check_name(name: &LitStr) -> Result<()> {
    let part = |part: &str| {
        let number = part.bytes().all(|c| c.is_ascii_digit());
        let identifier = !part.starts_with(|c: char| c.is_numeric())
            && part.chars().all(|c| c == '_' || c.is_alphanumeric());
        !part.is_empty() && (number || identifier)
    };
    let text = name.value();
    if text.split('.').all(part) {
        return Ok(());
    }
    let message = format!(
        "expected names or numbers between dots, such as \"self.query\" or \"layers.0\", got {text:?}"
    );
    Err(syn::Error::new(name.span(), message))
}

/// Adds to every type parameter what a module needs of it, and that fields whose types have parameters are fields
/// of modules: a parameter that only marks a module need not be one.
fn bounded(own: &Ident, generics: &Generics, variants: &[Variant], fx: &TokenStream) -> Generics {
    let mut out = generics.clone();
    for parameter in generics.type_params() {
        let ident = &parameter.ident;
        let clause = out.make_where_clause();
        let std = quote!(#fx::std);
        clause.predicates.push(parse_quote!(
            #ident: #std::clone::Clone + #std::marker::Send + #std::marker::Sync + 'static
        ));
    }
    let parameters: Vec<&Ident> = generics.type_params().map(|parameter| &parameter.ident).collect();
    let mut bounds: Vec<WherePredicate> = Vec::new();
    for (field, _) in variants.iter().flat_map(Variant::members) {
        field_bounds(&field.ty, own, &parameters, fx, &mut bounds);
    }
    if !bounds.is_empty() {
        out.make_where_clause().predicates.extend(bounds);
    }
    out
}

/// Finds what must hold so that a type with parameters is a field of a module.
fn field_bounds(
    ty: &Type,
    own: &Ident,
    parameters: &[&Ident],
    fx: &TokenStream,
    out: &mut Vec<WherePredicate>,
) {
    /// Types that are fields if what they hold is.
    const HOLDERS: &[&str] = &["Vec", "Option", "Box", "BTreeMap", "HashMap"];
    let named: Vec<&&Ident> = parameters.iter().filter(|parameter| mentions(ty, parameter)).collect();
    if named.is_empty() {
        return;
    }
    let mut add = |bound: WherePredicate| out.push(bound);
    match ty {
        Type::Path(path) if path.qself.is_none() && !mentions(ty, own) => {
            let last = path.path.segments.last();
            let arguments = match last.map(|segment| (&segment.ident, &segment.arguments)) {
                Some((ident, PathArguments::AngleBracketed(arguments)))
                    if HOLDERS.iter().any(|name| ident == name) =>
                {
                    arguments
                }
                _ if named.iter().any(|parameter| path.path.is_ident(**parameter)) => {
                    return add(parse_quote!(#ty: #fx::Field));
                }
                _ => return add(parse_quote!(#ty: #fx::Field + #fx::std::clone::Clone)),
            };
            for argument in &arguments.args {
                if let GenericArgument::Type(ty) = argument {
                    field_bounds(ty, own, parameters, fx, out);
                }
            }
        }
        Type::Tuple(tuple) => tuple.elems.iter().for_each(|ty| field_bounds(ty, own, parameters, fx, out)),
        Type::Array(array) => field_bounds(&array.elem, own, parameters, fx, out),
        Type::Paren(paren) => field_bounds(&paren.elem, own, parameters, fx, out),
        Type::Group(group) => field_bounds(&group.elem, own, parameters, fx, out),
        // Also a type that holds itself: a bound on it would need itself.
        _ => named.into_iter().for_each(|parameter| add(parse_quote!(#parameter: #fx::Field))),
    }
}

/// Makes `match self` with one arm a variant, that binds the chosen fields.
fn match_self<'a>(
    variants: &'a [Variant],
    chosen: impl Fn(&Field) -> bool,
    arm: impl Fn(&'a Variant) -> TokenStream,
) -> TokenStream {
    if variants.is_empty() {
        return quote!(match *self {});
    }
    let arms = variants.iter().map(|variant| {
        let path = &variant.path;
        let fields = variant
            .fields
            .iter()
            .filter(|field| chosen(field))
            .map(|Field { member, binding, .. }| quote!(#member: #binding));
        let body = arm(variant);
        quote!(#path { #(#fields,)* .. } => { #body })
    });
    quote!(match self { #(#arms)* })
}

fn expand(input: &DeriveInput, container: &Container, variants: &[Variant]) -> TokenStream {
    let fx = private(container.crate_path.as_ref());
    let ident = &input.ident;
    let generics = bounded(ident, &input.generics, variants, &fx);
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let module = module_items(ident, container, variants, &fx);
    let clone = match_self(
        variants,
        |_| true,
        |Variant { path, fields }| {
            let fields = fields.iter().map(|Field { member, ty, binding, .. }| {
            quote_spanned!(at(ty)=> #member: <#ty as #fx::std::clone::Clone>::clone(#binding))
        });
            quote!(#path { #(#fields,)* })
        },
    );
    let load = match &input.data {
        Data::Struct(_) if !container.no_load => expand_load(ident, &generics, &variants[0], &fx),
        _ => TokenStream::new(),
    };
    quote! {
        #[automatically_derived]
        #[allow(private_bounds, reason = "a bound names the type of a field")]
        impl #impl_generics #fx::Module for #ident #type_generics #where_clause {
            #module
        }

        #[automatically_derived]
        #[allow(private_bounds, reason = "a bound names the type of a field")]
        impl #impl_generics #fx::std::clone::Clone for #ident #type_generics #where_clause {
            fn clone(&self) -> Self {
                #clone
            }
        }

        #[automatically_derived]
        #[allow(private_bounds, reason = "a bound names the type of a field")]
        impl #impl_generics #fx::std::fmt::Display for #ident #type_generics #where_clause {
            fn fmt(&self, f: &mut #fx::std::fmt::Formatter<'_>) -> #fx::std::fmt::Result {
                #fx::display_tree(self, f)
            }
        }

        #load
    }
}

/// Makes the items of `impl Module`.
fn module_items(ident: &Ident, container: &Container, variants: &[Variant], fx: &TokenStream) -> TokenStream {
    let name = ident.unraw().to_string();
    let is_member = |field: &Field| matches!(field.role, Role::Member(_));
    let is_training = |field: &Field| matches!(field.role, Role::Training);
    let visitor = Ident::new("__visitor", Span::mixed_site());
    let training = Ident::new("__training", Span::mixed_site());
    let visits = |method: &str| {
        let method = Ident::new(method, Span::call_site());
        match_self(variants, is_member, |variant| {
            let calls = variant.members().map(|(Field { ty, binding, .. }, name)| {
                quote_spanned!(at(ty)=> <#ty as #fx::Field>::#method(#binding, #name, #visitor);)
            });
            quote!(#(#calls)*)
        })
    };
    let (visit, visit_mut) = (visits("visit"), visits("visit_mut"));
    let set_training = variants.iter().any(|variant| variant.fields.iter().any(is_training)).then(|| {
        let body = match_self(variants, is_training, |variant| {
            let flags = variant.fields.iter().filter(|field| is_training(field)).map(|field| &field.binding);
            quote!(#(*#flags = #training;)*)
        });
        quote!(fn set_training(&mut self, #training: bool) { #body })
    });
    let is_leaf = container.leaf.then(|| {
        quote!(
            fn is_leaf(&self) -> bool {
                true
            }
        )
    });
    let is_pure = container.impure.as_ref().map(|impure| {
        let body = match impure {
            Impure::Always => quote!(false),
            Impure::If(path) => quote!(!#path(self)),
        };
        quote!(fn is_pure(&self) -> bool { #body })
    });
    let extra_repr = container
        .repr
        .as_ref()
        .map(|path| quote!(fn extra_repr(&self) -> #fx::std::string::String { #path(self) }));
    quote! {
        fn visit<'__a>(&'__a self, #visitor: &mut dyn #fx::Visitor<'__a>) {
            #visit
        }
        fn visit_mut(&mut self, #visitor: &mut dyn #fx::VisitorMut) {
            #visit_mut
        }
        fn type_name(&self) -> &'static str {
            #name
        }
        fn as_any(&self) -> &dyn #fx::std::any::Any {
            self
        }
        #is_leaf
        #extra_repr
        #set_training
        #is_pure
    }
}

/// Makes `impl FromWeights`, which holds where every field can be made: the source of weights is a parameter,
/// so that a field which cannot be made is an error only for those who load.
fn expand_load(ident: &Ident, generics: &Generics, variant: &Variant, fx: &TokenStream) -> TokenStream {
    let source: Ident = Ident::new("__W", Span::mixed_site());
    let (weights, path) =
        (Ident::new("__weights", Span::mixed_site()), Ident::new("__path", Span::mixed_site()));
    let mut extended = generics.clone();
    extended.params.push(parse_quote!(#source: #fx::WeightSource + ?#fx::std::marker::Sized));
    let clause = extended.make_where_clause();
    let mut fields = TokenStream::new();
    for Field { member, ty, role, .. } in &variant.fields {
        let span = at(ty);
        let value = match role {
            Role::Member(name) => {
                clause.predicates.push(parse_quote!(#ty: #fx::FromWeights<#source>));
                quote_spanned!(span=> <#ty as #fx::FromWeights<#source>>::from_weights(#weights, &#fx::join(#path, #name))?)
            }
            Role::Skipped | Role::Training => {
                clause.predicates.push(parse_quote!(#ty: #fx::Skipped<#source>));
                quote_spanned!(span=> <#ty as #fx::Skipped<#source>>::skipped())
            }
        };
        fields.extend(quote!(#member: #value,));
    }
    let (_, type_generics, _) = generics.split_for_impl();
    let (impl_generics, _, where_clause) = extended.split_for_impl();
    quote! {
        #[automatically_derived]
        #[allow(private_bounds, reason = "a bound names the type of a field")]
        impl #impl_generics #fx::FromWeights<#source> for #ident #type_generics #where_clause {
            fn from_weights(#weights: &#source, #path: &str) -> #fx::Result<Self> {
                #fx::std::result::Result::Ok(Self { #fields })
            }
        }
    }
}
