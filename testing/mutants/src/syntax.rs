//! The sites of a source file: places where a small change makes a mistake that a person could have
//! made.
//!
//! | kind | change |
//! |---|---|
//! | `less`, `at-most`, `more`, `at-least`, `equal`, `unequal` | `<`↔`<=`, `>`↔`>=`, `==`↔`!=` |
//! | `plus`, `minus` | `+`↔`-` |
//! | `and`, `or` | `&&`↔`\|\|` |
//! | `not` | a condition of `if`, of `while`, or of a match arm is negated |
//! | `delete` | a statement that is a call or an assignment is left out |
//!
//! Tests, checks (`verify…`), what is printed, and what the compiler evaluates have no sites. Nor
//! has the inside of a macro, of which only tokens are known.

use std::collections::BTreeMap;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Block, Expr, Signature, Stmt};

/// A place in a file, and the text that may stand there instead.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// `file:function:kind:nth`.
    pub(crate) name: String,
    /// Its place in the text.
    pub(crate) range: Range<usize>,
    pub(crate) after: String,
}

/// The sites and functions of a source file.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) sites: Vec<Site>,
    /// Names and places of the functions with a body.
    pub(crate) functions: Vec<(String, Range<usize>)>,
}

/// Finds the sites of `text`, which the names of the sites call `file`.
///
/// # Errors
/// The text is no Rust.
pub(crate) fn read(file: &str, text: &str) -> syn::Result<Found> {
    let syntax = syn::parse_file(text)?;
    let mut reader = Reader { file, text, function: None, counts: BTreeMap::new(), found: Found::default() };
    reader.visit_file(&syntax);
    Ok(reader.found)
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    function: Option<String>,
    /// How many sites of a kind a function has so far.
    counts: BTreeMap<(String, &'static str), usize>,
    found: Found,
}

impl Reader<'_> {
    fn text_of(&self, node: &impl Spanned) -> &str {
        &self.text[node.span().byte_range()]
    }

    fn push(&mut self, kind: &'static str, node: &impl Spanned, after: String) {
        let Some(function) = self.function.clone() else { return };
        let count = self.counts.entry((function.clone(), kind)).or_default();
        *count += 1;
        let name = format!("{}:{function}:{kind}:{count}", self.file);
        self.found.sites.push(Site { name, range: node.span().byte_range(), after });
    }

    fn function(&mut self, attributes: &[Attribute], signature: &Signature, body: &Block) {
        let name = signature.ident.to_string();
        if signature.constness.is_some() || name.starts_with("verify") || is_special(attributes) {
            return;
        }
        self.found.functions.push((name.clone(), body.span().byte_range()));
        let outer = self.function.replace(name);
        self.visit_block(body);
        self.function = outer;
    }

    /// Negates a condition, or each part of a chain with `let` that is one.
    fn condition(&mut self, condition: &Expr) {
        match condition {
            Expr::Let(_) => {}
            Expr::Binary(chain) if has_let(condition) => {
                self.condition(&chain.left);
                self.condition(&chain.right);
            }
            _ => self.push("not", condition, format!("!({})", self.text_of(condition))),
        }
    }
}

impl<'a> Visit<'a> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !is_special(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        let last = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        let is_shown = last.is_some_and(|last| last.ident == "Debug" || last.ident == "Display");
        if !is_shown && !is_special(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.attrs, &item.sig, body);
        }
    }

    fn visit_expr_binary(&mut self, binary: &'a syn::ExprBinary) {
        let is_chain = has_let(&binary.left) || has_let(&binary.right);
        if let Some((kind, other)) = replaced(&binary.op).filter(|_| !is_chain) {
            let after = format!("({}) {other} ({})", self.text_of(&binary.left), self.text_of(&binary.right));
            self.push(kind, binary, after);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_if(&mut self, expr: &'a syn::ExprIf) {
        self.condition(&expr.cond);
        visit::visit_expr_if(self, expr);
    }

    fn visit_expr_while(&mut self, expr: &'a syn::ExprWhile) {
        self.condition(&expr.cond);
        visit::visit_expr_while(self, expr);
    }

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.condition(guard);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_stmt(&mut self, statement: &'a Stmt) {
        if let Stmt::Expr(expr, Some(_)) = statement
            && acts(expr)
        {
            self.push("delete", statement, String::new());
        }
        visit::visit_stmt(self, statement);
    }

    // The compiler evaluates these, where nothing can be switched.
    fn visit_item_const(&mut self, _: &'a syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'a syn::ItemStatic) {}
    fn visit_expr_const(&mut self, _: &'a syn::ExprConst) {}
    fn visit_type(&mut self, _: &'a syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'a syn::GenericArgument) {}
    fn visit_pat(&mut self, _: &'a syn::Pat) {}
    fn visit_expr_repeat(&mut self, repeat: &'a syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }
}

/// Returns whether code is for tests or for a build of its own alone.
fn is_special(attributes: &[Attribute]) -> bool {
    attributes.iter().filter_map(|it| it.meta.require_list().ok()).any(|list| {
        let told = list.tokens.to_string();
        let names = ["test", "shuttle", "loom", "feature"];
        list.path.is_ident("cfg") && !told.starts_with("not") && names.iter().any(|name| told.contains(name))
    })
}

fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// Returns the kind of an operator, and what replaces it.
fn replaced(operator: &BinOp) -> Option<(&'static str, &'static str)> {
    Some(match operator {
        BinOp::Lt(_) => ("less", "<="),
        BinOp::Le(_) => ("at-most", "<"),
        BinOp::Gt(_) => ("more", ">="),
        BinOp::Ge(_) => ("at-least", ">"),
        BinOp::Eq(_) => ("equal", "!="),
        BinOp::Ne(_) => ("unequal", "=="),
        BinOp::Add(_) => ("plus", "-"),
        BinOp::Sub(_) => ("minus", "+"),
        BinOp::And(_) => ("and", "||"),
        BinOp::Or(_) => ("or", "&&"),
        _ => return None,
    })
}

/// Returns whether a statement is a call or an assignment.
fn acts(expr: &Expr) -> bool {
    match expr {
        Expr::Call(call) => call.attrs.is_empty(),
        Expr::MethodCall(call) => call.attrs.is_empty(),
        Expr::Assign(assignment) => assignment.attrs.is_empty(),
        Expr::Binary(binary) => replaced(&binary.op).is_none() && binary.attrs.is_empty(),
        Expr::Try(tried) => acts(&tried.expr),
        Expr::Unsafe(block) => matches!(&block.block.stmts[..], [Stmt::Expr(only, _)] if acts(only)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(text: &str) -> Vec<(String, String)> {
        let sites = read("a.rs", text).unwrap().sites;
        sites.into_iter().map(|site| (site.name, site.after)).collect()
    }

    fn named(name: &str, after: &str) -> (String, String) {
        (format!("a.rs:{name}"), after.to_owned())
    }

    #[test]
    fn an_operator_is_replaced_between_its_whole_operands() {
        let found = changes("fn f(a: u8) -> bool { a + 1 < 7 && a != 3 }");
        assert_eq!(found[0], named("f:and:1", "(a + 1 < 7) || (a != 3)"));
        assert_eq!(found[1], named("f:less:1", "(a + 1) <= (7)"));
        assert_eq!(found[2], named("f:plus:1", "(a) - (1)"));
        assert_eq!(found[3], named("f:unequal:1", "(a) == (3)"));
    }

    #[test]
    fn the_parts_of_a_let_chain_are_negated_one_by_one() {
        let found = changes("fn f() { if let Some(a) = g() && a && b {} while c {} }");
        let after: Vec<_> = found.iter().map(|(_, after)| &after[..]).collect();
        assert_eq!(after, ["!(a)", "!(b)", "!(c)"]);
    }

    #[test]
    fn calls_and_assignments_are_left_out_but_no_value() {
        let found = changes("impl S { fn f(&mut self) -> u8 { self.a += 1; unsafe { g() }; h()?; 1; k() } }");
        let names: Vec<_> = found.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, ["a.rs:f:delete:1", "a.rs:f:delete:2", "a.rs:f:delete:3"]);
    }

    #[test]
    fn tests_constants_and_what_is_printed_have_no_sites() {
        let text = "const A: u8 = 1 + 1; const fn f() -> u8 { 1 + 1 } fn g() { let a = [0; 1 + 1]; }
            impl Debug for S { fn fmt(&self) { a(); } } fn verify(&self) { a(); }
            #[cfg(test)] mod tests { fn f() { a(); } } #[cfg(feature = \"b\")] fn h() { a(); }";
        assert_eq!(changes(text), []);
        assert_eq!(changes("#[cfg(not(shuttle))] fn f() { a(); }").len(), 1);
    }
}
