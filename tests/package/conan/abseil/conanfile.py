"""Debian's Abseil as a Conan package."""
import subprocess

from conan import ConanFile

PARTS = ("any_invocable", "function_ref", "inlined_vector", "span", "status", "statusor", "str_format",
         "strings", "time")


class Abseil(ConanFile):
    name = "abseil"

    def set_version(self):
        self.version = subprocess.check_output(("pkg-config", "--modversion", "absl_base"), text=True).strip()

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "absl")
        libraries = subprocess.check_output(
            ("pkg-config", "--libs-only-l", *(f"absl_{part}" for part in PARTS)), text=True).split()
        for part in PARTS:
            component = self.cpp_info.components[f"absl_{part}"]
            component.set_property("cmake_target_name", f"absl::{part}")
            component.includedirs = component.libdirs = component.bindirs = []
            component.system_libs = [library.removeprefix("-l") for library in libraries]
