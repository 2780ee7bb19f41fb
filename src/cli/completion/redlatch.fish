# Completion of redlatch's words in fish. redlatch itself knows them: redlatch completion --help.
function __redlatch_complete
    set -l words (commandline -opc)
    set -l program $words[1]
    set -l current (commandline -ct)
    $program --complete $words[2..] "$current" 2>/dev/null
end
complete -c redlatch -f -n 'not contains -- -- (commandline -opc)' -a '(__redlatch_complete)'
complete -c redlatch -n 'contains -- -- (commandline -opc)' -a '(__fish_complete_command)'
