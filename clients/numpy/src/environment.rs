//! The interpreter, with numpy, pytest and our package.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where this client is.
const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// An interpreter that has all that is needed.
#[derive(Clone, Debug)]
pub struct Environment {
    python: PathBuf,
}

impl Environment {
    /// Makes the environment of `cargo xtask python`, with our package, and adds what numpy's tests need.
    ///
    /// # Errors
    /// The machine lacks this: it has no Python, or no way to the packages.
    pub fn provide() -> Result<Self, String> {
        let root = Path::new(HERE).join("../..");
        // Its own target directory is that of the root, whichever is ours.
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.current_dir(&root).env_remove("CARGO_TARGET_DIR").args(["xtask", "python", "--build"]);
        if !succeeds(&mut build) {
            return Err("the package was not built".into());
        }
        let environment = Self { python: root.join("target/python-venv/bin/python") };
        if !environment.has("numpy, pytest, vmalloc") {
            return Err("python3 with venv, or numpy by pip, is not to be had here".into());
        }
        let install = ["-m", "pip", "install", "--quiet", "hypothesis"];
        if environment.has("hypothesis") || succeeds(environment.command().args(install)) {
            Ok(environment)
        } else {
            Err("pip could not install hypothesis, which numpy's tests need".into())
        }
    }

    /// Returns the interpreter, with the modules of this folder.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.python);
        command.env("PYTHONPATH", HERE).current_dir(HERE);
        command
    }

    fn has(&self, modules: &str) -> bool {
        succeeds(self.command().args(["-c", &format!("import {modules}")]).stderr(Stdio::null()))
    }
}

fn succeeds(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}
