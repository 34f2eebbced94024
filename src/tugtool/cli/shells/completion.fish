# A condition that fails leaves fish to its own completion of file names.
function __tugcode_found
    set -l words (commandline -opc)
    set -e words[1]
    set -l current (commandline -ct)
    set -g __tugcode_candidates (command tugcode complete-words -- $words "$current" 2>/dev/null)
    set -q __tugcode_candidates[1]
end
complete --command tugcode --erase
complete --command tugcode --no-files --condition __tugcode_found \
    --arguments '$__tugcode_candidates'
