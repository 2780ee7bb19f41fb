#!/usr/bin/env python3
"""check_bill.py BILL COMMAND DEB...: the bill of materials names the packages with their checksums, and for the command
each library that the dynamic linker loads, with the version that is installed."""
import hashlib
import json
import pathlib
import re
import subprocess
import sys


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


bill, command, *debs = sys.argv[1:]
document = json.loads(pathlib.Path(bill).read_text())
packages = {package["SPDXID"]: package for package in document["packages"]}
files = {package.get("packageFileName"): package for package in packages.values()}
for deb in map(pathlib.Path, debs):
    checksum = files[deb.name]["checksums"][0]["checksumValue"]
    assert checksum == hashlib.sha256(deb.read_bytes()).hexdigest(), deb

linked = {}  # by name, of the command's package
for relation in document["relationships"]:
    of, to = packages.get(relation["spdxElementId"]), packages.get(relation["relatedSpdxElement"])
    assert to, f"{relation}: no such package"
    if of and of["packageFileName"].startswith("redlatch_"):
        linked[to["name"]] = (relation["relationshipType"], to["versionInfo"])
for name, (_, version) in linked.items():
    assert output("dpkg-query", "-W", "-f=${Version}", name) == version, name

for name in re.findall(r"NEEDED +(\S+)", output("objdump", "-p", command)):
    if name.startswith("ld-linux"):
        continue
    path = re.search(rf"{re.escape(name)} => (\S+)", output("ldd", command)).group(1)
    owner = subprocess.run(("dpkg", "-S", path, f"/usr{path}", path.removeprefix("/usr")), capture_output=True,
                           text=True, check=False).stdout.split(":")[0]
    assert linked.get(owner, ("", ""))[0] == "DYNAMIC_LINK", f"{name} of {owner}: not in the bill"
# Abseil may be linked either way.
assert any(name.startswith("libabsl") for name in linked), linked
print(f"{bill}: {len(packages)} packages, {len(linked)} of them linked by the command")
