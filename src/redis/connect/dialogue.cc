#include "src/redis/connect/dialogue.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"

namespace redlatch::redis {

Interest Dialogue::Write() {
  while (!unwritten.empty()) {
    const IoResult put = transport->Write(unwritten);
    if (put.blocked()) return write_wants = put.wants();
    const bool done = put.kind == IoResult::Kind::kDone;
    if (!done) unwritable = Describe(put);
    unwritten.erase(0, done ? put.bytes : unwritten.size());
  }
  return write_wants = Interest::kNone;
}

absl::StatusOr<bool> Dialogue::Read() {
  char buffer[size_t{16} << 10];
  const IoResult got = transport->Read(buffer, sizeof buffer);
  read_wants = got.wants();
  if (got.blocked()) return false;
  if (got.kind == IoResult::Kind::kRefused) return absl::FailedPreconditionError(Describe(got));
  if (got.kind != IoResult::Kind::kDone) return absl::UnavailableError(Describe(got));
  parser.Feed({buffer, got.bytes});
  if (absl::Status parsed = parser.Take(replies); !parsed.ok()) {
    return absl::UnavailableError(parsed.message());
  }
  return true;
}

absl::StatusOr<bool> Dialogue::GoOn(size_t count, base::Instant deadline, int wake_fd) {
  for (bool over = false;;) {
    Write();
    if (unwritten.empty() && replies.size() >= count) return true;
    if (over) return false;
    const Readiness ready = transport->Wait(read_wants | write_wants, wake_fd, deadline);
    if (ready.Meets(read_wants)) {
      if (auto heard = Read(); !heard.ok()) return heard;
    }
    over = ready.woken || deadline <= base::Now();
  }
}

}  // namespace redlatch::redis
