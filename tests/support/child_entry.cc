#include "tests/support/child_entry.h"

#include <unistd.h>

#include <climits>
#include <optional>
#include <utility>

#include "src/base/unique_fd.h"
#include "tests/support/fatal.h"

namespace {

bool leaks_on_purpose = false;

}  // namespace

// LeakSanitizer calls it when the process ends.
extern "C" int __lsan_is_turned_off() { return leaks_on_purpose ? 1 : 0; }

namespace redlatch::support {
namespace {

constexpr char kEntryVariable[] = "REDLATCH_TEST_CHILD";
constexpr int kPipeDescriptor = 3;

std::string ThisProgram() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  CheckErrno(length > 0, "/proc/self/exe");
  return std::string(path, static_cast<size_t>(length));
}

// Arguments are passed in the environment, since GoogleTest would parse them on the command line.
std::string ArgumentVariable(size_t index) {
  return std::string(kEntryVariable) + "_ARGUMENT_" + std::to_string(index);
}

// Returns the variable's value and removes it, so that children of this process do not inherit it.
std::optional<std::string> Take(const std::string& variable) {
  const char* value = std::getenv(variable.c_str());
  if (value == nullptr) return std::nullopt;
  std::string result = value;
  unsetenv(variable.c_str());
  return result;
}

}  // namespace

std::unique_ptr<Child> SpawnChild(std::string_view entry, const std::vector<std::string>& args) {
  std::vector<std::string> environment = {"GTEST_BRIEF=1"};
  environment.push_back(std::string(kEntryVariable) + "=" + std::string(entry));
  for (size_t i = 0; i < args.size(); ++i) {
    environment.push_back(ArgumentVariable(i) + "=" + args[i]);
  }
  // GTEST_*: a filter or a shard without tests would skip the environments as well.
  return Child::Exec({ThisProgram()}, {.environment = std::move(environment),
                                       .hidden_prefix = "GTEST_",
                                       .pipe_descriptor = kPipeDescriptor});
}

bool SpawnedFor(std::string_view entry) {
  const char* wanted = std::getenv(kEntryVariable);
  return wanted != nullptr && wanted == entry;
}

void LeaksOnPurpose() { leaks_on_purpose = true; }

int RunChildEntry(ChildEntry body) {
  Take(kEntryVariable);
  std::vector<std::string> args;
  while (std::optional<std::string> arg = Take(ArgumentVariable(args.size()))) {
    args.push_back(*std::move(arg));
  }
  LinePipe parent{base::UniqueFd(kPipeDescriptor)};
  return body(parent, args);
}

}  // namespace redlatch::support
