#!/usr/bin/env bash
# run.sh WORK_DIR CXX <how> [argument]: builds the consumer in WORK_DIR and runs it. How:
#   fetchcontent SOURCE_DIR      with redlatch's sources, shared; then installs it to WORK_DIR/shared
#   install BUILD_DIR            (runs nothing:) installs an existing static build to WORK_DIR/static
#   package BUILD_DIR            (likewise:) makes packages of it, and unpacks them to WORK_DIR/package
#   find_package PREFIX          with what is installed in WORK_DIR/PREFIX
#   pkg_config PREFIX            likewise
#   readme PREFIX                likewise: the README's own program, which starts a server, and commands
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
work=$1
cxx=$2
how=$3
argument=$4
# shellcheck source=tests/package/readme_block.sh
source "$here/../package/readme_block.sh"
mkdir -p "$work"
cd "$work"

configure() { cmake -G Ninja -S "$here" -DCMAKE_CXX_COMPILER="$cxx" "$@"; }

# run PROGRAM: with an embedded server of its own.
run() { "$here/../../docs/code/run.sh" "$work/$1" "$here/main.cc"; }

# pkg_config_build PREFIX SOURCE PROGRAM
pkg_config_build() {
  pc_dir=$(dirname "$(find "$work/$1" -name redlatch.pc)")
  declare -a flags
  # pkg-config quotes its output for a shell.
  eval "flags=($(PKG_CONFIG_PATH=$pc_dir pkg-config --cflags --libs redlatch))"
  "$cxx" -std=c++20 -o "$3" "$2" "${flags[@]}"
}

case $how in
  fetchcontent)
    configure -B fetchcontent -DFETCHCONTENT_SOURCE_DIR_REDLATCH="$argument" -DREDLATCH_INSTALL=ON \
      -DBUILD_SHARED_LIBS=ON
    cmake --build fetchcontent
    rm -rf shared
    cmake --install fetchcontent --prefix "$work/shared"
    run fetchcontent/consumer
    ;;
  install)
    rm -rf static
    cmake --install "$argument" --prefix "$work/static"
    ;;
  package)
    rm -rf package debs unpacked
    cpack --config "$argument/CPackConfig.cmake" -G DEB -B debs
    for deb in debs/*.deb; do dpkg-deb -x "$deb" unpacked; done
    mv unpacked/usr package
    gzip -t package/share/man/man1/redlatch.1.gz package/share/doc/*/changelog.gz
    package/bin/redlatch --version
    "$here/../../cmake/package/sbom.py" "$argument" bill.spdx.json debs/*.deb
    "$here/check_bill.py" bill.spdx.json package/bin/redlatch debs/*.deb
    ;;
  find_package)
    rm -rf "find_package_$argument"
    configure -B "find_package_$argument" -DCMAKE_PREFIX_PATH="$work/$argument"
    cmake --build "find_package_$argument"
    run "find_package_$argument/consumer"
    ;;
  pkg_config)
    pkg_config_build "$argument" "$here/main.cc" "pkg_config_$argument"
    export LD_LIBRARY_PATH; LD_LIBRARY_PATH=$(dirname "$pc_dir")
    run "pkg_config_$argument"
    ;;
  readme)
    # The blocks of the README that build its program and use the command, word for word, but for the
    # lines that build redlatch itself: its prefix is here already.
    source=$here/../../docs/code/readme/first.cc
    mkdir -p readme/build
    ln -sfn "$work/$argument" readme/build/redlatch
    cp "$source" readme/first.cc # what the README shows: docs/check_code.py sees to that
    {
      printf '#!/usr/bin/env bash\nset -euxo pipefail\ncd %q\n' "$work/readme"
      readme_block "$here/../../README.md" 'g++ ' | grep -v '^cmake '
      readme_block "$here/../../README.md" 'redlatch run ' |
        sed 's/^redlatch doctor/& || [ $? -eq 1 ]/' # it may warn of this machine's server
    } >readme/steps
    chmod +x readme/steps
    "$here/../../docs/code/run.sh" "$work/readme/steps" "$source"
    ;;
esac
