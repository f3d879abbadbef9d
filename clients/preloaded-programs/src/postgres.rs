//! PostgreSQL: a server of its own, and one session of large sorts, strings and joins.

use crate::measure::{Cost, ended};
use crate::{Setup, scratch, signal};
use anyhow::{Context, Error, Result, anyhow};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

const FOLDER: &str = "/usr/lib/postgresql/15/bin";
const SORTS: &str = include_str!("../loads/sorts.sql");
/// The answers of a server without any library, to which all others are compared.
static ANSWERS: Mutex<Option<String>> = Mutex::new(None);

pub(super) fn run(setup: &Setup<'_>) -> Result<Cost> {
    let home = Home::get()?;
    let mut right = ANSWERS.lock().unwrap_or_else(|poison| poison.into_inner());
    if right.is_none() {
        *right = Some(home.play(&Setup::NONE)?.1);
    }
    let (cost, answers) = home.play(setup)?;
    if right.as_ref() == Some(&answers) { Ok(cost) } else { Err(wrong(format!("other answers: {answers}"))) }
}

fn wrong(why: impl ToString) -> Error {
    anyhow!("PostgreSQL: {}", why.to_string())
}

/// A folder with an empty database, of a user that is not root: the server refuses to run as root.
struct Home {
    folder: PathBuf,
    user: Option<(u32, u32)>,
}

impl Home {
    fn get() -> Result<Self> {
        let home = Self { folder: scratch()?.join("postgres"), user: user()? };
        if !home.folder.join("data").exists() {
            home.make()?;
        }
        Ok(home)
    }

    fn make(&self) -> Result<()> {
        fs::create_dir_all(&self.folder).context("mkdir")?;
        fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o755)).context("mkdir")?;
        if let Some((user, group)) = self.user {
            chown(&self.folder, Some(user), Some(group)).context("mkdir")?;
        }
        let data = self.folder.join("data").display().to_string();
        let made =
            self.command("initdb", &["-D", &data, "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]).output();
        let made = made.context("initdb")?;
        if made.status.success() { Ok(()) } else { Err(wrong(String::from_utf8_lossy(&made.stderr))) }
    }

    /// Returns a command of PostgreSQL's, as its user.
    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(Path::new(FOLDER).join(program));
        command.args(words).current_dir(&self.folder).stdin(Stdio::null()).env("LC_ALL", "C");
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }

    /// Runs a server, and the session on it. Returns what it cost, and what it answered.
    fn play(&self, setup: &Setup<'_>) -> Result<(Cost, String)> {
        let (data, here) =
            (self.folder.join("data").display().to_string(), self.folder.display().to_string());
        let words = [
            "-D",
            &data,
            "-k",
            &here,
            "-h",
            "",
            "-c",
            "fsync=off",
            "-c",
            "shared_buffers=32MB",
            "-c",
            "jit=off",
        ];
        let mut server = self.command("postgres", &words);
        setup.apply(&mut server);
        let server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = server.context("postgres")?;
        let answers = self.answers(&here);
        // A fast shutdown: all sessions are ended.
        signal(server.id(), libc::SIGINT);
        let cost = ended(server.id(), "PostgreSQL");
        Ok((cost?, answers?))
    }

    fn answers(&self, here: &str) -> Result<String> {
        let session = |sql: &str| {
            let words = ["-h", here, "-d", "postgres", "-At", "-v", "ON_ERROR_STOP=1", "-c", sql];
            self.command("psql", &words).output().context("psql")
        };
        for _ in 0..200 {
            if session("SELECT 1")?.status.success() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let done = session(SORTS)?;
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        if done.status.success() { Ok(text) } else { Err(wrong(String::from_utf8_lossy(&done.stderr))) }
    }
}

/// Returns user and group of the account `postgres` if this process is root's.
fn user() -> Result<Option<(u32, u32)>> {
    // SAFETY: the call has no conditions.
    if unsafe { libc::getuid() } != 0 {
        return Ok(None);
    }
    let text = fs::read_to_string("/etc/passwd").context("passwd")?;
    let line = text.lines().find(|line| line.starts_with("postgres:"));
    let fields: Vec<_> = line.unwrap_or_default().split(':').collect();
    match fields[..] {
        [_, _, user, group, ..] => Ok(user.parse().ok().zip(group.parse().ok())),
        _ => Err(wrong("there is no user postgres")),
    }
}
