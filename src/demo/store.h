#ifndef REDLATCH_SRC_DEMO_STORE_H_
#define REDLATCH_SRC_DEMO_STORE_H_

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"

namespace redlatch::demo {

// The smallest fenced store: a number in a file, with the newest fencing token beside it. Each
// access appends one record with one write(2), and the last record is the state. So a killed
// process has written a whole record or nothing, and the file is its own journal.
struct Record {
  int64_t count = 0;
  uint64_t token = 0;
  int32_t worker = 0;
  int32_t written = 0;  // 0: it was read
};

// Reads or writes the number, and returns it. Under an flock it compares the caller's token with
// the newest one, and rejects an older one with kFailedPrecondition. Reads have a token too:
// otherwise a late write could still come between the read and the write of the next holder.
//
// This does not protect a process that reads the number, adds to it and writes it back: if two do
// so at the same time, an addition is lost. That is what the lock is for.
inline absl::StatusOr<int64_t> Access(const std::string& path, Record record) {
  const int file = open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  const absl::Cleanup closed = [file] { close(file); };  // this ends the flock too
  if (file < 0 || flock(file, LOCK_EX) != 0) return absl::ErrnoToStatus(errno, path);
  Record last;
  const off_t end = lseek(file, 0, SEEK_END);
  if (end > 0) (void)!pread(file, &last, sizeof last, end - static_cast<off_t>(sizeof last));
  if (record.token < last.token) {
    return absl::FailedPreconditionError("token " + std::to_string(record.token) +
                                         " is older than " + std::to_string(last.token) +
                                         ", the newest that the file has seen");
  }
  if (record.written == 0) record.count = last.count;
  if (write(file, &record, sizeof record) == sizeof record) return record.count;
  return absl::ErrnoToStatus(errno, path);
}

}  // namespace redlatch::demo

#endif  // REDLATCH_SRC_DEMO_STORE_H_
