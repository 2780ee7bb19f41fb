#include "tests/support/temp_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "tests/support/fatal.h"

namespace redlatch::support {
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

// Where removal fails, the directory stays for the next sweep.
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
  // Another process's sweep may take the directory before it is locked: then make another.
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
