//! Which lines of a source file hold code, and which hold comments.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;

/// The lines of a file, counted from 1.
pub(crate) struct Lines {
    code: BTreeSet<usize>,
}

impl Lines {
    /// Returns the lines of `text`: a line holds code if a token lies on it that is no doc comment.
    pub(crate) fn of(text: &str) -> Self {
        let mut code = BTreeSet::new();
        if let Ok(tokens) = text.parse::<TokenStream>() {
            collect(tokens, text, &mut code);
        }
        Self { code }
    }

    /// Returns how many of the lines from `first` to `last` hold code.
    pub(crate) fn count(&self, first: usize, last: usize) -> usize {
        self.code.range(first..=last).count()
    }

    /// Returns how many lines hold code.
    pub(crate) fn total(&self) -> usize {
        self.code.len()
    }
}

fn collect(tokens: TokenStream, text: &str, code: &mut BTreeSet<usize>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if is_doc(&token, text) {
            // `#`, perhaps `!`, and the brackets: all of one comment.
            while tokens.next_if(|next| next.span().byte_range() == token.span().byte_range()).is_some() {}
            continue;
        }
        let (first, last) = (token.span().start().line, token.span().end().line);
        match token {
            TokenTree::Group(group) => {
                code.extend([first, last]);
                collect(group.stream(), text, code);
            }
            _ => code.extend(first..=last),
        }
    }
}

/// Returns true if a comment became this token.
fn is_doc(token: &TokenTree, text: &str) -> bool {
    let source = text.get(token.span().byte_range()).unwrap_or_default();
    source.starts_with("//") || source.starts_with("/*")
}
