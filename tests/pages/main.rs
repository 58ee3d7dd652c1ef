//! Pages of `csi bench`, `csi sanity`, `csi proxy` and `csi replay` in a browser: each compares what it draws with its data
//! (`#selftest`), and these tests read the outcome. `tests/pages/run` starts this program where there is a browser.
//!
//! With `CSI_PAGES=FOLDER` the pages stay there, with pictures of them: wide and narrow, light and dark.
#![allow(clippy::unwrap_used)]

mod browser;
mod made;
#[path = "../support/mod.rs"]
mod support;

use browser::Browser;
use made::{HOSTILE, Made};

/// Widths at which people look at pages.
const WIDTHS: [u32; 2] = [1200, 400];

/// Every check of a page holds, at each width.
#[track_caller]
fn holds(made: &Made) {
    let browser = Browser::new();
    for width in WIDTHS {
        let outcome = browser.selftest(&made.page, width);
        assert!(outcome.is_passed(), "at {width}: {}", outcome.text);
        assert!(outcome.passed() > 3, "{}", outcome.text);
    }
    browser.keep(made);
}

/// With `was` replaced by `is` in the page, it says what is wrong.
#[track_caller]
fn notices(made: &Made, was: &str, is: &str, what: &str) {
    let text = std::fs::read_to_string(&made.page).unwrap();
    assert!(text.contains(was), "{was} is not in the page");
    let page = made.page.with_file_name("wrong.html");
    std::fs::write(&page, text.replacen(was, is, 1)).unwrap();
    let outcome = Browser::new().selftest(&page, 1200);
    assert!(
        !outcome.is_passed() && outcome.text.contains(what),
        "{}",
        outcome.text
    );
}

#[test]
fn a_load() {
    let made = Made::load();
    holds(&made);
    notices(&made, "data-calls=\"", "data-calls=\"9", "moments of ");
    notices(&made, "<circle", "<ellipse", "dots of ");
}

#[test]
fn a_load_on_two_drivers() {
    holds(&Made::comparison());
}

#[test]
fn a_load_that_fails() {
    holds(&Made::failing_load());
}

#[test]
fn a_check() {
    let made = Made::check();
    holds(&made);
    notices(&made, "case failed\"", "case passed\"", "failed: ");
    notices(&made, "<dl class=\"evidence\">", "<dl>", "evidence: ");
    notices(&made, "data-name=\"", "data-name=\"x", "cases: ");
}

#[test]
fn a_recording() {
    let made = Made::recording();
    holds(&made);
    notices(
        &made,
        "style=\"left:0.0000%;width:",
        "style=\"left:50%;width:9",
        "lane",
    );
    notices(
        &made,
        "data-kinds=\"failed",
        "data-kinds=\"ok",
        "button of failed",
    );
}

#[test]
fn a_replay() {
    holds(&Made::replay());
}

#[test]
fn a_hostile_driver() {
    for made in [
        Made::hostile_check(),
        Made::hostile_load(),
        Made::hostile_recording(),
    ] {
        holds(&made);
        let document = Browser::new().document(&made.page, 1200);
        assert!(!document.contains("owned=\"yes\""), "a driver's script ran");
        assert!(!document.contains('\u{202e}') && !document.contains('\u{1b}'));
        assert!(HOSTILE.contains("owned"));
    }
}
