#ifndef REDLATCH_TESTS_SUPPORT_RESOURCES_H_
#define REDLATCH_TESTS_SUPPORT_RESOURCES_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "src/base/unique_fd.h"

namespace redlatch::support {

// What a process uses: this one, or the one with that pid. For bars such as "no descriptor or
// memory growth" and "an idle client uses no CPU". Of a process that is gone, all are 0.
int OpenDescriptors(pid_t pid = 0);
int64_t ResidentBytes(pid_t pid = 0);
int ThreadCount(pid_t pid = 0);

// CPU time used so far by all threads of this process, ended ones too, user and system; read twice
// and compare.
absl::Duration ProcessCpuTime();

// A TCP port on loopback that no other ReservedPort of any process on this machine has, as long as
// this object lives; also while nothing listens on it. It lies below the range from which the
// kernel takes the ports of outgoing connections: one of those could occupy it while its server
// is down, or a client that connects to it could meet itself.
//
// Programs that know nothing of this may still take it.
class ReservedPort {
 public:
  ReservedPort();
  int number() const { return number_; }

 private:
  int number_ = 0;
  base::UniqueFd claim_;  // an abstract Unix socket named for the port; gone with the process
};

// An empty directory of mode 0700 under $TMPDIR, else /tmp; short enough for a Unix socket in it.
// Removed with this object. What a crashed process left behind is removed by the next process that
// makes one: a directory is in use as long as the lock on its file `lock` is held, and the kernel
// drops that lock with the process.
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
