//! Public items, as lines.

use super::tree::{Tree, is_conditional};
use proc_macro2::TokenStream;
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use syn::parse::{Parse, ParseStream};
use syn::{Ident, ImplItem, Item, TraitItem, UseTree, Visibility};

/// Returns a line for each public item of the crate `name`.
pub(super) fn public(name: &str, tree: &Tree) -> BTreeSet<String> {
    let mut reader = Reader { tree, lines: BTreeSet::new(), types: BTreeMap::new() };
    reader.module(&[], name);
    reader.implementations();
    reader.lines
}

/// Collects lines, and the public paths of types by their names in the source.
struct Reader<'a> {
    tree: &'a Tree,
    lines: BTreeSet<String>,
    types: BTreeMap<String, String>,
}

impl Reader<'_> {
    /// Enters the public items of a module, which is reachable at the path `public`.
    fn module(&mut self, path: &[String], public: &str) {
        for item in self.tree.items(path).unwrap_or_default() {
            match item {
                Item::Mod(inner) if is_public(&inner.vis) && !is_conditional(&inner.attrs) => {
                    let name = inner.ident.to_string();
                    let public = format!("{public}::{name}");
                    self.lines.insert(format!("mod {public}"));
                    self.module(&[path, &[name]].concat(), &public);
                }
                Item::Use(item) if is_public(&item.vis) && !is_conditional(&item.attrs) => {
                    self.reexports(&item.tree, path.to_vec(), public);
                }
                _ => self.item(item, public, None),
            }
        }
    }

    /// Enters what a `pub use` in the module `at` shows.
    fn reexports(&mut self, tree: &UseTree, at: Vec<String>, public: &str) {
        match tree {
            UseTree::Path(path) => self.reexports(&path.tree, step(&at, &path.ident), public),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.reexports(tree, at.clone(), public));
            }
            UseTree::Name(name) => self.reexport(&at, &name.ident.to_string(), None, public),
            UseTree::Rename(name) => {
                self.reexport(&at, &name.ident.to_string(), Some(&name.rename.to_string()), public);
            }
            UseTree::Glob(_) => self.module(&at, public),
        }
    }

    fn reexport(&mut self, at: &[String], name: &str, rename: Option<&str>, public: &str) {
        let Some(items) = self.tree.items(at) else {
            self.lines.insert(format!(
                "use {public}::{} = {}::{name}",
                rename.unwrap_or(name),
                at.join("::")
            ));
            return;
        };
        for item in items {
            if head(item).is_some_and(|(own, ..)| own == name) {
                self.item(item, public, rename);
            }
            match item {
                // Another crate.
                Item::Use(inner) if matches!(&inner.tree, UseTree::Name(whole) if whole.ident == name) => {
                    self.lines.insert(format!("use {public}::{} = {name}", rename.unwrap_or(name)));
                }
                Item::Use(inner) => self.nested(&inner.tree, at.to_vec(), name, public),
                _ => {}
            }
        }
    }

    /// Follows a re-export of something that is itself imported.
    fn nested(&mut self, tree: &UseTree, at: Vec<String>, name: &str, public: &str) {
        match tree {
            UseTree::Path(path) => self.nested(&path.tree, step(&at, &path.ident), name, public),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.nested(tree, at.clone(), name, public));
            }
            UseTree::Name(found) if found.ident == name && self.tree.items(&at).is_some() => {
                self.reexport(&at, name, None, public);
            }
            _ => {}
        }
    }

    /// Enters an item, if it is public, under the path `public`.
    fn item(&mut self, item: &Item, public: &str, rename: Option<&str>) {
        let Some((name, visibility, attributes)) = head(item) else { return };
        if !is_public(visibility) || is_conditional(attributes) {
            return;
        }
        let path = format!("{public}::{}", rename.unwrap_or(&name));
        match item {
            Item::Fn(item) => self.line(&path, &item.sig),
            Item::Const(item) => self.line(&format!("const {path}"), &item.ty),
            Item::Static(item) => self.line(&format!("static {path}"), &item.ty),
            Item::Type(item) => self.line(&format!("type {path}"), &item.ty),
            Item::Struct(item) => {
                self.line(&format!("struct {path}"), &item.generics);
                self.attributes(&path, &item.attrs);
                let fields = item.fields.iter().filter(|field| is_public(&field.vis));
                for (nth, field) in fields.enumerate() {
                    let field_name = field.ident.as_ref().map_or(nth.to_string(), ToString::to_string);
                    self.line(&format!("{path}.{field_name}"), &field.ty);
                }
                self.types.insert(name, path);
            }
            Item::Enum(item) => {
                self.line(&format!("enum {path}"), &item.generics);
                self.attributes(&path, &item.attrs);
                for variant in &item.variants {
                    let mut bare = variant.clone();
                    bare.attrs.clear();
                    bare.fields.iter_mut().for_each(|field| field.attrs.clear());
                    self.line(&format!("{path}::{}", variant.ident), &bare);
                }
                self.types.insert(name, path);
            }
            Item::Trait(item) => self.trait_item(item, &path),
            _ => {}
        }
    }

    /// Enters derived traits, and whether more fields or variants may come.
    fn attributes(&mut self, path: &str, attributes: &[syn::Attribute]) {
        for attribute in attributes {
            if ["derive", "non_exhaustive"].iter().any(|name| attribute.path().is_ident(name)) {
                self.line(&format!("{path} has"), &attribute.meta);
            }
        }
    }

    fn trait_item(&mut self, item: &syn::ItemTrait, path: &str) {
        let unsafety = if item.unsafety.is_some() { "unsafe " } else { "" };
        let bounds = &item.supertraits;
        self.line(&format!("{unsafety}trait {path}"), &bounds);
        for member in &item.items {
            match member {
                TraitItem::Fn(member) => {
                    let default = if member.default.is_some() { " (provided)" } else { "" };
                    self.line(&format!("{path}::{}{default}", member.sig.ident), &member.sig);
                }
                TraitItem::Type(member) => {
                    self.line(&format!("{path}::{}", member.ident), &member.bounds);
                }
                TraitItem::Const(member) => self.line(&format!("{path}::{}", member.ident), &member.ty),
                _ => {}
            }
        }
    }

    /// Enters the methods and traits of public types.
    fn implementations(&mut self) {
        for item in self.tree.all() {
            let Item::Impl(item) = item else { continue };
            let syn::Type::Path(of) = &*item.self_ty else { continue };
            let Some(name) = of.path.segments.last().map(|segment| segment.ident.to_string()) else {
                continue;
            };
            let Some(path) = self.types.get(&name).cloned().filter(|_| !is_conditional(&item.attrs)) else {
                continue;
            };
            if let Some((_, of_trait, _)) = &item.trait_ {
                self.line(&format!("impl {} for {path}", tidy(of_trait)), &item.generics);
                continue;
            }
            for member in &item.items {
                match member {
                    ImplItem::Fn(member) if is_public(&member.vis) && !is_conditional(&member.attrs) => {
                        self.line(&format!("{path}::{}", member.sig.ident), &member.sig);
                    }
                    ImplItem::Const(member) if is_public(&member.vis) => {
                        self.line(&format!("{path}::{}", member.ident), &member.ty);
                    }
                    ImplItem::Macro(member) if member.mac.path.is_ident("setters") => {
                        let setters = member.mac.parse_body::<Setters>();
                        for setter in setters.into_iter().flat_map(|setters| setters.0) {
                            self.line(&format!("{path}::{}", setter.ident), &setter);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn line(&mut self, path: &str, tokens: &impl ToTokens) {
        let text = tidy(tokens);
        self.lines.insert(if text.is_empty() { path.to_owned() } else { format!("{path}: {text}") });
    }
}

/// Returns the module to which a part of a path leads.
fn step(at: &[String], part: &Ident) -> Vec<String> {
    match part.to_string().as_str() {
        "crate" => Vec::new(),
        "self" => at.to_vec(),
        "super" => at[..at.len().saturating_sub(1)].to_vec(),
        name => [at, &[name.to_owned()]].concat(),
    }
}

/// The methods that the core's macro `setters` makes.
struct Setters(Vec<syn::Signature>);

impl Parse for Setters {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut all = Vec::new();
        while !input.is_empty() {
            let _ = input.call(syn::Attribute::parse_outer)?;
            let (name, arguments, fields);
            name = input.parse::<syn::Ident>()?;
            syn::parenthesized!(arguments in input);
            syn::braced!(fields in input);
            let _ = fields.parse::<TokenStream>()?;
            let arguments = arguments.parse_terminated(syn::FnArg::parse, syn::Token![,])?;
            all.push(syn::parse_quote!(const fn #name(mut self, #arguments) -> Self));
        }
        Ok(Self(all))
    }
}

/// Returns the name of an item that can be shown, its visibility and its attributes.
fn head(item: &Item) -> Option<(String, &Visibility, &[syn::Attribute])> {
    let (name, visibility, attributes) = match item {
        Item::Fn(item) => (&item.sig.ident, &item.vis, &item.attrs),
        Item::Const(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Static(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Type(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Struct(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Enum(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Trait(item) => (&item.ident, &item.vis, &item.attrs),
        _ => return None,
    };
    Some((name.to_string(), visibility, attributes))
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Returns tokens as one writes them, nearly.
fn tidy(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (from, to) in [
        (" :: ", "::"),
        (":: ", "::"),
        (" ::", "::"),
        (" < ", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        ("& ", "&"),
        (" ,", ","),
        (" :", ":"),
        (" ;", ";"),
        ("[ ", "["),
        (" ]", "]"),
        ("->", " ->"),
        ("  ->", " ->"),
        (",)", ")"),
    ] {
        text = text.replace(from, to);
    }
    text
}
