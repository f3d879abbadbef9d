//! Modules of the core lie on floors: a module uses those below it, and no file uses another in a
//! circle.

use crate::{files, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use syn::visit::{self, Visit};

/// The modules of the core, lowest first.
const FLOORS: [&str; 7] = ["platform", "error", "wait", "areas", "purge", "space", "owned"];

/// A module, by its path in the crate.
type Module = Vec<String>;

/// The modules that each module uses.
fn uses() -> BTreeMap<Module, BTreeSet<Module>> {
    let src = root().join("crates/vmalloc/src");
    let files = files(&src);
    let modules: BTreeSet<Module> = files.iter().map(|file| module(&src, file)).collect();
    let root = fs::read_to_string(src.join("lib.rs")).expect("the root of the core");
    let mut reexports = Reader::new(&modules, Vec::new());
    reexports.visit_file(&syn::parse_file(&root).expect("a source file"));
    let shown = reexports.names;
    let mut all = BTreeMap::new();
    for file in files.iter().filter(|file| !is_test(file)) {
        let text = fs::read_to_string(file).expect("a source file");
        let mut reader = Reader::new(&modules, module(&src, file));
        reader.shown = shown.clone();
        reader.visit_file(&syn::parse_file(&text).expect("a source file"));
        all.insert(reader.module, reader.used);
    }
    all
}

fn is_test(file: &Path) -> bool {
    file.file_stem().is_some_and(|stem| stem == "tests" || stem == "models")
}

fn module(src: &Path, file: &Path) -> Module {
    let path = file.strip_prefix(src).expect("it is below").with_extension("");
    let mut module: Module = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if ["mod", "lib"].contains(&module.last().expect("a name").as_str()) {
        module.pop();
    }
    module
}

/// Collects what a module uses.
struct Reader<'a> {
    modules: &'a BTreeSet<Module>,
    module: Module,
    used: BTreeSet<Module>,
    /// Names that the module imports, with their modules.
    names: BTreeMap<String, Module>,
    /// Names that the root of the crate shows, with their modules.
    shown: BTreeMap<String, Module>,
}

impl<'a> Reader<'a> {
    fn new(modules: &'a BTreeSet<Module>, module: Module) -> Self {
        let (used, names, shown) = Default::default();
        Self { modules, module, used, names, shown }
    }

    /// Enters the module that a path leads to.
    fn path(&mut self, path: &[String]) {
        let mut at: Module = match path[0].as_str() {
            "crate" => Vec::new(),
            "self" => self.module.clone(),
            "super" => self.module[..self.module.len().saturating_sub(1)].to_vec(),
            first if self.modules.contains(&[&self.module[..], &[first.to_owned()]].concat()) => {
                [&self.module[..], &[first.to_owned()]].concat()
            }
            _ => return,
        };
        for part in &path[1..] {
            let next = [&at[..], std::slice::from_ref(part)].concat();
            match part.as_str() {
                "super" => drop(at.pop()),
                _ if self.modules.contains(&next) => at = next,
                _ => break,
            }
        }
        let last = path.last().expect("a path is not empty");
        if path[0] == "crate" && at.is_empty() {
            at = self.shown.get(last).cloned().unwrap_or_default();
        }
        self.names.insert(last.clone(), at.clone());
        self.used.insert(at);
    }

    fn tree(&mut self, tree: &syn::UseTree, before: &[String]) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.tree(&path.tree, &with(&path.ident)),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(tree, before)),
            syn::UseTree::Name(name) => self.path(&with(&name.ident)),
            syn::UseTree::Rename(name) => self.path(&with(&name.ident)),
            syn::UseTree::Glob(_) => self.path(before),
        }
    }
}

impl Visit<'_> for Reader<'_> {
    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        if item.leading_colon.is_none() {
            self.tree(&item.tree, &[]);
        }
    }

    fn visit_item_mod(&mut self, item: &syn::ItemMod) {
        let is_test = |attribute: &syn::Attribute| {
            attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
        };
        if !item.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if ["crate", "super"].contains(&parts[0].as_str()) && parts.len() > 1 {
            self.path(&parts);
        }
        visit::visit_path(self, path);
    }
}

#[test]
fn modules_use_those_on_lower_floors_alone() {
    let floor = |name: &str| FLOORS.iter().position(|floor| *floor == name);
    let mut wrong = BTreeSet::new();
    for (module, used) in uses() {
        let Some(here) = module.first() else { continue };
        for there in used.iter().filter_map(|used| used.first()).filter(|there| *there != here) {
            if floor(there) >= floor(here) {
                wrong.insert(format!("{} uses {there}", module.join("::")));
            }
            assert!(floor(here).is_some() && floor(there).is_some(), "{here} or {there} has no floor");
        }
    }
    assert!(wrong.is_empty(), "upwards: {wrong:#?}");
}

#[test]
fn files_do_not_use_each_other_in_circles() {
    let uses = uses();
    let is_family = |one: &Module, other: &Module| one.starts_with(other) || other.starts_with(one);
    let next = |module: &Module| {
        let used = uses.get(module).into_iter().flatten();
        used.filter(|other| !is_family(module, other)).cloned().collect::<Vec<_>>()
    };
    let returns = |start: &Module| {
        let (mut seen, mut waiting) = (BTreeSet::new(), next(start));
        while let Some(module) = waiting.pop() {
            if seen.insert(module.clone()) {
                waiting.extend(next(&module));
            }
        }
        seen.contains(start)
    };
    let circling: Vec<_> =
        uses.keys().filter(|module| returns(module)).map(|module| module.join("::")).collect();
    assert!(circling.is_empty(), "files are in circles: {circling:#?}");
}

#[test]
fn the_test_sees_uses() {
    let uses = uses();
    let space = &uses[&vec!["space".to_owned()]];
    assert!(space.iter().any(|used| used.first().is_some_and(|name| name == "platform")), "{space:?}");
}
