//! Programs whose answer must not depend on the library.

use crate::{kept, tools};
use anyhow::Result;
use std::path::PathBuf;

/// A command line, whose output and exit are compared.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// What has to be installed.
    pub(super) needs: &'static str,
    pub(super) words: Vec<String>,
}

impl Program {
    fn new(name: &'static str, needs: &'static str, words: &[&str]) -> Self {
        Self { name, needs, words: words.iter().map(ToString::to_string).collect() }
    }

    fn shell(name: &'static str, needs: &'static str, script: String) -> Self {
        Self::new(name, needs, &["sh", "-c", &script])
    }
}

/// A document of about 2 MB that is written, compressed, unpacked and parsed again, many times.
pub(crate) const STRINGS: &str = "
const zlib = require('zlib');
const rows = Array.from({ length: 20000 }, (_, n) => ({ n, name: 'row ' + n, text: 'x'.repeat(n % 120) }));
let total = 0;
for (let round = 0; round < 12; round++) {
  rows[round].name = 'round ' + round;
  const bytes = Buffer.from(JSON.stringify(rows));
  const back = JSON.parse(zlib.inflateSync(zlib.deflateSync(bytes, { level: 1 })).toString());
  for (const row of back) total += row.n + row.text.length;
}
console.log(total);
";

/// Returns all programs.
pub(super) fn all() -> Result<Vec<Program>> {
    let (loads, text, scratch) = (tools::loads(), tools::text(8)?, kept()?);
    let show = |path: PathBuf| path.display().to_string();
    let (text, folder) = (show(text), show(scratch));
    let (tables, words, buffers) =
        (show(loads.join("tables.sql")), show(loads.join("words.cpp")), show(loads.join("buffers.js")));
    Ok(vec![
        Program::shell("sqlite3", "sqlite3", format!("sqlite3 :memory: < {tables}")),
        Program::new("sort", "sort", &["sort", "--parallel=2", &text]),
        Program::shell("xz", "xz", format!("xz -6 -T2 -c {text} | xz -dc | cmp - {text} && echo same")),
        Program::new("git log", "git", &["git", "log", "-p", "-n", "60"]),
        Program::shell(
            "git clone",
            "git",
            format!(
                "rm -rf {folder}/clone && git clone -q . {folder}/clone && cd {folder}/clone && git fsck && git gc -q && git rev-parse HEAD"
            ),
        ),
        Program::shell("g++", "g++", format!("g++ -O1 {words} -o {folder}/words && {folder}/words")),
        Program::new("node", "node", &["node", &buffers]),
        Program::new("node strings", "node", &["node", "-e", STRINGS]),
        Program::shell(
            "perl",
            "perl",
            format!("perl -ne '$n{{$_}}++; END {{ print scalar(keys %n), chr(10) }}' {text}"),
        ),
        Program::shell("tar", "tar", format!("tar cf - crates | tar tf - | sort | cksum; cksum < {text}")),
    ])
}
