# Bash 4 or newer: source this file, or put it into a folder of bash-completion.
_csc_complete() {
    mapfile -t COMPREPLY < <(COMPLETE=bash csc -- "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
    # After these more may follow in the same word.
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/:,] ]] && compopt -o nospace
}
complete -o nosort -F _csc_complete csc
