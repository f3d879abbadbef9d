//! What the program `vmalloc` and that of the repository's lab share: from the command line to the
//! exit code, and files as people pass them on.
//!
//! ```text
//!  error.rs        why a command failed, and its exit code     output.rs  text or JSON on stdout
//!  decompress.rs   files compressed in any way                 text.rs    lines behind margins
//!  vmallocinfo.rs  a kernel's areas, and its log               picture/   areas drawn as text or SVG
//!  units.rs        bytes and counts in words
//! ```

pub mod decompress;
pub mod error;
pub mod output;
pub mod picture;
pub mod text;
pub mod units;
pub mod vmallocinfo;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use error::{Exit, Failure};
use std::process::ExitCode;

/// The command line of a program with the commands `C`.
#[derive(Parser, Debug)]
#[command(version, disable_help_subcommand = true)]
struct Arguments<C: Subcommand> {
    /// Print one JSON object instead of text
    #[arg(long, global = true)]
    json: bool,
    /// The command.
    #[command(subcommand)]
    command: Option<AnyCommand<C>>,
}

#[derive(Subcommand, Debug)]
enum AnyCommand<C: Subcommand> {
    #[command(flatten)]
    Own(C),
    /// Print the completions of a shell, for the file where it looks for them
    #[command(hide = true)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print this program's page for man
    #[command(hide = true)]
    Man,
}

/// Returns the definition of a program with the commands `C`, to which its name and its texts are
/// to be added.
#[must_use]
pub fn definition<C: Subcommand>() -> clap::Command {
    Arguments::<C>::command()
}

/// Runs a program that is defined so: `work` does a command, and is told whether JSON is wanted.
pub fn run<C: Subcommand>(
    definition: clap::Command,
    work: impl FnOnce(C, bool) -> Result<Exit, Failure>,
) -> ExitCode {
    output::set_program(definition.get_name());
    // Read without the parser, which may be what refuses.
    let json = std::env::args_os().any(|word| word == "--json");
    run_line(definition, work).unwrap_or_else(|failure| failure.tell(json)).into()
}

fn run_line<C: Subcommand>(
    mut definition: clap::Command,
    work: impl FnOnce(C, bool) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let words: Vec<_> = std::env::args_os().collect();
    let named = words.iter().skip(1).find(|word| !word.to_string_lossy().starts_with('-')).cloned();
    let named = named.and_then(|word| Some(definition.find_subcommand(word)?.get_name().to_owned()));
    let matches = definition.try_get_matches_from_mut(words);
    match matches.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(Arguments { json, command: Some(AnyCommand::Own(command)) }) => work(command, json),
        Ok(Arguments { command: Some(AnyCommand::Completions { shell }), .. }) => {
            completions(definition, shell)
        }
        Ok(Arguments { command: Some(AnyCommand::Man), .. }) => man(definition),
        Ok(Arguments { json, command: None }) => overview(definition, json),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                output::text(&error.to_string()).map(|()| Exit::Success)
            }
            _ => Err(one_line(&error, definition.get_name(), named.as_deref())),
        },
    }
}

/// Answers a line without a command: with the help on stderr, or an object with the names of the
/// commands.
fn overview(mut definition: clap::Command, json: bool) -> Result<Exit, Failure> {
    if !json {
        output::aside(&definition.render_help().to_string());
        return Ok(Exit::Usage);
    }
    let commands: Vec<_> = definition.get_subcommands().map(clap::Command::get_name).collect();
    let about = definition.get_about().map(ToString::to_string);
    output::json(&serde_json::json!({
        "name": definition.get_name(), "version": env!("CARGO_PKG_VERSION"), "about": about, "commands": commands,
    }))?;
    Ok(Exit::Usage)
}

/// Writes the completions of a shell.
fn completions(mut definition: clap::Command, shell: Shell) -> Result<Exit, Failure> {
    let (name, mut text) = (definition.get_name().to_owned(), Vec::new());
    clap_complete::generate(shell, &mut definition, name, &mut text);
    output::text(&String::from_utf8_lossy(&text)).map(|()| Exit::Success)
}

/// Writes the page for man.
fn man(definition: clap::Command) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(definition).render(&mut text);
    page.map_err(|error| Failure::new(format!("the page for man: {error}")))?;
    output::text(&String::from_utf8_lossy(&text)).map(|()| Exit::Success)
}

/// Reads a decimal number. A letter behind it multiplies by `unit`, its square and so on: 100k.
#[must_use]
pub fn number(text: &str, unit: u64) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let power = match &*text[digits.len()..].to_ascii_lowercase() {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return None,
    };
    // `parse` takes a sign.
    let number: Option<u64> = if digits.starts_with('+') { None } else { digits.parse().ok() };
    number?.checked_mul(unit.pow(power))
}

/// Asks whether the name was meant that the parser suggests.
fn suggestion(error: &clap::Error) -> String {
    let suggested =
        [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    let name = suggested.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(name) => Some(name.clone()),
        ContextValue::Strings(names) => names.first().cloned(),
        _ => None,
    });
    name.map_or_else(String::new, |name| format!(", did you mean '{name}'?"))
}

/// The complaint without its advice, which takes many lines: the help of the command that was named
/// has more.
fn one_line(error: &clap::Error, program: &str, named: Option<&str>) -> Failure {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim);
    let mut line = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    if line.ends_with(':') {
        // A line for each argument that is missing.
        let missing: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
        line = format!("{line} {}", missing.join(" "));
    }
    let help = named.map_or(format!("{program} --help"), |name| format!("{program} {name} --help"));
    let suggestion = suggestion(error);
    Failure::new(format!("{line}{suggestion}; see '{help}'"))
}
