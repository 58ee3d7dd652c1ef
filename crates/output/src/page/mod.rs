//! Pages: a result as one HTML file that needs nothing else, for a browser, a CI artifact or a printer.
//!
//! Owns the frame, the style, the scripts, the escaping and the file. How a result is drawn stands in one file a kind; that of a
//! check of a driver is `csi_sanity`'s. A page asks nothing of a network, and runs no script but its own.

mod chart;
mod file;
pub mod load;
pub mod timeline;

pub use file::{PageFile, Readers};

use super::json;
use csi_proto::text::is_hazardous;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value as Json;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");

/// What a page of cases runs.
pub const CASES_SCRIPT: &str = include_str!("cases.js");

/// The name of an element that holds the data, and the outcome of a page's test of itself.
const DATA: &str = "data";

/// What is drawn, and the data that it was drawn from.
pub struct Page {
    /// The tool that made it, such as `csi bench`.
    pub tool: &'static str,
    /// What is drawn, in a line.
    pub title: String,
    /// What the reader must know before anything else: names and values.
    pub facts: Vec<(&'static str, String)>,
    /// What is drawn.
    pub body: Markup,
    /// What the page's script reads, and compares with what is drawn.
    pub data: Json,
    /// The script of its kind, behind that of all pages.
    pub script: &'static str,
}

impl Page {
    /// The document. `nonce` marks the page's own style and scripts: a browser takes no others.
    pub fn document(&self, nonce: &str) -> String {
        let policy = format!(
            "default-src 'none'; style-src 'nonce-{nonce}'; style-src-attr 'unsafe-inline'; \
             script-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'"
        );
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta http-equiv="Content-Security-Policy" content=(policy);
                    title { (self.title) " – " (self.tool) }
                    style nonce=(nonce) { (PreEscaped(STYLE)) }
                }
                body {
                    header {
                        p.tool { (self.tool) " " (env!("CARGO_PKG_VERSION")) }
                        h1 { (self.title) }
                        dl.facts {
                            @for (name, value) in &self.facts {
                                div { dt { (name) } dd { (value) } }
                            }
                        }
                    }
                    main { (self.body) }
                    script type="application/json" id=(DATA) { (PreEscaped(json_block(&self.data))) }
                    script nonce=(nonce) { (PreEscaped(SCRIPT)) (PreEscaped(self.script)) }
                }
            }
        };
        without_hazards(&page.into_string())
    }
}

/// JSON that ends no element and holds no character that reorders or hides others.
fn json_block(data: &Json) -> String {
    // What is JSON can be written.
    let text = json::line_text(data).unwrap_or_default();
    // None of the three is part of JSON's own signs: they stand within texts alone.
    text.replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
}

/// The document with all that reorders, hides or controls written out. One place for all texts, so that none is
/// forgotten; an escaped character is no sign of HTML. Line ends stay, and so does what the style makes of them.
fn without_hazards(document: &str) -> String {
    let mut out = String::with_capacity(document.len());
    for letter in document.chars() {
        match letter {
            '\n' => out.push(letter),
            letter if is_hazardous(letter) => out.extend(letter.escape_default()),
            letter => out.push(letter),
        }
    }
    out
}

/// A field to search in and switches for kinds of items, for the script to use; printed pages and browsers without
/// scripts do not show it.
pub fn filter(placeholder: &str, kinds: &[(&str, &str, usize)]) -> Markup {
    html! {
        form.filter role="search" hidden {
            input type="search" name="words" placeholder=(placeholder) aria-label=(placeholder) autocomplete="off"
                spellcheck="false";
            @for (kind, name, count) in kinds.iter().filter(|(.., count)| *count > 0) {
                button type="button" data-kind=(kind) aria-pressed="false" { (name) " " b { (count) } }
            }
            output {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What a driver may call its volumes.
    pub(super) const HOSTILE: &str = "</script><script>alert(1)</script><!-- \"'&amp; \u{202e}gnp.\u{0}\u{1b}[31m\u{9b}\u{feff}\u{2028} ]]> ü";

    pub(super) fn page_of(body: Markup, data: Json) -> Page {
        Page {
            tool: "csi test",
            title: HOSTILE.to_owned(),
            facts: vec![("Name", HOSTILE.to_owned())],
            body,
            data,
            script: "",
        }
    }

    /// The elements that an HTML parser would see, by name.
    pub(super) fn elements<'a>(document: &'a str, name: &str) -> Vec<&'a str> {
        let open = format!("<{name}");
        let ends = |rest: &&str| rest.starts_with([' ', '>']);
        document.split(&open).skip(1).filter(ends).collect()
    }

    #[test]
    fn no_text_leaves_its_place() {
        let page = page_of(
            html! { p title=(HOSTILE) { (HOSTILE) } },
            json!({HOSTILE: [HOSTILE]}),
        );
        let document = page.document("n0nce");
        assert_eq!(elements(&document, "script").len(), 2, "{document}");
        assert!(!document.contains("alert(1)</script><"), "{document}");
        for letter in document.chars().filter(|letter| *letter != '\n') {
            assert!(!is_hazardous(letter), "{letter:?}");
        }
        // Neither an attribute nor a comment begins or ends within a text.
        assert!(!document.contains("<!--"), "{document}");
        let title = "title=\"&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;!-- &quot;'&amp;amp; \\u{202e}gnp";
        assert!(document.contains(title), "{document}");
        // The data is what it was.
        let block = elements(&document, "script")[0];
        let (_, block) = block.split_once('>').unwrap();
        let (block, _) = block.split_once("</script>").unwrap();
        let read: Json = serde_json::from_str(block).unwrap();
        assert_eq!(read, json!({HOSTILE: [HOSTILE]}));
    }

    #[test]
    fn a_page_asks_for_nothing_from_elsewhere() {
        for text in [STYLE, SCRIPT, load::SCRIPT, CASES_SCRIPT, timeline::SCRIPT] {
            for banned in [
                "http:",
                "https:",
                "@import",
                "url(",
                "fetch(",
                "XMLHttp",
                "</",
                "innerHTML",
            ] {
                assert!(!text.contains(banned), "{banned}");
            }
            assert!(text.is_ascii());
        }
        let document = page_of(html! {}, json!(null)).document("n0nce");
        assert!(document.contains("default-src 'none'"));
        for banned in ["src=", "href=\"http", "<link"] {
            assert!(!document.contains(banned), "{banned}");
        }
    }
}
