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
// Nothing here protects who reads the number, adds to it and writes it back: two who do so at the
// same time lose an addition. That is what the lock is for. The store does one thing only: with
// each access, in a step that nobody can come between (an flock, for as long as that access takes),
// it compares the caller's token with the newest, and refuses an older one. Reading shows the token
// too: else a late writer could still come between the reading and the writing of its successor.
//
// Each access appends one record, `count token worker r|w`, with one write(2); the last record is
// what is so. A process that is killed has thus written the whole of a record or nothing, and the
// file is its own journal: it tells how often and by whom the number was changed.
class FencedCounter {
 public:
  struct Record {
    int64_t count = 0;
    FencingToken token;
    int worker = 0;
    bool written = false;  // else: read
  };

  explicit FencedCounter(std::string path) : path_(std::move(path)) {}

  absl::Status Create() const;
  // kFailedPrecondition: refused, as the token is older than the newest.
  absl::StatusOr<int64_t> Read(FencingToken token, int worker) const;
  absl::Status Write(int64_t count, FencingToken token, int worker) const;
  // All records, for whoever only looks.
  absl::StatusOr<std::vector<Record>> Journal() const;

 private:
  std::string path_;
};

}  // namespace redlatch::demo

#endif  // REDLATCH_SRC_DEMO_STORE_H_
