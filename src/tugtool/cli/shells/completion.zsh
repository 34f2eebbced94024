#compdef tugcode
_tugcode() {
    local -a line candidates
    line=("${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}")
    candidates=(${(f)"$(command tugcode complete-words -- "$line[@]" 2>/dev/null)"})
    candidates=(${${candidates//\\/\\\\}/$'\t'/:})
    if (( $#candidates )); then
        _describe tugcode candidates
    else
        compset -P 1 '--*='
        _files
    fi
}
# Loaded by eval, and as a file in $fpath.
if [[ ${funcstack[1]} == _tugcode ]]; then
    _tugcode "$@"
else
    compdef _tugcode tugcode
fi
