//! memcached: values of many sizes, replaced by others, and read back.

use crate::measure::{Cost, ended};
use crate::{Setup, scratch, signal};
use anyhow::{Context, Error, Result, anyhow};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const KEYS: u64 = 6000;
/// Sizes of values: from tens of bytes to what spans several of its slabs.
const LARGEST: u64 = 60_000;
/// How often each value is replaced by one of another size.
const ROUNDS: u64 = 3;

pub(super) fn run(setup: &Setup<'_>) -> Result<Cost> {
    let socket = scratch()?.join("memcached.socket");
    let _ = std::fs::remove_file(&socket);
    let mut command = Command::new("memcached");
    command.args(["-u", "root", "-t", "2", "-m", "1024", "-s"]).arg(&socket);
    setup.apply(&mut command);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let server = command.spawn().context("memcached")?;
    let done = converse(&socket);
    signal(server.id(), libc::SIGTERM);
    let cost = ended(server.id(), "memcached");
    done?;
    cost
}

fn wrong(why: impl ToString) -> Error {
    anyhow!("memcached: {}", why.to_string())
}

/// Returns the value of a key in a round: its size and its content follow from both.
fn value(key: u64, round: u64) -> Vec<u8> {
    let mixed = (key * ROUNDS + round).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    vec![b'a' + (mixed % 26) as u8; (20 + mixed % LARGEST) as usize]
}

fn converse(socket: &Path) -> Result<()> {
    let stream = connect(socket)?;
    let mut reader = BufReader::new(stream.try_clone().map_err(wrong)?);
    for round in 0..ROUNDS {
        for key in 0..KEYS {
            set(&stream, &mut reader, key, &value(key, round))?;
        }
        for key in 0..KEYS {
            get(&stream, &mut reader, key, &value(key, round))?;
        }
    }
    Ok(())
}

fn set(mut stream: &UnixStream, reader: &mut impl BufRead, key: u64, value: &[u8]) -> Result<()> {
    let mut text = format!("set key{key} 0 0 {}\r\n", value.len()).into_bytes();
    text.extend_from_slice(value);
    text.extend_from_slice(b"\r\n");
    stream.write_all(&text).map_err(wrong)?;
    expect(reader, "STORED")
}

fn get(mut stream: &UnixStream, reader: &mut impl BufRead, key: u64, value: &[u8]) -> Result<()> {
    stream.write_all(format!("get key{key}\r\n").as_bytes()).map_err(wrong)?;
    expect(reader, &format!("VALUE key{key} 0 {}", value.len()))?;
    let mut found = vec![0; value.len() + 2];
    reader.read_exact(&mut found).map_err(wrong)?;
    if found[..value.len()] != *value {
        return Err(wrong(format!("key {key} has another value")));
    }
    expect(reader, "END")
}

fn expect(reader: &mut impl BufRead, answer: &str) -> Result<()> {
    let mut line = String::new();
    reader.read_line(&mut line).map_err(wrong)?;
    if line.trim_end() == answer { Ok(()) } else { Err(wrong(format!("{line:?} instead of {answer:?}"))) }
}

fn connect(socket: &Path) -> Result<UnixStream> {
    for _ in 0..200 {
        if let Ok(stream) = UnixStream::connect(socket) {
            return Ok(stream);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(wrong("the server does not answer"))
}
