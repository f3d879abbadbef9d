//! The loads that are measured: command lines of a table, and servers whose answers are verified.

use crate::measure::{self, Cost};
use crate::{Setup, kept, memcached, not_run, postgres, programs, redis, tools};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::mem;
use std::path::PathBuf;

/// The table: for each name the words of its command lines.
const TABLE: &str = include_str!("../loads/loads.toml");

type Table = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// Something that is measured.
pub struct Load {
    /// Its name.
    pub name: String,
    /// The programs that have to be there.
    needs: Vec<String>,
    /// The command line that makes its input.
    make: Option<Vec<String>>,
    run: Run,
}

enum Run {
    Words(Vec<String>),
    /// Starts a server, and verifies what it answers.
    Server(fn(&Setup<'_>) -> Result<Cost>),
}

/// Returns the servers.
pub fn servers() -> Vec<Load> {
    let server = |name: &str, program: &str, run| Load {
        name: name.to_owned(),
        needs: vec![program.to_owned()],
        make: None,
        run: Run::Server(run),
    };
    vec![
        server("memcached", "memcached", memcached::run),
        server("PostgreSQL", "/usr/lib/postgresql/15/bin/postgres", postgres::run),
        server("redis", "redis-server", redis::run),
    ]
}

/// Returns all loads.
///
/// # Errors
/// Their inputs can't be made.
pub fn all() -> Result<Vec<Load>> {
    let show = |path: PathBuf| path.display().to_string();
    let places = [
        ("{text}", show(tools::text(24)?)),
        ("{less}", show(tools::text(3)?)),
        ("{loads}", show(tools::loads())),
        ("{scratch}", show(kept()?)),
        ("{python}", tools::python_with_packages()?.map_or("numpy".into(), show)),
        ("{strings}", programs::STRINGS.to_owned()),
    ];
    let mut table = parse()?;
    for word in table.values_mut().flat_map(BTreeMap::values_mut).flatten() {
        *word = places.iter().fold(mem::take(word), |word, (name, path)| word.replace(name, path));
    }
    let of_table = table.into_iter().map(|(name, mut lines)| {
        let words = lines.remove("run").unwrap_or_default();
        let needs = lines.remove("needs").unwrap_or_else(|| words[..1].to_vec());
        Load { name, needs, make: lines.remove("make"), run: Run::Words(words) }
    });
    Ok(of_table.chain(servers()).collect())
}

fn parse() -> Result<Table> {
    toml::from_str(TABLE).context("loads.toml")
}

impl Load {
    /// Returns true if its programs are installed, and tells where one is not.
    pub fn is_there(&self) -> bool {
        let missing = self.needs.iter().find(|program| !tools::is_installed(program));
        if let Some(program) = missing {
            not_run(&self.name, format!("{program} is not installed"));
        }
        missing.is_none()
    }

    /// Makes its input.
    ///
    /// # Errors
    /// That fails.
    pub fn make(&self) -> Result<()> {
        let made = self.make.as_ref().map(|words| measure::run(words, &Setup::NONE)).transpose()?;
        ensure!(made.is_none_or(|cost| cost.ended_well), "the input of {} can't be made", self.name);
        Ok(())
    }

    /// Runs it.
    ///
    /// # Errors
    /// It can't be started, or a server answers what it should not.
    pub fn run(&self, setup: &Setup<'_>) -> Result<Cost> {
        match &self.run {
            Run::Words(words) => measure::run(words, setup),
            Run::Server(run) => run(setup),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_load_runs_a_command_and_has_no_line_of_another_name() {
        for (name, lines) in super::parse().expect("TOML") {
            assert!(lines.get("run").is_some_and(|words| !words.is_empty()), "{name} runs nothing");
            assert!(lines.keys().all(|line| ["make", "needs", "run"].contains(&line.as_str())), "{name}");
        }
    }
}
