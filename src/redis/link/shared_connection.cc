// Who waits, who leads, who gives up; what the leader does on the connection is in
// shared_connection_io.cc, and what nobody waits for in shared_connection_send.cc.
#include "src/redis/link/shared_connection.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {

SharedConnection::SharedConnection(const Url& url, SharedConnectionOptions options)
    : options_(std::move(options)),
      server_(url.DebugString()),
      comeback_(options_.first_backoff, options_.longest_backoff),
      spin_(options_.spin),
      connector_(url, Handshake::Purpose::kCommands, options_.open),
      buffer_(std::make_unique<char[]>(kReadSize)) {}

SharedConnection::~SharedConnection() {
  Finished finished;
  {
    const base::MutexLock lock(mu_);
    FailSent(absl::StrCat("the connection to ", server_, " was closed"), finished);
  }
  TellFinished({}, finished);
}

void SharedConnection::operator delete(SharedConnection* connection, std::destroying_delete_t) {
  if (connection->fork_guard_.InForkedChild()) {
    connection->transport_.reset();
    connection->connector_.CloseInForkedChild();
    return connection->wake_.Close();
  }
  connection->~SharedConnection();
  ::operator delete(connection);
}

absl::Status SharedConnection::Refusal() const {
  if (fork_guard_.InForkedChild()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the connection to ", server_,
                     " belongs to the process that forked this one; connect again after fork()"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Reply> SharedConnection::Call(const Command& command, base::Instant deadline) {
  absl::StatusOr<Reply> result;
  CallBatch(absl::MakeConstSpan(&command, 1), deadline, absl::MakeSpan(&result, 1));
  return result;
}

void SharedConnection::CallBatch(absl::Span<const Command> commands, base::Instant deadline,
                                 absl::Span<absl::StatusOr<Reply>> results) {
  Exchange mine;
  mine.results = results;
  Run(commands, mine, deadline);
}

absl::Status SharedConnection::Connect(base::Instant deadline) {
  const Command ping{"PING"};
  absl::StatusOr<Reply> result;
  Exchange mine;
  mine.results = absl::MakeSpan(&result, 1);
  mine.fail_fast = true;
  Run(absl::MakeConstSpan(&ping, 1), mine, deadline);
  if (result.ok() && result->is_error()) return ErrorStatus(result->text, server_);
  return result.status();
}

void SharedConnection::Run(absl::Span<const Command> commands, Exchange& mine,
                           base::Instant deadline) noexcept {
  absl::Status refused = Refusal();
  bool leading = false;
  mine.begun = base::Now();
  if (refused.ok() && deadline <= mine.begun) {
    refused = absl::UnavailableError(
        absl::StrCat("there was no time left to ask ", server_, " (the command was not sent)"));
  }
  if (commands.empty()) return;
  if (refused.ok()) {
    const base::MutexLock lock(mu_);
    // Where nobody leads, nobody sends what waits: whoever comes then is taken, and does it.
    if (leader_ != nullptr && pipeline_.unsent_bytes() > options_.backlog_bytes) {
      refused = absl::UnavailableError(absl::StrCat(server_,
                                                    " does not keep up: ", options_.backlog_bytes,
                                                    " bytes of commands are waiting to be sent"));
    } else {
      pipeline_.Append(commands, &mine);
      leading = leader_ == nullptr;
      if (leading) {
        leader_ = &mine;
      } else {
        has_unsent_.store(true, std::memory_order_release);
        if (leader_sleeps_) Write();
      }
    }
  }
  if (!refused.ok()) {
    std::fill(mine.results.begin(), mine.results.end(), refused);
    return;
  }
  if (leading || Follow(mine, deadline)) Lead(mine, deadline);
}

bool SharedConnection::GoesOn(const Exchange& mine) const {
  if (!mine.results.empty()) return mine.open > 0;
  return connected_ && pipeline_.size() > 0 && pipeline_.FirstWaiting() == nullptr;
}

bool SharedConnection::Follow(Exchange& mine, base::Instant deadline) {
  if (const absl::Duration spin = spin_.Length(); spin > absl::ZeroDuration()) {
    const base::Instant until = std::min(deadline, base::Now() + spin);
    while (mine.parker.value() == base::Parker::kArmed && base::Now() < until) sched_yield();
  }
  for (;;) {
    switch (mine.parker.ParkUntil(deadline)) {
      case kDone:
        return false;
      case kLead:
        return true;
      default:
        break;
    }
    const base::MutexLock lock(mu_);
    if (mine.open > 0 && leader_ != &mine) {
      GiveUp(mine);
      return false;
    }
    // Decided under the lock, and the word that says so comes any moment.
    deadline = base::Instant::Infinite();
  }
}

void SharedConnection::Lead(Exchange& mine, base::Instant deadline) {
  mine.parker.Arm();
  Finished finished;
  Exchange* next = nullptr;
  bool unread = false;
  {
    const base::MutexLock lock(mu_);
    spin_.Begun();
    // A connection that was idle may have ended unnoticed. Seen before anything is sent, that
    // costs nobody anything.
    bool look_first = connected_ && mine.begun - progress_ > kIdle;
    do {
      if (std::exchange(look_first, false)) {
        Receive(mine, kAtOnce, finished);
      } else if (connected_) {
        Write();
        LeaveOnceAnswered();
        const base::Instant silent_at = progress_ + options_.stall_timeout;
        const base::Instant until = leaving_.empty() ? deadline : std::min(deadline, silent_at);
        if (doomed_.empty()) Receive(mine, until, finished);
      } else {
        Reconnect(mine, deadline, finished);
      }
      if (!doomed_.empty()) Break(finished);
    } while (GoesOn(mine) && base::Now() < deadline);
    if (mine.open > 0) {
      GiveUp(mine);
    } else if (mine.results.empty() && deadline != kAtOnce && deadline <= base::Now()) {
      GiveUpIfStalled();
    } else if (mine.results.size() == 1 && mine.results[0].ok() && mine.at == nullptr) {
      spin_.Completed(mine.begun, base::Now());
    }
    if (!doomed_.empty()) Break(finished);
    next = pipeline_.FirstWaiting();
    leader_ = next;
    if (next == nullptr) Write();  // what was sent without waiting
    unread = next == nullptr && connected_ && pipeline_.size() > 0;
  }
  // The others first in the queue go on first.
  if (next != nullptr) next->parker.Set(kLead);
  TellFinished(mine, finished);
  if (unread && options_.on_unread) options_.on_unread();
}

void SharedConnection::GiveUp(Exchange& mine) {
  ++stats_.late;
  const absl::Status unsent =
      connected_ || last_failure_.ok()
          ? absl::UnavailableError(
                absl::StrCat("the command could not be sent to ", server_, " in time"))
          : MarkNotSent(absl::Status(
                last_failure_.code(),
                absl::StrCat(std::string(last_failure_.message()),
                             " (the command was not sent; it was tried until the deadline)")));
  const absl::Status sent = WhenSent(server_ + " did not answer in time");
  if (pipeline_.Abandon(mine, sent, unsent)) GiveUpIfStalled();
}

void SharedConnection::TellFinished(const Exchange& mine, Finished& finished) {
  for (Exchange* exchange : finished) {
    if (exchange == &mine) continue;
    if (exchange->waits()) {
      exchange->parker.Set(kDone);
    } else {
      std::exchange(exchange->done, nullptr)();  // the exchange may go with it
      --untold_;
    }
  }
  finished.clear();
}

// The next leader gives the connection up.
void SharedConnection::MakeAnew(std::string_view why) {
  if (fork_guard_.InForkedChild()) return;
  const base::MutexLock lock(mu_);
  if (!connected_) stale_ = std::string(why);
  if (!connected_ || !leaving_.empty()) return;
  leaving_ = std::string(why);
  InterruptLeader();
}

std::optional<Peer> SharedConnection::peer() const {
  if (fork_guard_.InForkedChild()) return std::nullopt;
  const base::MutexLock lock(mu_);
  return connected_ && leaving_.empty() ? peer_ : std::nullopt;
}

SharedConnection::Stats SharedConnection::stats() const {
  if (fork_guard_.InForkedChild()) return {};
  const base::MutexLock lock(mu_);
  return stats_;
}

ServerInfo SharedConnection::server_info() const {
  if (fork_guard_.InForkedChild()) return {};
  const base::MutexLock lock(mu_);
  return info_;
}

}  // namespace redlatch::redis
