"""The Conan 2 recipe of redlatch. It builds the sources beside it: `conan create packaging/conan`."""
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

ROOT = os.path.join("..", "..")


class RedlatchRecipe(ConanFile):
    name = "redlatch"
    package_type = "library"
    license = "Apache-2.0"
    url = "https://github.com/redlatch/redlatch"
    homepage = "https://redlatch.dev"
    description = "Distributed locks over Redis for C++20"
    topics = ("redis", "valkey", "distributed-lock", "mutex", "semaphore", "leader-election")
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False]}
    default_options = {"shared": False, "fPIC": True}

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, ROOT, "include", "redlatch", "version.h"))
        self.version = re.search(r'VERSION_STRING "([0-9.]+)"', header).group(1)

    def export_sources(self):
        root = os.path.join(self.recipe_folder, ROOT)
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "lua/*", "src/*"):
            copy(self, pattern, src=root, dst=self.export_sources_folder)

    def configure(self):
        if self.options.shared:
            self.options.rm_safe("fPIC")

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        # Public headers include Abseil's.
        self.requires("abseil/[>=20220623]", transitive_headers=True, transitive_libs=True)
        self.requires("openssl/[>=3 <4]")

    def validate(self):
        check_min_cppstd(self, 20)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        for part in ("CLI", "TESTS", "BENCHMARKS"):
            toolchain.cache_variables[f"REDLATCH_BUILD_{part}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        self.cpp_info.set_property("cmake_target_name", "redlatch::redlatch")
        self.cpp_info.set_property("pkg_config_name", "redlatch")
        self.cpp_info.libs = ["redlatch"]
        self.cpp_info.system_libs = ["pthread"]
        self.cpp_info.requires = [
            *(f"abseil::absl_{part}" for part in (
                "any_invocable", "function_ref", "inlined_vector", "span", "status", "statusor",
                "str_format", "strings", "time")),
            "openssl::ssl", "openssl::crypto"]
