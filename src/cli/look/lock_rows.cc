#include "src/cli/look/lock_rows.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "src/cli/look/lock_keys.h"
#include "src/lock/description.h"
#include "src/lock/key_set.h"

namespace redlatch::cli {
namespace {

namespace kinds = internal::kinds;
using redis::Reply;

// Of a row's holders who are kept in a zset, each by the end of its own lease: how many there are,
// and the first. Readers do not count while somebody writes: they read under that write.
void AskHolders(Questions& questions, const std::string& key, int64_t now, bool reading,
                LockRow& row) {
  const std::string from = absl::StrCat("(", now);
  questions.Add({"ZCOUNT", key, from, "+inf"}, [&row, reading](const Reply& reply) {
    if (!row.hold.empty()) return;
    row.holding = reply.integer;
    row.reading = reading;
  });
  questions.Add({"ZRANGE", key, from, "+inf", "BYSCORE", "LIMIT", "0", "1", "WITHSCORES"},
                [&row, now](const Reply& reply) {
                  if (reply.elements.size() != 2 || !row.hold.empty()) return;
                  row.hold = reply.elements[0].text;
                  row.remaining = absl::Microseconds(NumberIn(reply.elements[1]) - now);
                });
}

// Of a reentrant lock, or a writer: <hold> is "expiry token".
void TakeHold(const Reply& field, const Reply& value, int64_t now, LockRow& row) {
  int64_t expiry = 0;
  const std::string first = value.text.substr(0, value.text.find(' '));
  if (internal::ClientOf(field.text).empty() || !absl::SimpleAtoi(first, &expiry) || expiry <= now)
    return;
  if (row.holding++ > 0) return;
  row.hold = field.text;
  row.remaining = absl::Microseconds(expiry - now);
}

// Of a kind that is not known: what looks like a hold is one.
void GuessHold(const Reply& field, const Reply& value, LockRow& row) {
  for (const Reply* const text : {&field, &value}) {
    if (row.hold.empty() && !internal::ClientOf(text->text).empty()) row.hold = text->text;
  }
}

void TakeHolds(const Reply& page, int64_t now, LockRow& row) {
  if (page.elements.size() != 2 || row.is_semaphore() || row.is_latch()) return;
  const std::vector<Reply>& fields = page.elements[1].elements;
  for (size_t i = 0; i + 1 < fields.size(); i += 2) {
    if (row.is_known()) {
      TakeHold(fields[i], fields[i + 1], now, row);
    } else {
      GuessHold(fields[i], fields[i + 1], row);
    }
  }
}

void AskString(Questions& questions, LockRow& row) {
  row.kind = kinds::kSimple;
  questions.Add({"GETRANGE", row.name, "0", "127"}, [&row](const Reply& reply) {
    const std::string_view granted = QuorumHoldIn(reply.text);
    if (!granted.empty()) row.kind = kinds::kQuorum;
    row.hold = granted.empty() ? reply.text : std::string(granted);
    row.holding = reply.text.empty() ? 0 : 1;  // empty: it has ended meanwhile
  });
}

void AskHash(Questions& questions, int64_t now, LockRow& row) {
  questions.Add({"HMGET", row.name, "kind", "capacity", "extra", "total", "count"},
                [&row](const Reply& reply) {
                  if (reply.elements.size() != 5) return;
                  row.kind = KindIn(reply.elements[0].text);
                  row.capacity = NumberIn(reply.elements[1]);
                  row.used = NumberIn(reply.elements[2]);
                  row.total = NumberIn(reply.elements[3]);
                  row.to_go = NumberIn(reply.elements[4]);
                });
  questions.Add({"HSCAN", row.name, "0", "COUNT", "10"},
                [&row, now](const Reply& reply) { TakeHolds(reply, now, row); });
}

void AskAll(Questions& questions, const FoundLock& lock, int64_t now, LockRow& row) {
  const uint8_t parts = lock.parts;
  const auto key = [&row](std::string_view suffix) {
    return internal::AuxiliaryKey(row.name, suffix);
  };
  if (row.type == "string") {
    AskString(questions, row);
  } else if (row.type == "hash") {
    AskHash(questions, now, row);
  }
  for (const std::string& queue : lock.queues) {
    questions.Add({"ZCARD", key(queue)},
                  [&row](const Reply& reply) { row.waiting += reply.integer; });
  }
  if ((parts & kFence) != 0) {
    questions.Add({"GET", key(internal::kFenceSuffix)},
                  [&row](const Reply& reply) { row.token = NumberIn(reply); });
  }
  if ((parts & kPermits) != 0)
    AskHolders(questions, key(kinds::kPermitsSuffix), now, /*reading=*/false, row);
  if ((parts & kWriters) != 0) {
    questions.Add({"ZCARD", key(kinds::kWritersSuffix)}, [&row](const Reply& reply) {
      row.waiting_writers = reply.integer;
      row.waiting += reply.integer;
    });
  }
  if ((parts & kReaders) != 0)
    AskHolders(questions, key(kinds::kReadersSuffix), now, /*reading=*/true, row);
}

void Complete(const FoundLock& lock, LockRow& row) {
  const uint8_t parts = lock.parts;
  if (row.is_semaphore()) row.used = row.holding == 0 ? 0 : row.used + row.holding;
  if (row.type == "none" && (parts & (kReaders | kWriters)) != 0) row.kind = kinds::kReadWrite;
  if (row.type == "none" && row.kind.empty() && !lock.queues.empty()) {
    // Semaphores and latches are nothing without their key.
    std::string kind = KindOfQueue(lock.queues.front());
    if (kind != kinds::kSemaphore && kind != kinds::kLatch) row.kind = std::move(kind);
  }
  const bool foreign = row.kind == kinds::kSimple && internal::ClientOf(row.hold).empty();
  if (foreign && lock.queues == std::vector<std::string>{QueueSuffix(kinds::kQuorum)}) {
    row.kind = kinds::kQuorum;
  }
  if (!row.is_known() && row.type != "none") row.holding = std::max<int64_t>(row.holding, 1);
}

// What the clocks say of those parts where locks are, each of which is asked once.
class Clocks {
 public:
  explicit Clocks(Server& server) : server_(server) {}

  absl::StatusOr<int64_t> Of(std::string_view key) {
    const size_t part = server_.PartOf(key);
    if (const auto known = now_.find(part); known != now_.end()) return known->second;
    absl::StatusOr<int64_t> now = server_.NowMicros(key);
    if (now.ok()) now_[part] = *now;
    return now;
  }

 private:
  Server& server_;
  absl::flat_hash_map<size_t, int64_t> now_;  // by part
};

}  // namespace

bool LockRow::in_use() const {
  return holding > 0 || waiting > 0 || held_on > 0 || (is_latch() && to_go > 0);
}

absl::StatusOr<std::vector<LockRow>> LookAt(Server& server, absl::Span<const FoundLock> locks,
                                            Processes& processes) {
  Clocks clocks(server);
  std::vector<LockRow> rows(locks.size());
  Questions of_keys;
  for (size_t i = 0; i < rows.size(); ++i) {
    LockRow& row = rows[i];
    row.name = locks[i].name;
    of_keys.Add({"TYPE", row.name}, [&row](const Reply& reply) { row.type = reply.text; });
    of_keys.Add({"PTTL", row.name}, [&row](const Reply& reply) {
      if (reply.integer >= 0) row.remaining = absl::Milliseconds(reply.integer);
    });
  }
  if (absl::Status asked = of_keys.Ask(server); !asked.ok()) return asked;
  Questions of_contents;
  for (size_t i = 0; i < rows.size(); ++i) {
    const absl::StatusOr<int64_t> now = clocks.Of(rows[i].name);
    if (!now.ok()) return now.status();
    AskAll(of_contents, locks[i], *now, rows[i]);
  }
  if (absl::Status asked = of_contents.Ask(server); !asked.ok()) return asked;
  std::vector<std::string> holds;
  for (size_t i = 0; i < rows.size(); ++i) {
    Complete(locks[i], rows[i]);
    holds.push_back(rows[i].hold);
  }
  processes.Ask(server, holds);
  for (LockRow& row : rows) row.process = processes.Of(row.hold);
  // What this user may not see.
  std::erase_if(rows, [](const LockRow& row) { return row.type.empty(); });
  return rows;
}

bool MayBeHeld(const LockRow& row) { return row.held_on + row.unknown > row.quorum / 2; }

std::string StateOf(const LockRow& row) {
  if (row.is_latch()) return row.to_go == 0 ? "open" : absl::StrCat(row.to_go, " to go");
  if (row.is_semaphore()) return absl::StrCat(row.used, " of ", row.capacity);
  if (row.whole && row.held_on > 0) {
    const char* const word = row.holding > 0 ? "held " : MayBeHeld(row) ? "maybe " : "part ";
    return absl::StrCat(word, row.held_on, "/", row.quorum);
  }
  if (row.holding == 0) return "free";
  if (row.reading) return absl::StrCat("read by ", row.holding);
  return row.is_read_write() ? "written" : "held";
}

}  // namespace redlatch::cli
