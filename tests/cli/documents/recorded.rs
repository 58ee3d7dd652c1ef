//! What stays the same from run to run of what a command prints. Pure text.

/// A recorded or printed text, line by line, without what varies and without empty lines.
pub fn stable(text: &str, figures_vary: bool) -> Vec<String> {
    let line = if figures_vary {
        without_figures
    } else {
        without_varying
    };
    let lines = text
        .lines()
        .filter(|line| !is_note_about_links(line))
        .map(line);
    lines.filter(|line| !line.is_empty()).collect()
}

/// What a user who may not mount is told, where the recording is root's.
fn is_note_about_links(line: &str) -> bool {
    line.starts_with("note: ") && (line.contains("symbolic link") || line.contains("symlink"))
}

/// A load's table: how many bars there are, how long, and all numbers are a matter of the machine.
fn without_figures(line: &str) -> String {
    if line.contains(['█', '▉', '▊', '▋', '▌', '▍', '▎', '▏']) {
        return String::new();
    }
    let words = line.split_whitespace();
    let words = words.filter(|word| !word.contains(|letter: char| letter.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ")
}

/// With a star for each id, time, measured size, large number and process id; blanks count once.
fn without_varying(line: &str) -> String {
    let words = line.split_whitespace().map(without_varying_word);
    words.collect::<Vec<_>>().join(" ")
}

fn without_varying_word(word: &str) -> String {
    let mut out = String::new();
    let mut rest = word;
    while let Some(first) = rest.chars().next() {
        let end = rest
            .find(|letter: char| !letter.is_ascii_alphanumeric())
            .unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        if run.is_empty() {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let next_is_digit = |sign: char| {
            let next = after
                .strip_prefix(sign)
                .and_then(|after| after.chars().next());
            next.is_some_and(|letter| letter.is_ascii_digit())
        };
        let is_number = run.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && next_is_digit('.') {
            // A fraction with its unit, a version, an address.
            let end = after.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.');
            rest = &after[end.unwrap_or(after.len())..];
            out.push('*');
            continue;
        }
        let is_process_id = is_number && out.ends_with('-') && after.starts_with('-');
        let varies = is_token(run)
            || is_of_nonce(run, &out)
            || is_number && (run.len() > 3 || next_is_digit(':'))
            || is_process_id;
        out.push_str(if varies { "*" } else { run });
        rest = after;
    }
    out
}

/// What the folder of a volume without a subDir has behind its name.
fn is_of_nonce(run: &str, before: &str) -> bool {
    before.ends_with('~') && run.len() == 8
}

/// Ids of shares, names and volumes, checksums, runs.
fn is_token(run: &str) -> bool {
    let all = |letters: std::ops::RangeInclusive<u8>| {
        run.bytes()
            .all(|byte| byte.is_ascii_digit() || letters.contains(&byte))
    };
    matches!(run.len(), 16 | 26) && all(b'a'..=b'v') || run.len() == 8 && all(b'a'..=b'f')
}

#[test]
fn what_varies_becomes_a_star_and_the_rest_stays() {
    for (line, stable) in [
        (
            "ok identity probe   3.7 ms  ready",
            "ok identity probe * ms ready",
        ),
        (
            "controller get-capabilities 0.6 ms 12 capabilities",
            "controller get-capabilities * ms 12 capabilities",
        ),
        (
            "embedded/#rrbqrlthu33527mopdqlo3vqh8.r57n10c28ua54hkp.oe8m5mglkm6vjebk 1Gi <none>",
            "embedded/#*.*.* 1Gi <none>",
        ),
        (
            "/tmp/csi-lifecycle-77-5b1f0c2e9a7d4c38/target",
            "/tmp/csi-lifecycle-*-*/target",
        ),
        ("1Mi, checksum 364f86c3ca630391", "1Mi, checksum *"),
        ("BYTES 252.0Gi INODES 16777216", "BYTES * INODES *"),
        (
            "17:22:58.637Z #1 -> Identity/Probe {}",
            "*:*:* #1 -> Identity/Probe {}",
        ),
        (
            "17 passed (0 with warnings), 0 failed, 3 skipped in 1.6 s",
            "17 passed (0 with warnings), 0 failed, 3 skipped in * s",
        ),
        ("csi-sanity-7c8f145c-1-0", "csi-sanity-*-*-0"),
        ("69", "69"),
    ] {
        assert_eq!(without_varying(line), stable);
    }
    assert_eq!(
        without_figures("GetPluginInfo  5,000       0      47,026  106ms"),
        "GetPluginInfo"
    );
    assert_eq!(without_figures("400µs  4,681  ███"), "");
}
