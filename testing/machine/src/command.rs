//! Commands: a line of `/commands`, and the process that it describes.

use rustix::process::{Pid, Signal, kill_process_group};
use std::fmt;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ExitStatus, Stdio};
use std::str::FromStr;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often a process is asked whether it has ended.
const PAUSE: Duration = Duration::from_millis(20);

/// A command. Its line has a name, the most seconds, `proc` or `no-proc`, settings `NAME=VALUE`
/// with a space between, and words; a tab stands between any two of these and of the words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) name: String,
    limit: Duration,
    /// True if /proc is not mounted while the command runs.
    pub(crate) without_proc: bool,
    settings: Vec<(String, String)>,
    words: Vec<String>,
}

/// How a command ended.
pub(crate) enum End {
    Ended(ExitStatus),
    Late,
    NotStarted(io::Error),
}

impl FromStr for Command {
    type Err = &'static str;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let mut fields = line.split('\t');
        let mut field = |what| fields.next().ok_or(what);
        let name = field("no name")?.to_owned();
        let seconds = field("no limit")?.parse().map_err(|_| "a limit that is no number")?;
        let without_proc = field("nothing about /proc")? == "no-proc";
        let settings = field("no settings")?.split_whitespace();
        let settings = settings.filter_map(|setting| setting.split_once('='));
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let words: Vec<_> = fields.map(str::to_owned).collect();
        if words.is_empty() {
            return Err("no program");
        }
        Ok(Self { name, limit: Duration::from_secs(seconds), without_proc, settings, words })
    }
}

impl Command {
    /// Runs the command in a group of processes of its own, which ends with it.
    pub(crate) fn run(&self) -> End {
        let mut process = std::process::Command::new(&self.words[0]);
        process.args(&self.words[1..]).current_dir("/tmp").stdin(Stdio::null()).process_group(0);
        process.env("PATH", "/bin").env("HOME", "/tmp").env("TMPDIR", "/tmp");
        process.envs(self.settings.iter().map(|(name, value)| (name, value)));
        let child = process.spawn();
        child.and_then(|child| self.wait(child)).unwrap_or_else(End::NotStarted)
    }

    fn wait(&self, mut child: Child) -> io::Result<End> {
        let start = Instant::now();
        while start.elapsed() < self.limit {
            if let Some(status) = child.try_wait()? {
                return Ok(End::Ended(status));
            }
            sleep(PAUSE);
        }
        kill_process_group(Pid::from_child(&child), Signal::KILL)?;
        child.wait()?;
        Ok(End::Late)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(status) => match status.signal() {
                Some(signal) => write!(f, "signal {signal}"),
                None => write!(f, "exit {}", status.code().unwrap_or(-1)),
            },
            Self::Late => write!(f, "late"),
            Self::NotStarted(error) => write!(f, "not started: {error}"),
        }
    }
}
