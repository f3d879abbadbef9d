//! Text in XML and HTML.

/// `text` with everything that XML or HTML could take for markup written as a reference. Characters that XML does not allow
/// become U+FFFD, so that no label can make a file unreadable.
#[must_use]
pub fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(character),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// A number as short as five decimals allow: `2.5`, `0.00391`, `7`.
#[must_use]
pub fn number(value: f64) -> String {
    let text = format!("{value:.5}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() || text == "-0" { "0".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_quotes_and_control_characters_are_escaped() {
        let told = xml("<script>alert(\"1\" & '2')</script>\u{0}\u{1b}\n");
        let expected =
            "&lt;script&gt;alert(&quot;1&quot; &amp; &#39;2&#39;)&lt;/script&gt;\u{fffd}\u{fffd}\n";
        assert_eq!(told, expected);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, -0.0, 7.0, 2.5, 1.0 / 256.0, 100.0].map(number),
            ["0", "0", "7", "2.5", "0.00391", "100"]
        );
    }
}
