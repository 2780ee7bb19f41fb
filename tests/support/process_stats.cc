#include "tests/support/process_stats.h"

#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include "tests/support/fatal.h"

namespace redlatch::support {
namespace {

namespace fs = std::filesystem;

std::string ProcPath(pid_t pid, std::string_view name) {
  return "/proc/" + (pid == 0 ? std::string("self") : std::to_string(pid)) + "/" +
         std::string(name);
}

int CountEntries(const std::string& directory) {
  std::error_code error;
  int count = 0;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    ++count;
  }
  return count;
}

}  // namespace

int OpenDescriptors(pid_t pid) {
  const int count = CountEntries(ProcPath(pid, "fd"));
  return pid == 0 || pid == getpid() ? count - 1 : count;  // one of ours reads the directory
}

int64_t ResidentBytes(pid_t pid) {
  std::ifstream statm(ProcPath(pid, "statm"));
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

int ThreadCount(pid_t pid) { return CountEntries(ProcPath(pid, "task")); }

absl::Duration ProcessCpuTime() {
  timespec now{};
  CheckErrno(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0, "clock_gettime");
  return absl::DurationFromTimespec(now);
}

}  // namespace redlatch::support
