use super::*;
use std::process::Command;
use std::{env, fs, process};

const BOUNDS: [Bounds; 3] = [
    bounds("allowance.toml", Kind::Allowances),
    bounds("bars.toml", Kind::Bars),
    bounds("size.rs", Kind::Constants(&["FILE", "MARGIN"])),
];

/// Constants whose last number is their bound, behind one with a longer name.
const SIZES: &str = "const FILES: u8 = 1;\nconst FILE: (&str, usize) = (\"v1\", 4_500);\n    pub(super) const MARGIN: f64 = 0.03;\n";
/// One of them is higher, the other lower.
const OTHER_SIZES: &str = "const FILE: usize = 4000;\npub(super) const MARGIN: f64 = 0.04;\n";

/// A repository of its own, removed when dropped.
struct Repository(std::path::PathBuf);

impl Repository {
    /// Returns one whose only commit allows `old` two words, a row 10, and a file 4,500 lines.
    fn new(name: &str) -> Self {
        let repository = Self(env::temp_dir().join(format!("vmalloc-ratchet-{}-{name}", process::id())));
        for name in ["old", "new"] {
            fs::create_dir_all(repository.0.join(name)).expect("a folder for tests");
        }
        repository.git(&["init", "--quiet", "--initial-branch", "trunk"]);
        repository.write("old/Cargo.toml", "");
        repository.write("allowance.toml", "[old]\nwords = 2\n");
        repository.write("bars.toml", "row = 10.0\n");
        repository.write("size.rs", SIZES);
        repository.commit();
        repository
    }

    fn git(&self, words: &[&str]) {
        let mut git = Command::new("git");
        git.arg("-C")
            .arg(&self.0)
            .args(["-c", "user.name=Test", "-c", "user.email=test@localhost"])
            .args(words);
        let output = git.output().expect("git is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.0.join(path), text).expect("a folder that can be written");
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", "a commit"]);
    }

    /// Returns the complaints without the commits that they name.
    fn complaints(&self) -> Vec<String> {
        let complaints = complaints(&History::of(&self.0), &BOUNDS).expect("files that can be read");
        let bare = |it: &String| it.rsplit_once(" (").map_or(it.clone(), |(what, _)| what.to_owned());
        let mut bare: Vec<String> = complaints.iter().map(bare).collect();
        bare.dedup();
        bare
    }

    fn has_parent(&self) -> bool {
        History::of(&self.0).has_parent()
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        // What cannot be removed stays in the folder for temporary files: no reason to fail.
        let _ = fs::remove_dir_all(&self.0);
    }
}

const RISEN: &str = "allowance.toml: old, words is 3, and was 2";

/// Files that are written, or removed, and what is told of them.
type Scene = (&'static [(&'static str, Option<&'static str>)], &'static [&'static str]);

const SCENES: [Scene; 5] = [
    (&[("allowance.toml", Some("[old]\nwords = 3\n"))], &[RISEN]),
    (
        &[("bars.toml", Some("row = 10.1\nword = \"30\"\n")), ("size.rs", Some(OTHER_SIZES))],
        &["bars.toml: row is 10.1, and was 10", "size.rs: MARGIN is 0.04, and was 0.03"],
    ),
    // A fall, what is new, and a row that is gone are no rise.
    (
        &[
            ("new/Cargo.toml", Some("")),
            ("allowance.toml", Some("[new]\nwords = 7\n")),
            ("bars.toml", Some("other = 99.0\n")),
            ("size.rs", Some("const FILE: usize = 4000;\nconst MARGIN: u8 = 0;\n")),
        ],
        &[],
    ),
    // A crate that was allowed nothing gets no allowance.
    (
        &[("allowance.toml", Some("[old]\nwords = 2\nsummaries = 1\n"))],
        &["allowance.toml: old, summaries is 1, and was 0"],
    ),
    (
        &[("allowance.toml", None), ("size.rs", Some(""))],
        &["allowance.toml: is gone", "size.rs: FILE is gone", "size.rs: MARGIN is gone"],
    ),
];

#[test]
fn what_rises_or_goes_is_told_before_it_is_committed_and_after() {
    for (nth, (files, told)) in SCENES.into_iter().enumerate() {
        let repository = Repository::new(&format!("scene-{nth}"));
        for (path, text) in files {
            match text {
                Some(text) => repository.write(path, text),
                None => fs::remove_file(repository.0.join(path)).expect("it is there"),
            }
        }
        assert_eq!(repository.complaints(), told);
        repository.commit();
        assert_eq!(repository.complaints(), told);
    }
}

#[test]
fn a_branch_of_several_commits_is_compared_with_where_it_began() {
    let repository = Repository::new("branch");
    repository.git(&["update-ref", "refs/remotes/origin/HEAD", "HEAD"]);
    repository.write("allowance.toml", "[old]\nwords = 3\n");
    repository.commit();
    repository.commit();
    assert_eq!(repository.complaints(), [RISEN]);
}

#[test]
fn a_merge_that_keeps_the_higher_number_is_a_rise() {
    let repository = Repository::new("merge");
    repository.git(&["branch", "side"]);
    repository.write("allowance.toml", "[old]\nwords = 1\n");
    repository.commit();
    repository.git(&["checkout", "--quiet", "side"]);
    repository.commit();
    repository.git(&["merge", "--quiet", "--no-ff", "--strategy", "ours", "trunk"]);
    assert_eq!(repository.complaints(), ["allowance.toml: old, words is 2, and was 1"]);
}

#[test]
fn without_a_parent_commit_it_is_not_run() {
    let repository = Repository::new("parent");
    assert!(!repository.has_parent(), "the first commit");
    repository.commit();
    assert!(repository.has_parent());
    let clone = Repository(repository.0.with_extension("clone"));
    let from = format!("file://{}", repository.0.display());
    repository.git(&["clone", "--quiet", "--depth", "1", &from, &clone.0.to_string_lossy()]);
    assert!(!clone.has_parent(), "a shallow clone");
    assert_eq!(clone.complaints(), [""; 0]);
    fs::remove_dir_all(clone.0.join(".git")).expect("it is there");
    assert!(!clone.has_parent(), "a tarball");
}
