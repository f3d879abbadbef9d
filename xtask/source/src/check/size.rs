//! Rules of size: crates, files, functions, types, and names of files.

use super::Violation;
use super::source::{File, Package};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The crates of the core, and the most lines of code of all, tests not counted.
const CORE: (&[&str], usize) = (&["crates/vmalloc", "crates/vmalloc-map"], 9_000);
/// The most lines of a file of a product.
const FILE: usize = 450;
/// The most lines of code of 99 functions in 100.
const FUNCTION: usize = 35;
/// The most public methods of a public type.
const METHODS: usize = 40;
/// The type that orders the core, the most methods that it has, and the most files with these.
const ORDER: (&str, usize, usize) = ("Space", 80, 12);
/// Names of files that every folder may have.
const COMMON: [&str; 6] = ["mod", "lib", "main", "error", "tests", "models"];

/// The sizes of a crate.
#[derive(Default)]
struct Sizes {
    code: usize,
    tests: usize,
    /// Lines of code of each function outside of tests, with its place.
    functions: Vec<(usize, String)>,
    /// Public methods of each type.
    methods: BTreeMap<String, usize>,
    /// Methods of the type that orders the core, and the files with these.
    order: (usize, BTreeSet<String>),
}

/// Checks that the core is small enough.
pub(super) fn check_core(packages: &[Package], found: &mut Vec<Violation>) {
    let core = packages.iter().filter(|package| CORE.0.contains(&package.folder.as_str()));
    let code: usize = core.map(|package| measure(package).code).sum();
    let what = format!("{code} lines are more than {}", CORE.1);
    found.extend((CORE.1..code).map(|_| Violation::new("core_lines", CORE.0[0], CORE.0[0], &what)));
}

pub(super) fn check(package: &Package, found: &mut Vec<Violation>) {
    let sizes = measure(package);
    let p99 = percentile(&sizes.functions, 99);
    let (code, tests) = (sizes.code, sizes.tests);
    let (median, p90) = (percentile(&sizes.functions, 50), percentile(&sizes.functions, 90));
    println!(
        "{}: {code} lines of code, {tests} of tests; functions: median {median}, p90 {p90}, p99 {p99}",
        package.folder
    );
    let mut push = |rule, place: String, what| found.push(Violation::new(rule, &package.folder, place, what));
    if p99 > FUNCTION {
        for (lines, place) in sizes.functions.iter().filter(|(lines, _)| *lines > FUNCTION) {
            push("function_lines", place.clone(), format!("{lines} lines, and p99 is {p99}"));
        }
    }
    for (name, &count) in sizes.methods.iter().filter(|(_, count)| **count > METHODS) {
        for _ in METHODS..count {
            push("methods", package.folder.clone(), format!("{name} has {count} public methods"));
        }
    }
    let (methods, files) = (sizes.order.0, sizes.order.1.len());
    for (rule, count, most) in [("order_methods", methods, ORDER.1), ("order_files", files, ORDER.2)] {
        for _ in most..count {
            push(rule, package.folder.clone(), format!("{} has {methods} methods in {files} files", ORDER.0));
        }
    }
    if package.folder.starts_with("crates/") {
        for file in package.files.iter().filter(|file| file.text.lines().count() > FILE) {
            push("file_lines", file.path.clone(), format!("{} lines", file.text.lines().count()));
        }
        names(package, &mut push);
    }
}

/// Finds names of files that a crate has twice.
fn names(package: &Package, push: &mut impl FnMut(&'static str, String, String)) {
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for file in package.files.iter().filter(|file| package.inside(file).starts_with("src/")) {
        let stem = Path::new(&file.path).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if COMMON.contains(&stem) {
            continue;
        }
        if let Some(other) = seen.insert(stem, &file.path) {
            push("file_names", file.path.clone(), format!("the name of {other}"));
        }
    }
}

fn measure(package: &Package) -> Sizes {
    let mut sizes = Sizes::default();
    let public: BTreeSet<String> = package.files.iter().flat_map(public_types).collect();
    for file in &package.files {
        if file.is_test() {
            sizes.tests += file.lines.total();
            continue;
        }
        let mut reader = Reader { file, sizes: &mut sizes, tests: 0 };
        reader.visit_file(&file.syntax);
        let tests = reader.tests;
        sizes.tests += tests;
        sizes.code += file.lines.total() - tests;
    }
    sizes.methods.retain(|name, _| public.contains(name));
    sizes
}

fn public_types(file: &File) -> Vec<String> {
    let name = |item: &syn::Item| match item {
        syn::Item::Struct(item) if is_public(&item.vis) => Some(item.ident.to_string()),
        syn::Item::Enum(item) if is_public(&item.vis) => Some(item.ident.to_string()),
        _ => None,
    };
    file.syntax.items.iter().filter_map(name).collect()
}

/// Returns whether documentation leaves it out.
fn is_hidden(attributes: &[syn::Attribute]) -> bool {
    let hidden = |attribute: &syn::Attribute| {
        attribute.path().is_ident("doc")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("hidden"))
    };
    attributes.iter().any(hidden)
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

/// Returns the value that `percent` of the functions do not exceed.
fn percentile(functions: &[(usize, String)], percent: usize) -> usize {
    let mut sizes: Vec<usize> = functions.iter().map(|(lines, _)| *lines).collect();
    sizes.sort_unstable();
    let index = (sizes.len() * percent / 100).min(sizes.len().saturating_sub(1));
    sizes.get(index).copied().unwrap_or(0)
}

/// Counts functions and methods of a file, and the lines of its tests.
struct Reader<'a> {
    file: &'a File,
    sizes: &'a mut Sizes,
    tests: usize,
}

impl Reader<'_> {
    fn lines(&self, node: &impl Spanned) -> usize {
        let span = node.span();
        self.file.lines.count(span.start().line, span.end().line)
    }

    fn function(&mut self, signature: &syn::Signature, node: &impl Spanned) {
        let place = self.file.at(signature.span().start().line);
        self.sizes.functions.push((self.lines(node), format!("{place}: {}", signature.ident)));
    }
}

impl<'a> Visit<'a> for Reader<'_> {
    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        let is_test = |attribute: &syn::Attribute| {
            attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
        };
        if module.content.is_some() && module.attrs.iter().any(is_test) {
            self.tests += self.lines(module);
        } else {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        self.function(&function.sig, function);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        self.function(&function.sig, function);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        if let (None, syn::Type::Path(of)) = (&item.trait_, &*item.self_ty)
            && let Some(last) = of.path.segments.last()
        {
            let public = |item: &&syn::ImplItem| matches!(item, syn::ImplItem::Fn(it) if is_public(&it.vis) && !is_hidden(&it.attrs));
            let count = item.items.iter().filter(public).count();
            *self.sizes.methods.entry(last.ident.to_string()).or_default() += count;
            if last.ident == ORDER.0 {
                let all = item.items.iter().filter(|item| matches!(item, syn::ImplItem::Fn(_))).count();
                self.sizes.order.0 += all;
                self.sizes.order.1.insert(self.file.path.clone());
            }
        }
        visit::visit_item_impl(self, item);
    }
}
