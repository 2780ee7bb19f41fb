#include "src/demo/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace redlatch::demo {

absl::StatusOr<int64_t> FencedCounter::Append(Record record) const {
  const int file = open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return absl::ErrnoToStatus(errno, path_);
  const absl::Cleanup closed = [file] { close(file); };  // ends the flock too
  struct stat about = {};
  if (flock(file, LOCK_EX) != 0 || fstat(file, &about) != 0) {
    return absl::ErrnoToStatus(errno, path_);
  }
  Record last;
  if (about.st_size > 0 &&
      pread(file, &last, sizeof last, about.st_size - static_cast<off_t>(sizeof last)) < 0) {
    return absl::ErrnoToStatus(errno, path_);
  }
  if (record.token < last.token) {
    return absl::FailedPreconditionError(absl::StrCat("token ", record.token, " is older than ",
                                                      last.token,
                                                      ", the newest that the file has seen"));
  }
  if (record.written == 0) record.count = last.count;
  if (write(file, &record, sizeof record) != sizeof record) {
    return absl::ErrnoToStatus(errno, path_);
  }
  return record.count;
}

absl::StatusOr<std::vector<FencedCounter::Record>> FencedCounter::Journal() const {
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return absl::ErrnoToStatus(errno, path_);
  const absl::Cleanup closed = [file] { close(file); };
  std::vector<Record> journal;
  for (Record record; read(file, &record, sizeof record) == sizeof record;) {
    journal.push_back(record);
  }
  return journal;
}

}  // namespace redlatch::demo
