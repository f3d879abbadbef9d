//! `vmalloc-lab reproduce` from outside. Ratios of times are looked at by hand and by the script that
//! checks everything; counts are here.

use crate::common::{assert_refused, json, run, text};
use serde_json::Value;

#[test]
fn published_block_counts_are_reproduced() {
    let (report, code) = json("reproduce f3 --quick --json");
    assert_eq!((code, &report["reproduced"]), (Some(0), &true.into()), "{report:#}");
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
    let text = text("reproduce F3 f3 --quick");
    assert_eq!(text.matches("F3  blocks of short mappings").count(), 1, "{text}");
    assert!(text.contains("1000 / 0 exact") && text.contains("Hit") && text.contains("s^2"), "{text}");
    assert!(text.ends_with("Reproduced: 1 of 1\n"), "{text}");
}

#[test]
fn figures_that_were_not_published_are_one_line() {
    assert_refused(&run("reproduce f6"), 2, "f1, f2, f3, f4, f5");
}
