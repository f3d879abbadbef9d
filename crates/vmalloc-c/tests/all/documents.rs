//! The examples in C of the documents, compiled and run.

use crate::common::{CRATE, compile_text, run, succeeded};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the examples of a document.
fn examples(text: &str) -> Vec<String> {
    let blocks = text.split("```c\n").skip(1);
    blocks.filter_map(|block| Some(block.split_once("```")?.0.to_owned())).collect()
}

/// Returns an example as a whole program.
fn whole(example: &str) -> String {
    let includes = "#include \"check.h\"\n";
    if example.contains("int main(") {
        return format!("{includes}{example}");
    }
    format!("{includes}int main(void)\n{{\n{example}\nreturn 0;\n}}\n")
}

fn documents() -> Vec<PathBuf> {
    let folder = Path::new(CRATE).join("../../docs/c");
    let pages = fs::read_dir(folder).expect("the pages are there").map(|entry| entry.expect("a page").path());
    pages.chain(["README.md", "../../README.md"].map(|name| Path::new(CRATE).join(name))).collect()
}

#[test]
fn every_example_of_the_documents_runs() {
    let mut count = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).expect("it can be read");
        for (nth, example) in examples(&text).iter().enumerate() {
            let stem = path.file_stem().expect("a name").to_string_lossy();
            let name = format!("{stem}-{nth}");
            let program =
                compile_text(&whole(example), &name).unwrap_or_else(|error| panic!("{name}: {error}"));
            succeeded(&name, &run(&[], &program));
            count += 1;
        }
    }
    assert!(count >= 11, "only {count} examples were found");
}
