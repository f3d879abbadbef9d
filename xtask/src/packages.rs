//! The crates of `crates/`, as cargo tells them.

use anyhow::Result;
use cargo_metadata::{MetadataCommand, Package};

/// Returns the crates of `crates/`, by their names.
pub(crate) fn all() -> Result<Vec<Package>> {
    let metadata = MetadataCommand::new().no_deps().exec()?;
    let folder = metadata.workspace_root.join("crates");
    let mut packages = metadata.packages;
    packages.retain(|package| package.manifest_path.starts_with(&folder));
    packages.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(packages)
}

/// Returns true unless it says `publish = false`: an empty list of registries.
pub(crate) fn is_published(package: &Package) -> bool {
    package.publish.is_none()
}
