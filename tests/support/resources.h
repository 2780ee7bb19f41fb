#ifndef REDLATCH_TESTS_SUPPORT_RESOURCES_H_
#define REDLATCH_TESTS_SUPPORT_RESOURCES_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "src/base/unique_fd.h"

namespace redlatch::support {

// The resources of this process. They are for bars such as "no descriptor or memory growth" and "an
// idle client uses no CPU".
int OpenDescriptors();
int ThreadCount();
// The memory of the process with that pid; 0: of this process. It is 0 if the process is gone.
int64_t ResidentBytes(pid_t pid = 0);

// The user and system CPU time of all threads of this process so far, including ended ones. Read it
// twice and compare.
absl::Duration ProcessCpuTime();

// A TCP port on loopback that no other ReservedPort on this machine has while this object exists,
// even if no process listens on it. It is below the range from which the kernel takes the ports of
// outgoing connections. Otherwise such a connection could occupy it while its server is down, or a
// client that connects to it could be connected to itself.
//
// Programs that do not use ReservedPort may still take it.
class ReservedPort {
 public:
  ReservedPort();
  int number() const { return number_; }

 private:
  int number_ = 0;
  base::UniqueFd claim_;  // an abstract Unix socket named after the port; it ends with the process
};

// An empty directory of mode 0700 under $TMPDIR, else /tmp, with a path short enough for a Unix
// socket in it. The destructor removes it. If a process crashes, the next process that makes a
// directory removes the old one: a directory is in use while a process holds the lock on its file
// `lock`, and the kernel releases that lock when the process ends.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  base::UniqueFd lock_;
  int owner_;  // the process that made it; a forked child removes nothing
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_RESOURCES_H_
