#include "tests/support/resources.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "src/base/random.h"
#include "tests/support/fatal.h"

namespace redlatch::support {

namespace {

namespace fs = std::filesystem;

int CountEntries(const std::string& directory) {
  std::error_code error;
  int count = 0;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    ++count;
  }
  return count;
}

}  // namespace

int OpenDescriptors() { return CountEntries("/proc/self/fd") - 1; }  // one reads the directory
int ThreadCount() { return CountEntries("/proc/self/task"); }

int64_t ResidentBytes(pid_t pid) {
  std::ifstream statm(pid == 0 ? "/proc/self/statm" : "/proc/" + std::to_string(pid) + "/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

absl::Duration ProcessCpuTime() {
  timespec now{};
  CheckErrno(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0, "clock_gettime");
  return absl::DurationFromTimespec(now);
}

namespace {

constexpr int kFirst = 10000;
constexpr int kCount = 20000;  // up to 29999; outgoing connections begin at 32768
constexpr int kAttempts = 1000;

// A socket bound to the abstract name of `port`; invalid if another socket has that name.
base::UniqueFd Claim(int port) {
  base::UniqueFd claim(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  CheckErrno(claim.valid(), "socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "redlatch-test-port-" + std::to_string(port);
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // the leading 0 makes it abstract
  const size_t length = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  if (bind(claim.get(), reinterpret_cast<sockaddr*>(&address), static_cast<socklen_t>(length)) !=
      0) {
    claim.Reset();
  }
  return claim;
}

bool IsFree(int port) {
  const base::UniqueFd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  CheckErrno(probe.valid(), "socket");
  const int on = 1;
  setsockopt(probe.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return bind(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

}  // namespace

ReservedPort::ReservedPort() {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int port = kFirst + static_cast<int>(base::RandomBits() % kCount);
    base::UniqueFd claim = Claim(port);
    if (!claim.valid() || !IsFree(port)) continue;
    number_ = port;
    claim_ = std::move(claim);
    return;
  }
  Fatal("no free TCP port between 10000 and 29999");
}

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "redlatch-test-";
constexpr size_t kLongestBase = 64;  // of the 107 characters that a Unix socket's path may have

std::string BaseDirectory() {
  const char* base = std::getenv("TMPDIR");
  if (base == nullptr || *base != '/' || std::string_view(base).size() > kLongestBase)
    return "/tmp";
  return base;
}

base::UniqueFd OpenLock(const std::string& directory, int flags) {
  return base::UniqueFd(open((directory + "/lock").c_str(), O_RDWR | O_CLOEXEC | flags, 0600));
}

// Takes the lock unless another process holds it or has removed the file meanwhile.
bool TakeLock(const base::UniqueFd& lock) {
  struct stat file {};
  return lock.valid() && flock(lock.get(), LOCK_EX | LOCK_NB) == 0 &&
         fstat(lock.get(), &file) == 0 && file.st_nlink > 0;
}

// If the removal fails, the directory stays until the next RemoveAbandoned().
void Remove(const std::string& directory) {
  std::error_code ignored;
  fs::remove_all(directory, ignored);
}

void RemoveAbandoned(const std::string& base) {
  std::error_code error;
  for (fs::directory_iterator it(base, error), end; !error && it != end; it.increment(error)) {
    if (!it->path().filename().string().starts_with(kPrefix)) continue;
    const base::UniqueFd lock = OpenLock(it->path().string(), 0);
    if (TakeLock(lock)) Remove(it->path().string());
  }
}

}  // namespace

TempDir::TempDir() : owner_(getpid()) {
  const std::string base = BaseDirectory();
  RemoveAbandoned(base);
  // Another process may remove the directory before it is locked; then this makes another one.
  do {
    path_ = base + "/" + std::string(kPrefix) + "XXXXXX";
    CheckErrno(mkdtemp(path_.data()) != nullptr, path_.c_str());
    lock_ = OpenLock(path_, O_CREAT);
  } while (!TakeLock(lock_));
}

TempDir::~TempDir() {
  if (getpid() == owner_) Remove(path_);
}

}  // namespace redlatch::support
