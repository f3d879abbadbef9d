//! Declarations in the text of cbindgen, each with its comment.

/// A comment, and a declaration or a constant behind it.
pub(super) struct Block {
    pub(super) name: String,
    comment: Vec<String>,
    code: Vec<String>,
}

/// Returns the declarations of a text, in order.
pub(super) fn of(text: &str) -> Vec<Block> {
    let (mut blocks, mut comment, mut code) = (Vec::new(), Vec::new(), Vec::new());
    let mut in_comment = false;
    for line in text.lines().filter(|line| !is_frame(line)) {
        let trimmed = line.trim();
        if code.is_empty() && (in_comment || trimmed.starts_with("/*")) {
            in_comment = !trimmed.ends_with("*/");
            comment.extend(inner(trimmed));
            continue;
        }
        if trimmed.is_empty() && code.is_empty() {
            continue;
        }
        code.push(line.to_owned());
        if is_whole(&code) {
            let (comment, code) = (std::mem::take(&mut comment), std::mem::take(&mut code));
            if let Some(name) = name(&code) {
                blocks.push(Block { name, comment, code });
            }
        }
    }
    blocks
}

/// Returns true for lines that are no declaration: guards of the file and of C++.
fn is_frame(line: &str) -> bool {
    let guards = ["#ifndef", "#ifdef", "#endif", "extern \"C\"", "}  // extern", "#include"];
    let is_guard = guards.iter().any(|start| line.starts_with(start));
    is_guard
        || line.trim() == "#define VMALLOC_H"
        || line.starts_with("/* vmalloc:")
        || line.trim() == "// extern \"C\""
}

/// Returns the text of a line of comment, if it is more than its frame.
fn inner(line: &str) -> Option<String> {
    let text = line.trim_start_matches("/**").trim_start_matches("/*").trim_end_matches("*/");
    let text = text.strip_prefix('*').unwrap_or(text);
    let text = text.strip_prefix(' ').unwrap_or(text).trim_end();
    let is_edge = text.is_empty() && line.trim_matches(['*', '/', ' ']).is_empty() && line != "*";
    (!is_edge).then(|| text.to_owned())
}

fn is_whole(code: &[String]) -> bool {
    let text = code.concat();
    let depth = |open, close| text.matches(open).count() == text.matches(close).count();
    text.starts_with("#define") || text.trim_end().ends_with(';') && depth('{', '}') && depth('(', ')')
}

/// Returns the name that a declaration declares: the last word before a bracket or the end.
fn name(code: &[String]) -> Option<String> {
    let text = code.join(" ");
    if let Some(rest) = text.strip_prefix("#define ") {
        return rest.split_whitespace().next().map(str::to_owned);
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    if let Some((_, rest)) = text.split_once("(*") {
        return Some(rest.chars().take_while(|&c| is_word(c)).collect());
    }
    let end = if text.contains('}') { text.len() } else { text.find('(').unwrap_or(text.len()) };
    let words: Vec<_> = text[..end].split(|c| !is_word(c)).filter(|word| !word.is_empty()).collect();
    words.last().map(|word| (*word).to_owned())
}

impl Block {
    /// Returns true for a handle, of which the header has only the name.
    pub(super) fn is_opaque(&self) -> bool {
        self.code.len() == 1 && self.code[0].starts_with("typedef struct") && !self.code[0].contains('{')
    }

    /// Returns the declaration with its comment, as the header has it.
    pub(super) fn text(&self) -> String {
        let comment = told(&self.comment);
        let comment = match &comment[..] {
            [] => String::new(),
            [line] => format!("/* {line} */\n"),
            lines => format!("/*\n{} */\n", lines.iter().map(|line| starred(line)).collect::<String>()),
        };
        comment + &ascii(&fields(&self.code).join("\n"))
    }
}

fn starred(line: &str) -> String {
    if line.is_empty() { " *\n".to_owned() } else { format!(" * {line}\n") }
}

/// Returns a comment in C's terms: conditions behind "Requires", and none that every call has.
fn told(comment: &[String]) -> Vec<String> {
    let text = comment.join("\n");
    let (summary, safety) = text.split_once("# Safety").unwrap_or((&text, ""));
    let mut lines: Vec<_> = summary.trim().lines().map(ascii).collect();
    let safety = safety.trim().replace('\n', " ");
    if !safety.is_empty() && safety != "The conditions of every call." {
        lines.extend(wrapped(&format!("Requires: {safety}")));
    }
    lines
}

/// Returns the text in lines that fit.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in ascii(text).split(' ') {
        let last = lines.last_mut().expect("there is a line");
        if last.len() + word.len() > 95 {
            lines.push(word.to_owned());
        } else {
            let gap = if last.is_empty() { "" } else { " " };
            *last += &format!("{gap}{word}");
        }
    }
    lines
}

/// Returns the lines of a declaration, with comments of one line for fields that have one line.
fn fields(code: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut comment: Option<Vec<String>> = None;
    for line in code {
        let trimmed = line.trim();
        if comment.is_some() || trimmed.starts_with("/*") {
            let texts = comment.get_or_insert_default();
            texts.extend(inner(trimmed));
            if trimmed.ends_with("*/") {
                lines.extend(field_comment(&comment.take().unwrap_or_default()));
            }
        } else {
            lines.push(line.clone());
        }
    }
    lines
}

fn field_comment(texts: &[String]) -> Vec<String> {
    let last = texts.len().saturating_sub(1);
    let line = |(nth, text): (usize, &String)| {
        let open = if nth == 0 { "/*" } else { "  " };
        let close = if nth == last { " */" } else { "" };
        format!("    {open} {text}{close}")
    };
    texts.iter().enumerate().map(line).collect()
}

fn ascii(text: &str) -> String {
    text.replace('…', "...").replace('×', "x").replace('–', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_told_in_words_of_c() {
        let text = "/*\n * Frees it.\n *\n * # Safety\n * Nothing\n * uses it.\n */\nint f(void *a,\n      int b);\n";
        let blocks = of(text);
        assert_eq!(blocks[0].name, "f");
        let wanted = "/*\n * Frees it.\n * Requires: Nothing uses it.\n */\nint f(void *a,\n      int b);";
        assert_eq!(blocks[0].text(), wanted);
    }

    #[test]
    fn names_are_those_of_c() {
        assert_eq!(of("#define VMALLOC_H\n\n#define VMALLOC_HUGE 4\n")[0].name, "VMALLOC_HUGE");
        let names = |text: &str| of(text).into_iter().map(|block| block.name).collect::<Vec<_>>();
        assert_eq!(names("typedef struct a a;\n#define B 1\n"), ["a", "B"]);
        assert_eq!(names("typedef int (*call)(void *a);\ntypedef struct {\n  int x;\n} s;\n"), ["call", "s"]);
        assert_eq!(names("const uint64_t *numbers(const a *b);\n"), ["numbers"]);
    }
}
