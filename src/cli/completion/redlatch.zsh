#compdef redlatch
# Completion of redlatch's words in zsh. redlatch itself knows them: redlatch completion --help.
_redlatch() {
  local -i dashes=${words[(i)--]}
  if ((dashes < CURRENT)); then
    shift $dashes words
    ((CURRENT -= dashes))
    _normal
    return
  fi
  local -a found
  found=("${(@f)$(${(Q)words[1]} --complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  found=("${(@)found:#}")
  found=("${(@)found//:/\\:}")
  found=("${(@)found/$'\t'/:}")
  _describe word found
}
if [[ $funcstack[1] == _redlatch ]]; then
  _redlatch "$@"
else
  compdef _redlatch redlatch
fi
