//! node: buffers that come and go, and strings. What it prints is compared with what is right.

use super::{Cost, Error, Setup, ended};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

/// 64 live buffers of 1 MiB, of which one is replaced at each of 6,000 steps: the load of `cargo xtask preload`.
pub(super) fn buffers(setup: &Setup<'_>) -> Result<Cost, Error> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/benches/loads/buffers.js");
    play(setup, &[script.to_str().unwrap_or_default()], &expected_buffers())
}

/// Returns the sum that the script should print: at each step it reads one byte of the buffer that it replaces.
fn expected_buffers() -> String {
    let mut live = [None; 64];
    let mut total = 0;
    for step in 0..6000_u64 {
        let place = &mut live[(step * 7919 % 64) as usize];
        total += place.unwrap_or(0);
        *place = Some(step & 255);
    }
    total.to_string()
}

/// A document of about 2 MB that is written, compressed, unpacked and parsed again, many times.
const STRINGS: &str = "
const zlib = require('zlib');
const rows = Array.from({ length: 20000 }, (_, n) => ({ n, name: 'row ' + n, text: 'x'.repeat(n % 120) }));
let total = 0;
for (let round = 0; round < 12; round++) {
  rows[round].name = 'round ' + round;
  const bytes = Buffer.from(JSON.stringify(rows));
  const back = JSON.parse(zlib.inflateSync(zlib.deflateSync(bytes, { level: 1 })).toString());
  for (const row of back) total += row.n + row.text.length;
}
console.log(total);
";

pub(super) fn strings(setup: &Setup<'_>) -> Result<Cost, Error> {
    let total: u64 = 12 * (0..20_000_u64).map(|n| n + n % 120).sum::<u64>();
    play(setup, &["-e", STRINGS], &total.to_string())
}

fn play(setup: &Setup<'_>, words: &[&str], answer: &str) -> Result<Cost, Error> {
    let cause = |cause| Error::Run { what: "node".into(), cause };
    let mut command = Command::new("node");
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    setup.apply(&mut command);
    let mut child = command.spawn().map_err(cause)?;
    let mut text = String::new();
    child.stdout.take().map_or(Ok(0), |mut out| out.read_to_string(&mut text)).map_err(cause)?;
    let cost = ended(child.id(), "node")?;
    if text.trim_end() == answer {
        return Ok(cost);
    }
    Err(Error::Wrong { program: "node", why: format!("{text:?} instead of {answer:?}") })
}
