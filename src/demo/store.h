#ifndef REDLATCH_SRC_DEMO_STORE_H_
#define REDLATCH_SRC_DEMO_STORE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "redlatch/fencing_token.h"

namespace redlatch::demo {

// A number in a file, with the newest fencing token beside it: the smallest fenced store.
//
// It does not protect a process that reads the number, adds to it and writes it back: if two do so
// at the same time, an addition is lost. That is what the lock is for. The store does only one
// thing: at each access, under an flock, it compares the caller's token with the newest one, and
// refuses an older one. Reads bring a token too: otherwise a late write could still come between
// the read and the write of its successor.
//
// Each access appends one record with one write(2), and the last record is the state. So a killed
// process has written a whole record or nothing, and the file is its own journal.
class FencedCounter {
 public:
  struct Record {
    int64_t count = 0;
    uint64_t token = 0;
    int32_t worker = 0;
    int32_t written = 0;  // 0: it was read
  };

  explicit FencedCounter(std::string path) : path_(std::move(path)) {}

  // kFailedPrecondition: refused, because the token is older than the newest.
  absl::StatusOr<int64_t> Read(FencingToken token, int worker) const {
    return Append({.token = token.value(), .worker = worker});
  }
  absl::Status Write(int64_t count, FencingToken token, int worker) const {
    return Append({.count = count, .token = token.value(), .worker = worker, .written = 1})
        .status();
  }
  absl::StatusOr<std::vector<Record>> Journal() const;

 private:
  // Returns the count. The record of a read repeats the count that it finds.
  absl::StatusOr<int64_t> Append(Record record) const;

  const std::string path_;
};

}  // namespace redlatch::demo

#endif  // REDLATCH_SRC_DEMO_STORE_H_
