//! A declaration as cbindgen writes it, and as the header has it.

/// A comment, and a declaration or a constant behind it.
pub(super) struct Declaration(String);

impl Declaration {
    pub(super) fn of(text: &str) -> Self {
        Self(text.replace('…', "...").replace('×', "x").replace('–', "-"))
    }

    /// Returns it without the comment in front.
    pub(super) fn code(&self) -> &str {
        let behind = self.0.strip_prefix("/*").and_then(|text| text.split_once("*/"));
        behind.map_or(&*self.0, |(_, code)| code.trim_start())
    }

    /// Returns the name that it declares.
    pub(super) fn name(&self) -> String {
        let code = self.code();
        let is_word = |sign: char| sign.is_alphanumeric() || sign == '_';
        // A constant, and a pointer to a function, begin with it.
        if let Some(rest) = code.strip_prefix("#define ").or_else(|| Some(code.split_once("(*")?.1)) {
            return rest.chars().take_while(|&sign| is_word(sign)).collect();
        }
        let head = if code.contains('}') { code } else { code.split('(').next().unwrap_or(code) };
        let mut words = head.split(|sign| !is_word(sign)).filter(|word| !word.is_empty());
        words.next_back().unwrap_or_default().to_owned()
    }

    /// Returns true for a handle, of which the header has only the name.
    pub(super) fn is_handle(&self) -> bool {
        self.code().starts_with("typedef struct") && !self.code().contains('{')
    }

    /// Returns it with its comments in C's terms.
    pub(super) fn text(&self) -> String {
        let mut parts = self.0.split("/*");
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (comment, code) = part.split_once("*/").unwrap_or((part, ""));
            let bare = |line: &'_ str| {
                let line = line.trim().trim_start_matches('*');
                line.strip_prefix(' ').unwrap_or(line).to_owned()
            };
            let lines = told(comment.lines().map(bare).collect::<Vec<_>>().join("\n").trim());
            // A comment of several lines is a frame before a declaration, and none before a field.
            text += &match (&lines[..], text.is_empty()) {
                ([line], _) => format!("/* {line} */"),
                (lines, true) => format!("/*\n * {}\n */", lines.join("\n * ").replace("* \n", "*\n")),
                (lines, false) => format!("/* {} */", lines.join("\n       ")),
            };
            text += code;
        }
        text
    }

    /// Returns the macro that initializes a struct whose size is in front: zeros, each written, so that no compiler
    /// warns. All else has none.
    pub(super) fn initializer(&self) -> String {
        let Some((_, body)) = self.code().split_once('{') else { return String::new() };
        let Some((body, name)) = body.rsplit_once('}') else { return String::new() };
        let comments = body.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, code)| code));
        let body: String = comments.collect();
        let mut fields = body.trim().trim_end_matches(';').split(';');
        if fields.next() != Some("size_t size") {
            return String::new();
        }
        let name = name.trim_matches([' ', ';']);
        let zeros =
            fields.map(|field| if field.contains('[') { ", { 0 }" } else { ", 0" }).collect::<String>();
        format!("\n#define {}_INIT \\\n    {{ sizeof({name}){zeros} }}\n", name.to_uppercase())
    }
}

/// Returns a comment in C's terms: conditions behind "Requires", and none that every call has.
fn told(comment: &str) -> Vec<String> {
    let (summary, safety) = comment.split_once("# Safety").unwrap_or((comment, ""));
    let mut lines: Vec<_> = summary.trim().lines().map(str::to_owned).collect();
    let safety = safety.trim().replace('\n', " ");
    if !safety.is_empty() && safety != "The conditions of every call." {
        lines.extend(wrapped(&format!("Requires: {safety}")));
    }
    lines
}

/// Returns the text in lines that fit.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
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
