//! The crates of `crates/`, as cargo tells them.

use crate::process;
use anyhow::{Context, Result};
use serde_json::Value;
use std::process::Command;

/// A crate of `crates/`.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The least Rust that it says it builds with.
    pub(crate) rust_version: String,
    pub(crate) is_published: bool,
}

/// Returns the crates of `crates/`, by their names.
pub(crate) fn all() -> Result<Vec<Package>> {
    let words = ["metadata", "--no-deps", "--format-version", "1"];
    read(process::output(Command::new("cargo").args(words))?.as_bytes())
}

fn read(metadata: &[u8]) -> Result<Vec<Package>> {
    let metadata: Value = serde_json::from_slice(metadata).context("cargo metadata")?;
    let root = metadata["workspace_root"].as_str().context("cargo metadata tells no root")?;
    let folder = format!("{root}/crates/");
    let packages = metadata["packages"].as_array().context("cargo metadata tells no packages")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ours = packages.iter().filter(|it| text(&it["manifest_path"]).starts_with(&folder));
    let mut found: Vec<_> = ours
        .map(|it| Package {
            name: text(&it["name"]),
            version: text(&it["version"]),
            rust_version: text(&it["rust_version"]),
            // `publish = false` is an empty list of registries.
            is_published: it["publish"].is_null(),
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_that_may_not_be_published_and_those_of_other_folders_are_told_apart() {
        let metadata = r#"{"workspace_root": "/r", "packages": [
            {"name": "b", "version": "0.1.0", "rust_version": "1.85", "publish": null, "manifest_path": "/r/crates/b/Cargo.toml"},
            {"name": "a", "version": "0.1.0", "rust_version": "1.85", "publish": [], "manifest_path": "/r/crates/a/Cargo.toml"},
            {"name": "t", "version": "0.1.0", "rust_version": null, "publish": [], "manifest_path": "/r/testing/t/Cargo.toml"}]}"#;
        let found = read(metadata.as_bytes()).unwrap();
        let told: Vec<_> = found.iter().map(|it| (it.name.as_str(), it.is_published)).collect();
        assert_eq!(told, [("a", false), ("b", true)]);
    }
}
