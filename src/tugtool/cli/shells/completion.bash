# Never `compgen -W`: it expands its words, so a file name could run a command.
_tugcode() {
    local value rest
    COMPREPLY=()
    while IFS=$'\t' read -r value rest; do
        COMPREPLY+=("$value")
    done < <(command tugcode complete-words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o bashdefault -o default -F _tugcode tugcode
