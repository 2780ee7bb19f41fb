# Completion of redlatch's words in bash. redlatch itself knows them: redlatch completion --help.
_redlatch() {
  local line=${COMP_LINE:0:COMP_POINT} word words current broken i IFS=$' \t\n'
  # shellcheck disable=SC2162  # a backslash before a space belongs to the word
  read -a words <<<"$line"
  [[ $line != *[[:space:]] ]] || words+=('')
  current=${words[-1]}
  COMPREPLY=()
  for ((i = 1; i < ${#words[@]} - 1; i++)); do
    [[ ${words[i]} == -- ]] || continue
    ((i + 2 < ${#words[@]})) || mapfile -t COMPREPLY < <(compgen -c -- "$current")
    return
  done
  broken=${current%"${current##*[:=]}"} # bash replaces only what is behind such a character
  while IFS=$'\t' read -r word _; do
    COMPREPLY+=("$(printf '%q' "${word#"$broken"}")")
  done < <("$1" --complete "${words[@]:1}" 2>/dev/null)
}
complete -o default -F _redlatch redlatch
