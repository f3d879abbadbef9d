//! A redis server under a library: values that are set, appended to, and read back.

use super::scratch;
use super::under;
use anyhow::{Context, Error, Result, anyhow};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Keys, each of which grows to 100 KB.
const KEYS: usize = 1000;
const FIRST_BYTES: usize = 40_000;
const APPENDS: usize = 6;
const APPEND_BYTES: usize = 10_000;

/// The result of the load.
pub(super) struct Load {
    pub(super) peak_mib: f64,
    pub(super) cpu_s: f64,
    pub(super) faults: f64,
}

/// Runs the load on a server of its own, with the settings given. Every value is read back.
pub(super) fn load(library: Option<&Path>, settings: &[(&str, &str)]) -> Result<Load> {
    let socket = scratch()?.join(format!("redis-{}.socket", std::process::id()));
    let _ = fs::remove_file(&socket);
    let mut command = under(library, "redis-server", settings);
    command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(&socket);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = command.spawn().context("can't run redis-server")?;
    let done = converse(&socket, &mut server);
    if done.is_err() {
        let _ = server.kill();
    }
    let _ = fs::remove_file(&socket);
    let peak_mib = done?;
    let cost = super::measure::wait(server.id());
    let cost = cost.filter(|cost| cost.ended_well).ok_or_else(|| wrong("exit", "not well"))?;
    Ok(Load { peak_mib, cpu_s: cost.cpu_s, faults: cost.faults })
}

fn wrong(what: &'static str, why: impl ToString) -> Error {
    anyhow!("{what}: {}", why.to_string())
}

fn converse(socket: &Path, server: &mut Child) -> Result<f64> {
    let mut client = connect(socket)?;
    for key in 0..KEYS {
        client.expect(&[b"SET", name(key).as_bytes(), &value(key, FIRST_BYTES)], b"+OK")?;
    }
    for round in 0..APPENDS {
        for key in 0..KEYS {
            let length = format!(":{}", FIRST_BYTES + (round + 1) * APPEND_BYTES);
            client
                .expect(&[b"APPEND", name(key).as_bytes(), &value(key, APPEND_BYTES)], length.as_bytes())?;
        }
    }
    for key in 0..KEYS {
        client.expect_value(key)?;
    }
    let peak = peak_mib(server.id()).ok_or_else(|| wrong("peak", "no /proc"))?;
    client.send(&[b"SHUTDOWN", b"NOSAVE"])?;
    Ok(peak)
}

fn name(key: usize) -> String {
    format!("key{key}")
}

fn value(key: usize, bytes: usize) -> Vec<u8> {
    vec![b'a' + (key % 26) as u8; bytes]
}

/// Returns the most memory that a process has had.
fn peak_mib(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? / 1024.0)
}

fn connect(socket: &Path) -> Result<Client> {
    for _ in 0..200 {
        if let Ok(stream) = UnixStream::connect(socket) {
            let reader = BufReader::new(stream.try_clone().context("socket")?);
            return Ok(Client { stream, reader });
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(wrong("connect", "the server does not answer"))
}

struct Client {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Client {
    fn send(&mut self, words: &[&[u8]]) -> Result<()> {
        let mut text = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            text.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            text.extend_from_slice(word);
            text.extend_from_slice(b"\r\n");
        }
        self.stream.write_all(&text).context("send")
    }

    fn line(&mut self) -> Result<Vec<u8>> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line).context("receive")?;
        Ok(line.trim_ascii_end().to_vec())
    }

    fn expect(&mut self, words: &[&[u8]], answer: &[u8]) -> Result<()> {
        self.send(words)?;
        let line = self.line()?;
        if line == answer { Ok(()) } else { Err(wrong("answer", String::from_utf8_lossy(&line))) }
    }

    /// Reads a value back.
    fn expect_value(&mut self, key: usize) -> Result<()> {
        let bytes = FIRST_BYTES + APPENDS * APPEND_BYTES;
        self.expect(&[b"GET", name(key).as_bytes()], format!("${bytes}").as_bytes())?;
        let mut found = vec![0; bytes + 2];
        self.reader.read_exact(&mut found).context("receive")?;
        if found[..bytes] == value(key, bytes) { Ok(()) } else { Err(wrong("value", key)) }
    }
}
