//! `vmalloc reproduce` from outside. Ratios of times are looked at by hand and by the script that
//! checks everything; counts are here.

use serde_json::Value;
use std::process::{Command, Output};

fn vmalloc(words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vmalloc")).args(words.split_whitespace()).output().expect("the program")
}

#[test]
fn published_block_counts_are_reproduced() {
    let output = vmalloc("reproduce f3 --quick --json");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), &report["reproduced"]), (Some(0), &true.into()), "{report:#}");
    assert_eq!(
        (&report["verdict"], &report["outcomes"][0]["verdict"]),
        (&"reproduced".into(), &"reproduced".into())
    );
    let claims = report["outcomes"][0]["claims"].as_array().expect("claims");
    let exact: Vec<_> = claims
        .iter()
        .filter(|claim| claim["published"] == "993 / 992 exact")
        .map(|claim| [&claim["measured"]["before"], &claim["measured"]["after"]].map(Value::as_f64))
        .collect();
    assert_eq!(exact, [[Some(993.0), Some(992.0)]; 2]);
}

#[test]
fn text_has_the_published_and_the_measured_pair() {
    let output = vmalloc("reproduce F3 f3 --quick");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(text.matches("F3  blocks of short mappings").count(), 1, "{text}");
    assert!(text.contains("1000 / 0 exact") && text.contains("Hit") && text.contains("s^2"), "{text}");
    assert!(text.ends_with("Reproduced: 1 of 1\n"), "{text}");
}

#[test]
fn figures_that_were_not_published_are_one_line() {
    let output = vmalloc("reproduce f6");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
    assert!(stderr.contains("f1, f2, f3, f4, f5"), "{stderr}");
}
