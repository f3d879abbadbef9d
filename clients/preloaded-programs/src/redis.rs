//! A redis server under a library: values that are set, appended to, and read back.

use crate::measure::{self, Cost};
use crate::{Setup, scratch};
use anyhow::{Context, Error, Result, anyhow};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Keys, each of which grows to 100 KB.
const KEYS: usize = 1000;
const FIRST_BYTES: usize = 40_000;
const APPENDS: usize = 6;
const APPEND_BYTES: usize = 10_000;

/// Runs the load on a server of its own. Every value is read back.
pub(super) fn run(setup: &Setup<'_>) -> Result<Cost> {
    let socket = scratch()?.join(format!("redis-{}.socket", std::process::id()));
    let _ = fs::remove_file(&socket);
    let mut command = setup.command("redis-server");
    command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(&socket);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = command.spawn().context("can't run redis-server")?;
    let done = converse(&socket);
    if done.is_err() {
        let _ = server.kill();
    }
    let _ = fs::remove_file(&socket);
    done?;
    measure::ended(server.id(), "redis-server")
}

fn wrong(what: &'static str, why: impl ToString) -> Error {
    anyhow!("{what}: {}", why.to_string())
}

fn converse(socket: &Path) -> Result<()> {
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
    client.send(&[b"SHUTDOWN", b"NOSAVE"])
}

fn name(key: usize) -> String {
    format!("key{key}")
}

fn value(key: usize, bytes: usize) -> Vec<u8> {
    vec![b'a' + (key % 26) as u8; bytes]
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
