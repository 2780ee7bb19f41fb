# shellcheck shell=bash
# Sourced: readme_block PAGE TEXT [LANGUAGE]: prints the first fenced block of that language with that
# text in it, and fails if there is none.
readme_block() {
  awk -v wanted="$2" -v fence="\`\`\`${3:-}" '
    /^```/ {
      if (inside) { if (mine && index(text, wanted)) { printf "%s", text; exit } inside = 0; next }
      inside = 1; mine = $0 == fence; text = ""; next
    }
    { text = text $0 "\n" }' "$1" | grep . ||
    { echo "$1 no longer has a block with '$2'" >&2; return 1; }
}
