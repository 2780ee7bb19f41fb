#!/usr/bin/env python3
"""Checks that each place which names the version, or the parts of the build, agrees with its source: the version with
include/redlatch/version.h, and the lists in packaging/ and BUILD.bazel with CMakeLists.txt and the sources."""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BRANCH = "main"  # what the documents name as long as there is no release


def read(name):
    return (ROOT / name).read_text()


def version_faults():
    numbers = re.findall(r"VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", read("include/redlatch/version.h"))
    version = ".".join(numbers)
    minor = ".".join(numbers[:2])
    places = [  # file, pattern, what it must be
        ("include/redlatch/version.h", r'VERSION_STRING "([^"]+)"', version),
        ("packaging/vcpkg/redlatch/vcpkg.json", r'"version": "([^"]+)"', version),
        ("MODULE.bazel", r'name = "redlatch",\s+version = "([^"]+)"', version),
        ("docs/man/redlatch.1", r'^\.TH REDLATCH 1 "" "redlatch ([^"]+)"', version),
        ("README.md", r"GIT_TAG ([^\s)]+)\)", BRANCH),
        ("docs/install.md", r"GIT_TAG ([^\s)]+)\)", BRANCH),
        ("docs/install.md", r'gh:redlatch/redlatch#([^"]+)"', BRANCH),
        ("docs/install.md", r'bazel_dep\(name = "redlatch", version = "([^"]+)"', version),
        ("docs/install.md", r'branch = "([^"]+)"', BRANCH),
        ("docs/install.md", r"find_package\(redlatch ([0-9.]+)", minor),
        ("tests/consumer/CMakeLists.txt", r"GIT_TAG ([^\s)]+)\)", BRANCH),
        ("tests/consumer/CMakeLists.txt", r"find_package\(redlatch ([0-9.]+)", minor),
        ("packaging/conan/test_package/CMakeLists.txt", r"find_package\(redlatch ([0-9.]+)", minor),
        ("SECURITY.md", r"^\| ([0-9.]+)\.x \| yes", minor),
        ("CHANGELOG.md", r"^## ([0-9.]+)$", version),
    ]
    for name, pattern, wanted in places:
        found = re.search(pattern, read(name), re.M)
        if not found or found.group(1) != wanted:
            yield f"{name}: names version {found and found.group(1)} where /{pattern}/ is, not {wanted}"


def abseil_faults():
    """Each way to build names the parts of Abseil that CMakeLists.txt links, and Bazel the headers' as well."""
    build = read("CMakeLists.txt")
    parts = set()
    for kind in ("public", "private"):
        parts |= set(re.findall(r"absl::(\w+)", re.search(rf"set\({kind}_dependencies ([^)]*)\)", build).group(1)))
    recipe = re.search(r"self\.cpp_info\.requires = \[.*?\]", read("packaging/conan/conanfile.py"), re.S).group()
    bazel = read("BUILD.bazel")
    for part in sorted(parts):
        if f'"{part}"' not in recipe:
            yield f"packaging/conan/conanfile.py: lacks absl::{part}, which CMakeLists.txt links"
    labels = {label.rsplit("/", 1)[-1] if ":" not in label else label.rsplit(":", 1)[-1]
              for label in re.findall(r"@abseil-cpp//([^\"]+)", bazel)}
    for part in sorted(parts - labels):
        yield f"BUILD.bazel: lacks Abseil's {part}, which CMakeLists.txt links"
    packages = {label.split(":")[0] for label in re.findall(r"@abseil-cpp//([^\"]+)", bazel)}
    for folder in ("include", "src/api", "src/base", "src/lock", "src/quorum", "src/redis"):
        for path in sorted((ROOT / folder).rglob("*.[hc]*")):
            for package in re.findall(r'#include "(absl/[a-z_/]+)/[a-z_]+\.h"', path.read_text()):
                if package not in packages:
                    yield f"BUILD.bazel: lacks {package}, of which {path.relative_to(ROOT)} includes a header"


def port_faults():
    port = json.loads(read("packaging/vcpkg/redlatch/vcpkg.json"))
    names = {entry if isinstance(entry, str) else entry["name"] for entry in port["dependencies"]}
    for library in ("abseil", "openssl"):
        if library not in names:
            yield f"packaging/vcpkg/redlatch/vcpkg.json: lacks {library}"


def main():
    faults = sorted({*version_faults(), *abseil_faults(), *port_faults()})
    for fault in faults:
        print(fault)
    sys.exit(bool(faults))


main()
