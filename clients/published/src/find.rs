//! Places of items and statements in a source, in bytes.

use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, ImplItem, Item, TraitItem, Type, UseTree};

/// An item that was found.
pub(crate) struct Found {
    /// Its place, with its attributes and its documentation.
    pub(crate) place: Range<usize>,
    /// The place between the braces of a function's body.
    pub(crate) body: Option<Range<usize>>,
}

/// Returns all items at a path below `items`. The last part of a path may be a method, an `impl`, or a macro with `!`.
pub(crate) fn items(items: &[Item], path: &str) -> Vec<Found> {
    let (first, rest) = path.split_once("::").map_or((path, None), |(first, rest)| (first, Some(rest)));
    let mut found = Vec::new();
    for item in items {
        match (rest, item) {
            (None, item) if name(item).as_deref() == Some(first) => found.push(whole(item)),
            (Some(rest), Item::Mod(module)) if module.ident == first => {
                let content = module.content.as_ref().map_or(&[][..], |(_, items)| items);
                found.extend(self::items(content, rest));
            }
            (Some(rest), Item::Impl(block)) if heads(block).iter().any(|head| head == first) => {
                found.extend(block.items.iter().filter_map(|item| method(item, rest)));
            }
            (Some(rest), Item::Trait(block)) if block.ident == first => {
                let named =
                    |item: &&TraitItem| matches!(item, TraitItem::Fn(method) if method.sig.ident == rest);
                let found_items = block.items.iter().filter(named);
                found.extend(found_items.map(|item| Found { place: place(item), body: None }));
            }
            _ => {}
        }
    }
    found
}

fn whole(item: &Item) -> Found {
    let body = match item {
        Item::Fn(function) => Some(inside(&function.block)),
        _ => None,
    };
    Found { place: place(item), body }
}

fn method(item: &ImplItem, wanted: &str) -> Option<Found> {
    match item {
        ImplItem::Fn(method) if method.sig.ident == wanted => {
            Some(Found { place: place(item), body: Some(inside(&method.block)) })
        }
        ImplItem::Const(constant) if constant.ident == wanted => {
            Some(Found { place: place(item), body: None })
        }
        ImplItem::Type(kind) if kind.ident == wanted => Some(Found { place: place(item), body: None }),
        _ => None,
    }
}

fn name(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::ExternCrate(item) => {
            format!("extern crate {}", item.rename.as_ref().map_or(&item.ident, |(_, name)| name))
        }
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Impl(item) => heads(item).pop()?,
        Item::Macro(item) => format!("{}!", item.mac.path.segments.last()?.ident),
        Item::Mod(item) => item.ident.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        _ => return None,
    })
}

/// Returns how a path may name an `impl`, without generics: by the type if it has no trait, and in full as the last one.
fn heads(block: &syn::ItemImpl) -> Vec<String> {
    let of = head(&block.self_ty);
    match &block.trait_ {
        None => vec![of.clone(), format!("impl {of}")],
        Some((_, path, _)) => {
            let name = path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
            vec![format!("impl {name} for {of}")]
        }
    }
}

fn head(of: &Type) -> String {
    match of {
        Type::Path(path) => {
            path.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default()
        }
        Type::Reference(reference) => format!("&{}", head(&reference.elem)),
        _ => String::new(),
    }
}

/// Returns the statements inside of `within` that begin with `start`, each with the end of its block.
pub(crate) fn statements(
    file: &syn::File,
    text: &str,
    within: &Range<usize>,
    start: &str,
) -> Vec<(Range<usize>, usize)> {
    let mut statements = Statements { text, within, start, found: Vec::new() };
    statements.visit_file(file);
    statements.found
}

/// Collects statements. One in a nested block is one of its own.
struct Statements<'a> {
    text: &'a str,
    within: &'a Range<usize>,
    start: &'a str,
    found: Vec<(Range<usize>, usize)>,
}

impl<'ast> Visit<'ast> for Statements<'_> {
    fn visit_block(&mut self, block: &'ast Block) {
        for statement in &block.stmts {
            let at = place(statement);
            let is_inside = self.within.start <= at.start && at.end <= self.within.end;
            if is_inside && self.text[at.clone()].starts_with(self.start) {
                self.found.push((at, inside(block).end));
            }
        }
        visit::visit_block(self, block);
    }
}

/// Returns the places to remove so that `name` is not imported by a `use` of the file itself.
pub(crate) fn imports(items: &[Item], name: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for item in items {
        if let Item::Use(import) = item {
            leaves(&import.tree, &place(item), name, &mut found);
        }
    }
    found
}

/// Finds the leaves of a tree. `whole` is what to remove if the tree is one.
fn leaves(tree: &UseTree, whole: &Range<usize>, name: &str, found: &mut Vec<Range<usize>>) {
    match tree {
        UseTree::Path(path) => leaves(&path.tree, whole, name, found),
        UseTree::Name(leaf) if leaf.ident == name => found.push(whole.clone()),
        UseTree::Group(group) => {
            for pair in group.items.pairs() {
                let (tree, comma) = pair.into_tuple();
                let end = comma.map_or(place(tree).end, |comma| comma.span.byte_range().end);
                leaves(tree, &(place(tree).start..end), name, found);
            }
        }
        _ => {}
    }
}

fn inside(block: &Block) -> Range<usize> {
    block.brace_token.span.open().byte_range().end..block.brace_token.span.close().byte_range().start
}

fn place(part: &impl Spanned) -> Range<usize> {
    part.span().byte_range()
}
