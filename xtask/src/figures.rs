//! `cargo xtask figures`: times that documents tell, beside what their commands print today.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

/// Run the commands of the times in README.md and docs/numbers.md, and compare
///
/// docs/figures.toml names the lines, their commands, and by how many percent a measured time may differ from the one that is
/// told. The machine should be the one that README names, and quiet.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the times of these commands.
    names: Vec<String>,
}

const PATH: &str = "docs/figures.toml";

pub(crate) fn run(Args { names }: &Args) -> Result<()> {
    let text = fs::read_to_string(PATH).with_context(|| PATH)?;
    let plan: toml::Table = text.parse().with_context(|| PATH)?;
    let percent = plan["tolerance_percent"].as_integer().context("tolerance_percent is no number")? as f64;
    let mut printed = BTreeMap::new();
    let (mut compared, mut apart) = (0, Vec::new());
    for time in plan["time"].as_array().context("no times")? {
        let name = time["command"].as_str().context("a command is a name")?;
        if !names.is_empty() && !names.iter().any(|it| it == name) {
            continue;
        }
        if !printed.contains_key(name) {
            printed.insert(name, output(&plan["command"][name])?);
        }
        for (told, row) in numbers(time)?.into_iter().zip(time["rows"].as_array().context("no rows")?) {
            let row = row.as_table().context("a row is a table")?;
            let field = time["field"].as_str().context("a field is a path")?;
            let words: Vec<_> = row.values().filter_map(toml::Value::as_str).collect();
            let measured = find(&printed[name], row, field);
            let today = measured.map_or("not measured".to_owned(), |it| format!("measured {it:.4}"));
            let line = format!("{name}: {}: told {told}, {today}", words.join(", "));
            println!("{line}");
            compared += 1;
            if !measured.is_some_and(|measured| agree(told, measured, percent)) {
                apart.push(line);
            }
        }
    }
    ensure!(compared != 0, "no time was compared: there is no command {names:?}");
    if !apart.is_empty() {
        bail!(
            "{} of {compared} times are not measured, or not within ±{percent} % of what is told:\n{}",
            apart.len(),
            apart.join("\n")
        );
    }
    Ok(())
}

/// Returns true if the measured time is the one that is told, to so many percent.
fn agree(told: f64, measured: f64, percent: f64) -> bool {
    (measured - told).abs() <= told * percent / 100.0
}

/// Runs a command with `--json` behind its words.
fn output(command: &toml::Value) -> Result<Value> {
    let words = command["words"].as_str().context("words are text")?;
    let folder = command.get("folder").and_then(toml::Value::as_str).unwrap_or(".");
    let dashes = if words.contains(" -- ") { vec!["--json"] } else { vec!["--", "--json"] };
    let mut all = words.split_whitespace().chain(dashes);
    let program = all.next().context("a command has words")?;
    eprintln!("{folder}: {words}");
    let output = Command::new(program).args(all).current_dir(folder).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{words} ended with {}", output.status);
    serde_json::from_slice(&output.stdout).with_context(|| format!("{words} printed no JSON"))
}

/// Returns the numbers of the line of a document, those of its beginning left out.
fn numbers(time: &toml::Value) -> Result<Vec<f64>> {
    let (file, begins) = (time["file"].as_str().unwrap_or(""), time["begins"].as_str().unwrap_or(""));
    let text = fs::read_to_string(file).with_context(|| file.to_owned())?;
    let line = text.lines().find_map(|line| line.strip_prefix(begins));
    let line = line.with_context(|| format!("no line of {file} begins with {begins:?}"))?;
    let words = line.split(|char: char| !char.is_ascii_digit() && char != ',' && char != '.');
    let number = |word: &str| word.trim_matches(['.', ',']).replace(',', "").parse().ok();
    Ok(words.filter_map(number).collect())
}

/// Returns the number at `field` of the first object that has all that `row` has.
fn find(printed: &Value, row: &toml::Table, field: &str) -> Option<f64> {
    let has = |(key, value): (&String, &toml::Value)| {
        printed.get(key)?.as_str().map(|it| Some(it) == value.as_str())
    };
    if printed.is_object() && row.iter().all(|it| has(it) == Some(true)) {
        return printed.pointer(field)?.as_f64();
    }
    match printed {
        Value::Array(all) => all.iter().find_map(|it| find(it, row, field)),
        Value::Object(all) => all.values().find_map(|it| find(it, row, field)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_wherever_it_is() {
        let printed = serde_json::json!({ "a": [{ "load": "x", "by": "us", "ns": [1.0, 2.5] }, { "load": "x", "by": "them", "value": 7 }] });
        let row = |text: &str| text.parse::<toml::Table>().expect("TOML");
        assert_eq!(find(&printed, &row("load = \"x\"\nby = \"us\""), "/ns/1"), Some(2.5));
        assert_eq!(find(&printed, &row("load = \"x\"\nby = \"them\""), "/value"), Some(7.0));
        assert_eq!(find(&printed, &row("load = \"y\""), "/value"), None);
    }

    #[test]
    fn a_time_agrees_within_so_many_percent_of_what_is_told() {
        assert!(agree(100.0, 70.0, 30.0) && agree(100.0, 130.0, 30.0));
        assert!(!agree(100.0, 69.0, 30.0) && !agree(100.0, 131.0, 30.0));
    }
}
