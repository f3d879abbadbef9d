//! Tests of what tests share.

use std::process::Command;
use vmalloc_harness::{OwnProcess, env, in_own_process, not_run, test_name};

mod inner {
    #[test]
    fn a_test_runs_in_a_process_of_its_own() {
        let parent = std::env::var("VMALLOC_TEST_PARENT").ok();
        if parent.is_none() {
            let own = vmalloc_harness::OwnProcess::of("inner::a_test_runs_in_a_process_of_its_own");
            return own
                .expect("this is the parent")
                .env("VMALLOC_TEST_PARENT", std::process::id().to_string())
                .passes();
        }
        assert_ne!(parent, Some(std::process::id().to_string()));
        vmalloc_harness::in_own_process(|| println!("it is there already"));
    }

    #[test]
    fn a_failure_there_is_one_here() {
        let failed = std::panic::catch_unwind(|| vmalloc_harness::in_own_process(|| panic!("on purpose")));
        if std::env::var_os("VMALLOC_OWN_PROCESS").is_none() {
            let told = *failed.expect_err("it fails").downcast::<String>().expect("a text");
            assert!(
                told.contains("inner::a_failure_there_is_one_here") && told.contains("on purpose"),
                "{told}"
            );
        } else {
            std::panic::resume_unwind(failed.expect_err("it fails"));
        }
    }
}

#[test]
#[should_panic(expected = "there is no test")]
fn a_name_that_no_test_has_is_refused() {
    OwnProcess::of("no_such_test").expect("this is the parent").passes();
}

/// With one thread for all tests, a test has the name of the closure in it.
#[test]
fn a_test_knows_its_name_on_the_main_thread() {
    fn name_of<F>(_: &F) -> String {
        test_name::<F>()
    }
    let here = || ();
    let name = "a_test_knows_its_name_on_the_main_thread";
    assert_eq!(name_of(&here), name);
    let named = std::thread::Builder::new().name("main".to_owned());
    let told = named.spawn(move || name_of(&here)).expect("a thread").join().expect("it ends");
    assert_eq!(told, name);
}

#[test]
fn what_was_not_run_is_listed_where_the_capture_of_tests_does_not_hide_it() {
    let list = std::env::temp_dir().join(format!("vmalloc-not-run-{}", std::process::id()));
    if let Some(own) =
        OwnProcess::of("what_was_not_run_is_listed_where_the_capture_of_tests_does_not_hide_it")
    {
        own.env("VMALLOC_NOT_RUN", &list).passes();
        let lines = std::fs::read_to_string(&list).expect("it was written");
        std::fs::remove_file(&list).expect("it is there");
        assert_eq!(lines, "one: no tool\ntwo: lines of text\n");
    } else {
        not_run("one", "no tool");
        not_run("two", "lines\nof text");
    }
}

/// All of them pass with one thread for all tests, too.
#[test]
fn one_thread_is_enough() {
    in_own_process(|| {
        let program = std::env::current_exe().expect("this program");
        let tests = Command::new(program)
            .args(["--test-threads=1", "--skip", "one_thread_is_enough"])
            .env_remove("VMALLOC_OWN_PROCESS")
            .status()
            .expect("it starts");
        assert!(tests.success());
    });
}

#[test]
fn numbers_are_decimal_or_hexadecimal() {
    let name = "numbers_are_decimal_or_hexadecimal";
    let given = std::env::var("VMALLOC_SEED").ok();
    let Some(own) = OwnProcess::of(name) else {
        let expected = if given.as_deref() == Some("0xfF") { 255 } else { 12 };
        assert_eq!((env::seed(7), env::ops(5)), (expected, 15));
        return;
    };
    own.env("VMALLOC_SEED", "12").env("VMALLOC_EFFORT", "3").passes();
    let own = |seed| OwnProcess::of(name).expect("this is the parent").env("VMALLOC_SEED", seed);
    own("0xfF").env("VMALLOC_EFFORT", "0x3").passes();
    assert!(!own("ten").output().status.success(), "it is no number");
}
