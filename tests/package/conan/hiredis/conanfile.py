"""Debian's hiredis as a Conan package, whose files are in Conan's cache like those of any package."""
import os
import subprocess

from conan import ConanFile
from conan.tools.files import copy


class Hiredis(ConanFile):
    name = "hiredis"

    def set_version(self):
        self.version = subprocess.check_output(("pkg-config", "--modversion", "hiredis"), text=True).strip()

    def package(self):
        library = subprocess.check_output(("c++", "-print-file-name=libhiredis.a"), text=True).strip()
        copy(self, "*.h", src="/usr/include/hiredis",
             dst=os.path.join(self.package_folder, "include", "hiredis"))
        copy(self, os.path.basename(library), src=os.path.dirname(os.path.realpath(library)),
             dst=os.path.join(self.package_folder, "lib"))

    def package_info(self):
        self.cpp_info.libs = ["hiredis"]
