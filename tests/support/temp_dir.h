#ifndef REDLATCH_TESTS_SUPPORT_TEMP_DIR_H_
#define REDLATCH_TESTS_SUPPORT_TEMP_DIR_H_

#include <string>

#include "src/base/unique_fd.h"

namespace redlatch::support {

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

#endif  // REDLATCH_TESTS_SUPPORT_TEMP_DIR_H_
