#!/usr/bin/env python3
"""sbom.py BUILD_DIR OUTPUT PACKAGE_FILE...: writes an SPDX 2.3 document of the packages that were made in BUILD_DIR.

What the command contains and needs is read from its linker map and from the program itself; what the library was
compiled with, from the headers that the compiler read. dpkg tells to which package each of these files belongs. With
SOURCE_DATE_EPOCH, the same packages give the same document.
"""
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

LICENSES = {
    "libabsl-dev": "Apache-2.0",
    "libssl-dev": "Apache-2.0",
    "libssl3": "Apache-2.0",
    "libssl3t64": "Apache-2.0",
    "libc6": "LGPL-2.1-or-later",
    "libc6-dev": "LGPL-2.1-or-later",
}
GCC_LICENSE = "GPL-3.0-or-later WITH GCC-exception-3.1"


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def owners(files):
    """The Debian packages of these files, as name: version."""
    files = sorted({os.path.realpath(file) for file in files})
    if not files:
        return {}
    # Where /lib is a link to /usr/lib, dpkg may know either name. It fails if it knows not all.
    names = [name for file in files for name in (file, file.removeprefix("/usr"))]
    found = subprocess.run(("dpkg", "-S", *names), capture_output=True, text=True, check=False).stdout
    package_of = {path: package for package, path in re.findall(r"^(\S+): (/.*)$", found, re.M)}
    for file in files:
        if file not in package_of and file.removeprefix("/usr") not in package_of:
            sys.exit(f"sbom: no Debian package has {file}")
    lines = output("dpkg-query", "-W", "-f=${Package} ${Version}\n", *sorted(set(package_of.values()))).splitlines()
    return dict(line.split(" ") for line in lines)


def linked(build):
    """The files whose code the command contains, and those that it loads when it starts."""
    link_map = (build / "redlatch.map").read_text()
    contained = set(re.findall(r"^(/\S+\.a)\(\S+\)$", link_map, re.M))
    loads = set(re.findall(r"^LOAD (/\S+)$", link_map, re.M))
    contained |= {file for file in loads if file.endswith(".o")}
    needed = re.findall(r"NEEDED +(\S+)", output("objdump", "-p", build / "bin/redlatch"))
    paths = {pathlib.Path(os.path.realpath(file)).name: file for file in loads}
    for name in needed:
        if name not in paths and not name.startswith("ld-linux"):
            sys.exit(f"sbom: {name}, which the command needs, is not in its linker map")
    return contained, {paths[name] for name in needed if name in paths}


def compiled(build):
    """The headers outside the sources that the library's objects were compiled with."""
    dependencies = output("ninja", "-C", build, "-t", "deps")
    ours = re.findall(r"^CMakeFiles/redlatch_(?:base|state|io)\.dir/.*?:.*\n((?:    .*\n)+)", dependencies, re.M)
    return {line.strip() for block in ours for line in block.splitlines() if line.strip().startswith("/usr/")}


def identifier(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]", "-", name)


def debian(name, version):
    distribution = re.search(r'^VERSION_CODENAME="?([a-z]+)', pathlib.Path("/etc/os-release").read_text(), re.M)
    architecture = output("dpkg", "--print-architecture").strip()
    purl = f"pkg:deb/debian/{name}@{version.replace('+', '%2B').replace(':', '%3A')}?arch={architecture}"
    if distribution:
        purl += f"&distro={distribution.group(1)}"
    gcc = re.match(r"libstdc\+\+|libgcc", name)
    return {
        "SPDXID": identifier(name),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": GCC_LICENSE if gcc else LICENSES.get(name, "NOASSERTION"),
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}],
    }


def product(file, version):
    return {
        "SPDXID": identifier(file.name),
        "name": re.match(r"[a-z-]*[a-z]", file.name).group(),
        "versionInfo": version,
        "packageFileName": file.name,
        "supplier": "Organization: The redlatch authors",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(file.read_bytes()).hexdigest()}],
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "2026, The redlatch authors",
    }


def main():
    build, target, *files = map(pathlib.Path, sys.argv[1:])
    root = pathlib.Path(__file__).resolve().parents[2]
    version = re.search(r'VERSION_STRING "([^"]+)"', (root / "include/redlatch/version.h").read_text()).group(1)
    contained, loaded = linked(build)
    static, dynamic, library = owners(contained), owners(loaded), owners(compiled(build))

    relations = []
    for file in files:
        spdx = identifier(file.name)
        relations.append(("SPDXRef-DOCUMENT", "DESCRIBES", spdx))
        if not file.name.startswith("libredlatch"):
            relations += [(spdx, "STATIC_LINK", identifier(name)) for name in sorted(static)]
            relations += [(spdx, "DYNAMIC_LINK", identifier(name)) for name in sorted(dynamic)]
        if not file.name.startswith("redlatch_"):
            relations += [(spdx, "DEPENDS_ON", identifier(name)) for name in sorted(library)]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    created = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    target.write_text(json.dumps({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"redlatch-{version}",
        "documentNamespace": f"https://redlatch.dev/spdx/redlatch-{version}-{digest[:16]}",
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", created), "creators": ["Tool: sbom.py"]},
        "packages": [product(file, version) for file in files]
                    + [debian(*entry) for entry in sorted({**library, **static, **dynamic}.items())],
        "relationships": [
            {"spdxElementId": of, "relationshipType": kind, "relatedSpdxElement": to} for of, kind, to in relations],
    }, indent=1) + "\n")


main()
