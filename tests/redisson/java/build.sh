#!/usr/bin/env bash
# build.sh FOLDER: brings Redisson from Maven Central and compiles the Java side of the tests.
#
# FOLDER/classpath names what java needs. If something is missing, FOLDER/missing says what, and
# this exits with 0: the tests are skipped then.
set -euo pipefail
folder=$1
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
pom=$here/../../../benchmarks/peers/java/pom.xml

rm -rf "$folder"
mkdir -p "$folder"
missing() {
  printf '%s\n' "$1" >"$folder/missing"
  printf '%s\n' "$1" >&2
  exit 0
}

for program in java javac mvn; do
  command -v "$program" >/dev/null ||
    missing "There is no $program. On Debian: apt-get install default-jdk-headless maven"
done
mvn -q -B -f "$pom" dependency:copy-dependencies "-DoutputDirectory=$folder/jars" \
  -DincludeScope=runtime >"$folder/log" 2>&1 ||
  missing "Maven could not bring Redisson. $folder/log says why. Build again when it can"
javac -Xlint:all,-processing -Werror -cp "$folder/jars/*" -d "$folder/classes" "$here"/*.java >"$folder/log" 2>&1 || {
  cat "$folder/log" >&2
  exit 1
}
printf '%s' "$folder/classes:$folder/jars/*" >"$folder/classpath"
