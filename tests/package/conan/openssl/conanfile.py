"""Debian's OpenSSL as a Conan package."""
import subprocess

from conan import ConanFile


class OpenSsl(ConanFile):
    name = "openssl"

    def set_version(self):
        self.version = subprocess.check_output(("pkg-config", "--modversion", "openssl"), text=True).strip()

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "OpenSSL")
        for part, target in (("crypto", "OpenSSL::Crypto"), ("ssl", "OpenSSL::SSL")):
            component = self.cpp_info.components[part]
            component.set_property("cmake_target_name", target)
            component.includedirs = component.libdirs = component.bindirs = []
            component.system_libs = [part]
