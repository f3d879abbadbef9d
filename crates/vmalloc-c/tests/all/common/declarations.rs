//! The declarations of a header, without comments: its interface, as programs are compiled for it.
//! `cargo xtask header` reads this file too.

/// Returns the declarations and the constants, each in one line. Initializers and the version are
/// not among them: those of a later header differ.
pub(crate) fn of(header: &str) -> Vec<String> {
    let code = without_comments(header).replace("\\\n", " ");
    let (mut all, mut text) = (Vec::new(), String::new());
    for line in code.lines().map(str::trim).filter(|line| !is_frame(line)) {
        if let Some(constant) = line.strip_prefix("#define ") {
            if !constant.contains("sizeof") && !constant.starts_with("VMALLOC_VERSION") {
                all.push(one_line(line));
            }
            continue;
        }
        text += line;
        text.push(' ');
        if line.ends_with(';') && text.matches('{').count() == text.matches('}').count() {
            all.push(one_line(&text));
            text.clear();
        }
    }
    all
}

/// Returns a source with a body for each function of a header, which defines all its symbols.
pub(crate) fn stubs(header: &str) -> String {
    let functions = of(header).into_iter().filter(|it| it.ends_with(");") && !it.starts_with("typedef"));
    let bodies = functions.map(|it| format!("{} {{ __builtin_trap(); }}\n", it.trim_end_matches(';')));
    format!("#include <vmalloc.h>\n{}", bodies.collect::<String>())
}

/// Returns the names of the functions.
pub(crate) fn functions(header: &str) -> Vec<String> {
    let is_function = |it: &String| it.ends_with(");") && !it.starts_with("typedef");
    let name = |it: String| it.split('(').next()?.rsplit([' ', '*']).next().map(str::to_owned);
    of(header).into_iter().filter(is_function).filter_map(name).collect()
}

fn is_frame(line: &&str) -> bool {
    let starts = ["#if", "#endif", "#include", "extern \"C\"", "}\n"];
    line.is_empty()
        || ["}", "#define VMALLOC_H"].contains(line)
        || starts.iter().any(|start| line.starts_with(start))
}

fn without_comments(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("/*") {
        code += before;
        rest = comment.split_once("*/").map_or("", |(_, behind)| behind);
    }
    code + rest
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(")
}
