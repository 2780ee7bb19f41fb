#include "src/cli/sight.h"

#include <array>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "redlatch/client.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "src/cli/lock_keys.h"
#include "src/cli/processes.h"
#include "src/cli/text.h"
#include "src/engine/description.h"

namespace redlatch::cli {
namespace {

using redis::Reply;

constexpr std::string_view kMostWaiters = "99";  // as an index: a hundred

constexpr std::array<std::pair<std::string_view, Part>, 5> kParts = {{
    {"queue", kQueue},
    {"fence", kFence},
    {"readers", kReaders},
    {"permits", kPermits},
    {"write_wait", kWriteWait},
}};

absl::StatusOr<uint8_t> PartsOf(Server& server, const std::string& name) {
  uint8_t parts = 0;
  Questions questions;
  const auto add = [&](const std::string& key, Part part) {
    questions.Add({"EXISTS", key}, [&parts, part](const Reply& reply) {
      if (reply.integer > 0) parts |= part;
    });
  };
  add(name, kMain);
  for (const auto& [suffix, part] : kParts) add(Auxiliary(name, suffix), part);
  if (absl::Status asked = questions.Ask(server); !asked.ok()) return asked;
  return parts;
}

// Does something with the lock object that a row is of.
template <class Do>
auto With(const std::string& url, const LockRow& row, Do&& act)
    -> decltype(act(std::declval<SimpleLock&>())) {
  const absl::StatusOr<Client> client = Client::Connect(
      url,
      {.program = "redlatch", .on_warning = [](std::string_view) {}});  // the server's are said
  if (!client.ok()) return client.status();
  if (row.kind == "reentrant") {
    ReentrantLock lock(*client, row.name);
    return act(lock);
  }
  if (row.kind == "read_write") {
    ReentrantReadWriteLock lock(*client, row.name);
    return act(lock);
  }
  if (row.kind == "semaphore") {
    Semaphore semaphore(*client, row.name, 1);  // its capacity counts when it is acquired
    return act(semaphore);
  }
  SimpleLock lock(*client, row.name);
  return act(lock);
}

// When a waiter came, as the first word of its record says.
absl::Time AskedAt(const Reply& record) {
  int64_t micros = 0;
  const std::string first = record.text.substr(0, record.text.find(' '));
  return absl::SimpleAtoi(first, &micros) ? absl::FromUnixMicros(micros) : absl::InfinitePast();
}

// What the keys tell of any lock, whatever its kind.
absl::StatusOr<LockInfo> WaitersOf(Server& server, const LockRow& row) {
  LockInfo info;
  info.waiting = row.waiting;
  info.last_token = FencingToken(static_cast<uint64_t>(row.token));
  Questions queue;
  queue.Add({"ZRANGE", Auxiliary(row.name, "queue"), "0", kMostWaiters},
            [&info](const Reply& reply) {
              for (const Reply& hold : reply.elements) info.waiters.push_back({.hold = hold.text});
            });
  if (absl::Status asked = queue.Ask(server); !asked.ok()) return asked;
  Questions records;
  std::vector<std::string> holds;
  for (LockInfo::Party& waiter : info.waiters) {
    records.Add({"HGET", Auxiliary(row.name, "waiters"), waiter.hold},
                [&waiter](const Reply& reply) { waiter.since = AskedAt(reply); });
    holds.push_back(waiter.hold);
  }
  if (absl::Status asked = records.Ask(server); !asked.ok()) return asked;
  Processes processes;
  processes.Ask(server, holds);
  for (LockInfo::Party& waiter : info.waiters) waiter.process = processes.Of(waiter.hold);
  if (!row.is_latch() && !row.hold.empty()) {
    info.holders.push_back({.hold = row.hold, .remaining = row.remaining, .process = row.process});
  }
  return info;
}

bool MayBeData(const LockRow& row, uint8_t parts) {
  if ((parts & (kQueue | kFence)) != 0 || row.type == "none") return false;
  if (row.type != "string") return row.kind.empty();
  return engine::ClientOf(row.hold).empty() && row.remaining == absl::InfiniteDuration();
}

bool IsLibrarys(const LockRow& row) { return row.is_known() && !row.is_latch(); }

}  // namespace

absl::StatusOr<Sight> LookClosely(Server& server, const std::string& url, const std::string& name) {
  const absl::StatusOr<uint8_t> parts = PartsOf(server, name);
  if (!parts.ok()) return parts.status();
  const absl::StatusOr<int64_t> now = server.NowMicros();
  if (!now.ok()) return now.status();
  Sight sight{.exists = *parts != 0, .now_us = *now};
  if (!sight.exists) return sight;
  Processes processes;
  const FoundLock found{name, *parts};
  absl::StatusOr<std::vector<LockRow>> rows = LookAt(server, {&found, 1}, processes);
  if (!rows.ok()) return rows.status();
  if (rows->empty()) return absl::InternalError("a key has no type");
  sight.row = std::move(rows->front());
  sight.may_be_data = MayBeData(sight.row, *parts);
  // A free lock does not say what it is, but its token and waiters are where a simple one has them.
  const bool librarys = IsLibrarys(sight.row) || sight.row.type == "none";
  absl::StatusOr<LockInfo> info =
      librarys ? With(url, sight.row, [](auto& lock) { return lock.Inspect(); })
               : WaitersOf(server, sight.row);
  if (!info.ok()) return info.status();
  sight.info = *std::move(info);
  if (librarys) {  // of one moment
    sight.row.holding = sight.info.holding;
    sight.row.used = sight.info.used;
    sight.row.capacity = sight.info.capacity;
  }
  return sight;
}

absl::Status Break(const std::string& url, const LockRow& row) {
  if (row.is_latch()) {
    return absl::UnimplementedError(absl::StrCat(
        Called(row), " can't be broken: nobody holds a latch. It opens when ", row.to_go,
        " more have counted down; to let everybody through, count it down"));
  }
  if (!IsLibrarys(row)) {
    return absl::UnimplementedError(
        absl::StrCat(Called(row),
                     " is of a program's own kind, which that program alone can break, by its "
                     "ForceRelease()"));
  }
  return With(url, row, [](auto& lock) { return lock.ForceRelease(); });
}

std::string SayMayBeData(const LockRow& row) {
  return absl::StrCat(
      "the key \"", Printable(row.name), "\" is a ", row.type,
      row.type == "string" ? " without expiry" : "",
      " that no lock of redlatch has to do with, and may be another program's data; "
      "where it is a lock all the same, redis-cli DEL removes it");
}

std::string Called(const LockRow& row) {
  const std::string_view noun = row.is_latch()            ? "latch"
                                : row.kind == "semaphore" ? "semaphore"
                                                          : "lock";
  return absl::StrCat("the ", std::string(noun), " \"", Printable(row.name), "\"");
}

std::string LineOf(const LockInfo::Party& party, const Sight& sight) {
  std::string line = Described(party.process, party.hold);
  if (party.permits > 1) absl::StrAppend(&line, ", ", party.permits, " permits");
  if (party.owner.starts_with("read")) line += ", reads";
  if (party.owner.starts_with("user:")) {
    absl::StrAppend(&line, ", owner ", Printable(party.owner.substr(5)));
  }
  if (party.since != absl::InfinitePast()) {
    absl::StrAppend(&line, ", since ",
                    absl::FormatTime("%Y-%m-%d %H:%M:%S", party.since, absl::LocalTimeZone()), " (",
                    Brief(sight.now() - party.since), ")");
  }
  if (party.remaining == absl::InfiniteDuration()) {
    line += ", without end";
  } else if (party.remaining > absl::ZeroDuration()) {
    absl::StrAppend(&line, ", lease ", Brief(party.remaining));
  }
  return line;
}

}  // namespace redlatch::cli
