//! The completion scripts, by which a shell asks this program for candidates.

use clap::ValueEnum;
use clap_complete::env::{EnvCompleter, Fish, Powershell};
use std::io;

/// The variable by which a script says that it asks for completions, and for which shell.
pub const VARIABLE: &str = "COMPLETE";

/// A shell that has a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompletionShell {
    /// For `source <(csi completions bash)`
    Bash,
    /// For a file named _csi in a folder of $fpath
    Zsh,
    /// For ~/.config/fish/completions/csi.fish
    Fish,
    /// For $PROFILE
    Powershell,
}

/// The script that makes `shell` complete the command `name`.
///
/// # Errors
/// Never: a vector takes every byte.
pub fn script(shell: CompletionShell, name: &str) -> io::Result<Vec<u8>> {
    let completer: &dyn EnvCompleter = match shell {
        CompletionShell::Bash => return Ok(bash(name).into_bytes()),
        CompletionShell::Zsh => return Ok(zsh(name).into_bytes()),
        CompletionShell::Fish => &Fish,
        CompletionShell::Powershell => &Powershell,
    };
    let mut script = Vec::new();
    let identifier = name.replace('-', "_");
    completer.write_registration(VARIABLE, &identifier, name, name, &mut script)?;
    Ok(script)
}

/// The library's script hands over bash's own words, which bash has split at every `:` and `=`; endpoints and ids are full
/// of them. This one hands over the line up to the cursor, and the part of it that bash will replace.
fn bash(name: &str) -> String {
    let function = format!("_{}_complete", name.replace('-', "_"));
    format!(
        r#"# Bash 4 or newer: source this file, or put it into a folder of bash-completion.
{function}() {{
    mapfile -t COMPREPLY < <({VARIABLE}=bash {name} -- "${{COMP_LINE:0:COMP_POINT}}" "$2" 2>/dev/null)
    # After these more may follow in the same word.
    [[ ${{#COMPREPLY[@]}} -eq 1 && ${{COMPREPLY[0]}} == *[=/:,] ]] && compopt -o nospace
}}
complete -o nosort -F {function} {name}
"#
    )
}

/// The library's script only defines its function when zsh loads it, at the first Tab of a shell, which so completes nothing.
/// This one completes then as well: it is that function where zsh loads it by its name, and is registered where it is sourced.
fn zsh(name: &str) -> String {
    let function = format!("_{}", name.replace('-', "_"));
    format!(
        r#"#compdef {name}
# A file named _{name} in a folder of $fpath, or what `source <({name} completions zsh)` reads.
{function}() {{
    local -a found folders begun others
    local one value help none=1
    found=("${{(@f)$(_CLAP_COMPLETE_INDEX=$((CURRENT - 1)) {VARIABLE}=zsh {name} -- "${{words[@]}}" 2>/dev/null)}}")
    for one in "${{found[@]}}"; do
        # A backslash stands before a colon of the value, and before another of these; a bare colon begins the help.
        value=${{${{${{one//\\\\/__}}//\\:/__}}%%:*}}
        help=${{one[$#value+1,-1]}} value=${{one[1,$#value]}}
        case "$value" in
            "") ;;
            *[^/]/) folders+=("${{value%/}}$help") ;;
            */|*=|*\\:) begun+=("$one") ;;
            *) others+=("$one") ;;
        esac
    done
    (( $#others )) && _describe -V values others && none=0
    # More may follow in the same word behind these.
    (( $#folders )) && _describe -V values folders -S / -r / && none=0
    (( $#begun )) && _describe -V values begun -S '' && none=0
    return none
}}
if [[ "$funcstack[1]" == "_{name}" ]]; then
    {function} "$@"
else
    compdef {function} {name}
fi
"#
    )
}

/// The script that kubectl runs, by the name `kubectl_complete-csi`, to complete its plugin `kubectl csi`.
#[cfg(test)]
pub fn kubectl() -> String {
    format!(
        r#"#!/bin/sh
# kubectl runs this to complete `kubectl csi`: put it into a folder of PATH, beside kubectl-csi.
{VARIABLE}=kubectl exec kubectl-csi -- kubectl-csi "$@"
"#
    )
}
