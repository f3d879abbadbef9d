//! Files as earlier commits have them.

use anyhow::{Context, Result};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Enough of a hash to name one commit.
const HASH_LETTERS: usize = 16;

/// The commits to compare a folder with.
pub(super) struct History {
    folder: PathBuf,
    /// The last one, where there is one, its parents, and where it left the default branch.
    commits: Vec<String>,
    has_parent: bool,
}

impl History {
    pub(super) fn of(folder: &Path) -> Self {
        let hashes = |words: &[&str]| {
            let text = git(folder, words).unwrap_or_default();
            text.lines().map(|hash| hash.chars().take(HASH_LETTERS).collect()).collect::<Vec<String>>()
        };
        let parents = hashes(&["rev-parse", "HEAD^@"]);
        let has_parent = !parents.is_empty();
        // A branch of several commits is compared with the commit where it began as well.
        let others =
            [hashes(&["rev-parse", "HEAD"]), hashes(&["merge-base", "HEAD", "origin/HEAD"]), parents];
        let mut commits = others.concat();
        commits.sort_unstable();
        commits.dedup();
        Self { folder: folder.to_owned(), commits, has_parent }
    }

    pub(super) fn has_parent(&self) -> bool {
        self.has_parent
    }

    pub(super) fn commits(&self) -> &[String] {
        &self.commits
    }

    /// Returns a file of a commit, if it has it.
    pub(super) fn read(&self, commit: &str, path: &str) -> Option<String> {
        git(&self.folder, &["show", &format!("{commit}:./{path}")])
    }

    /// Returns whether a commit has a file.
    pub(super) fn has(&self, commit: &str, path: &str) -> bool {
        git(&self.folder, &["cat-file", "-e", &format!("{commit}:./{path}")]).is_some()
    }

    /// Returns a file as it is now, if it is there.
    pub(super) fn read_now(&self, path: &str) -> Result<Option<String>> {
        match fs::read_to_string(self.folder.join(path)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context(path.to_owned()),
        }
    }
}

/// Returns what git prints, unless it fails.
fn git(folder: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(words).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
