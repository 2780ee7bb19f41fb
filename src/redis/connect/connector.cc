#include "src/redis/connect/connector.h"

#include <errno.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/no_cancellation.h"
#include "src/redis/transport/tls.h"
#include "src/redis/wire/errors.h"

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
  if (absl::Status parsed = parser.Take({buffer, got.bytes}, replies); !parsed.ok()) {
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
      if (auto got = Read(); !got.ok()) return got;
    }
    over = ready.woken || deadline <= base::Now();
  }
}

namespace {

// The kernel repeats a lost first packet of a connection only after a second, by which time most
// calls are over. A new socket sends another one sooner. Each gets a longer timeout than the last.
constexpr absl::Duration kFirstTimeout = absl::Milliseconds(250);
constexpr int kTimeoutGrowth = 3;
// The second connection to a server may take this many times as long as the first, and at least
// kSecondTimeout.
constexpr int kSecondTakes = 4;
constexpr absl::Duration kSecondTimeout = absl::Milliseconds(250);

// The pause between calls of Poll() while a name is looked up.
constexpr absl::Duration kLookUpPause = absl::Milliseconds(5);

}  // namespace

Connector::Connector(const Url& url, Handshake::Purpose purpose, TransportFactory open,
                     Endpoint endpoint, Whereabouts where, std::optional<FirstScript> begin)
    : url_(url),
      server_(url.DebugString()),
      handshake_(url, purpose, std::move(begin)),
      open_(open ? std::move(open) : OpenTransport),
      endpoint_(endpoint ? std::move(endpoint) : MakeEndpoint(url)),
      where_(std::move(where)),
      compares_run_ids_(purpose == Handshake::Purpose::kCommands && !url.in_cluster &&
                        (url.kind == Url::Kind::kTcp || url.kind == Url::Kind::kSentinel)) {}

absl::Status Connector::Unreachable(const Attempt& attempt, const std::string& why) const {
  const bool one_of_several = attempt.targets.size() > 1 || url_.kind == Url::Kind::kSentinel;
  const std::string address =
      attempt.dialogue.transport != nullptr && attempt.next_target > 0 && one_of_several
          ? attempt.target().address.text + ": "
          : "";
  return absl::UnavailableError(absl::StrCat("cannot connect to ", server_, ": ", address, why));
}

absl::Status Connector::HungUp(const Attempt& attempt, const absl::Status& broken) const {
  const std::string why(broken.message());
  if (attempt.dialogue.replies.empty() || !attempt.dialogue.replies.back().is_error()) {
    // With any other error, the server has said what is wrong.
    const bool silent = attempt.dialogue.replies.empty() && absl::IsUnavailable(broken);
    const std::string hint = silent ? Hint() : "";
    return {broken.code(), Unreachable(attempt, absl::StrCat(why, hint)).message()};
  }
  const absl::Status last_words =
      ErrorStatus(WithoutArguments(attempt.dialogue.replies.back().text), server_);
  return absl::UnavailableError(absl::StrCat(std::string(last_words.message()), "; ", why));
}

// Says what may be wrong if the server hangs up before it has said anything.
std::string Connector::Hint() const {
  if (url_.kind != Url::Kind::kTcp && url_.kind != Url::Kind::kSentinel) return "";
  if (url_.tls == nullptr) {
    return url_.kind == Url::Kind::kTcp && !url_.in_cluster
               ? " (is it a Redis server? If it speaks TLS at that port, write rediss://)"
               : " (is it a Redis server? If it speaks TLS at that port, add tls=on)";
  }
  return url_.tls->options().cert.empty() ? " (does it want to see a certificate of this client? "
                                            "Name the files: cert=/path&key=/path)"
                                          : "";
}

void Connector::BeginAttempt() {
  attempt_ = Attempt();
  attempt_->began = base::Now();
  attempt_->deadline = attempt_->began + url_.connect_timeout;
  if (!where_ || !trust_where_) return;
  if (std::optional<Target> target = where_()) {
    attempt_->told_where = true;
    attempt_->targets.push_back(*std::move(target));
  }
}

absl::StatusOr<std::optional<Accepted>> Connector::Failed(absl::Status why) {
  if (attempt_->made) return Made(*std::move(attempt_->made));
  trust_where_ = !attempt_->told_where;
  attempt_.reset();
  return why;
}

absl::StatusOr<std::optional<Accepted>> Connector::Made(Accepted made) {
  attempt_.reset();
  trust_where_ = true;
  run_id_ = made.info.run_id;
  return std::optional<Accepted>(std::move(made));
}

bool Connector::MayBeTwo(const Accepted& made) const {
  return compares_run_ids_ && !made.info.run_id.empty() && made.info.run_id != run_id_;
}

std::string Connector::TwoServers(const Accepted& first, const Accepted& second) const {
  const std::string& one = first.target.address.text;
  const std::string& other = second.target.address.text;
  return absl::StrCat(
      server_, " leads to two primaries, one at ", one,
      one == other ? " and another there as well" : absl::StrCat(" and another at ", other),
      ", and each would have locks of its own (name one server, without a load balancer before "
      "it)");
}

// If the first server has restarted meanwhile, it no longer answers over the first connection.
void Connector::Attempt::AskFirst(std::string what) {
  two = std::move(what);
  dialogue = std::move(made->dialogue);
  dialogue.unwritten = Command{"PING"}.bytes();
  made.reset();
}

void Connector::Attempt::BeginSecond(Accepted first) {
  const base::Instant now = base::Now();
  deadline = std::min(deadline, now + std::max(kSecondTimeout, kSecondTakes * (now - began)));
  std::rotate(targets.begin(), targets.begin() + static_cast<ptrdiff_t>(next_target),
              targets.end());
  next_target = 0;
  dialogue = Dialogue();
  connected = false;
  made = std::move(first);
}

absl::Status Connector::Restarted(const Attempt& attempt) const {
  return Unreachable(attempt, "it restarted meanwhile");
}

// True if `where` now gives another address than that of the attempt.
bool Connector::Moved() const {
  if (!attempt_.has_value() || !attempt_->told_where) return false;
  const std::optional<Target> target = where_();
  return target.has_value() && target->address != attempt_->targets.front().address;
}

absl::StatusOr<std::optional<Accepted>> Connector::Step(base::Instant deadline, int wake_fd) {
  const base::NoCancellation no_cancellation;
  // An attempt that ran out of time between two calls says nothing about the server.
  const bool over = attempt_.has_value() && attempt_->deadline <= base::Now();
  if (over && attempt_->made) return Made(*std::move(attempt_->made));
  if (over) attempt_.reset();
  for (;;) {
    Awaited awaited;
    auto made = Proceed(deadline, awaited);
    if (!made.ok() || made->has_value() || deadline <= base::Now()) return made;
    if (awaited.transport == nullptr) continue;
    const Readiness ready =
        awaited.transport->Wait(awaited.interest, wake_fd, std::min(deadline, awaited.until));
    if (ready.woken) return made;
  }
}

absl::StatusOr<std::optional<Accepted>> Connector::Poll(Awaited* awaited) {
  const base::NoCancellation no_cancellation;
  return Proceed(base::Now(), *awaited);
}

absl::StatusOr<std::optional<Accepted>> Connector::Proceed(base::Instant limit,
                                                           Awaited& awaited) try {
  if (!attempt_.has_value() || Moved()) BeginAttempt();
  Attempt& attempt = *attempt_;
  for (;;) {
    const Outcome greeted = Advance(attempt, std::min(limit, attempt.deadline));
    absl::Status failed = greeted.status();
    if (greeted.ok() && !*greeted) {
      const base::Instant now = base::Now();
      if (attempt.deadline <= now) return Failed(TimedOut(attempt));
      Dialogue& dialogue = attempt.dialogue;
      awaited = {.transport = dialogue.transport.get(),
                 .interest = attempt.connected ? dialogue.read_wants | dialogue.write_wants
                                               : attempt.connect_wants,
                 .until = !attempt.two.empty() ? attempt.deadline
                          : attempt.connected  ? attempt.target_deadline
                                               : attempt.socket_deadline};
      if (dialogue.transport == nullptr) awaited.until = now + kLookUpPause;
      awaited.until = std::min(awaited.until, attempt.deadline);
      return std::nullopt;
    }
    if (!attempt.two.empty() && !greeted.ok()) return Failed(Restarted(attempt));
    if (!attempt.two.empty()) {
      // A name that led to one server may lead to two for a moment, during a failover.
      return Failed(run_id_.empty() ? absl::FailedPreconditionError(attempt.two)
                                    : absl::UnavailableError(attempt.two));
    }
    if (greeted.ok()) {
      Accepted made{.dialogue = std::move(attempt.dialogue),
                    .info = ServerInfo(),
                    .target = attempt.target()};
      failed = handshake_.Check(std::exchange(made.dialogue.replies, {}), &made.info);
      const std::optional<Accepted>& first = attempt.made;
      if (failed.ok() && !first && MayBeTwo(made)) {
        attempt.BeginSecond(std::move(made));
        continue;
      }
      if (failed.ok() && first && !made.info.run_id.empty() &&
          made.info.run_id != first->info.run_id) {
        attempt.AskFirst(TwoServers(*first, made));
        continue;
      }
      if (failed.ok()) return Made(first ? *std::move(attempt.made) : std::move(made));
    }
    const bool reached = attempt.connected && absl::IsUnavailable(failed);
    if (!reached || attempt.next_target == attempt.targets.size()) {
      return Failed(std::move(failed));
    }
    attempt.GoOn(std::move(failed));
  }
} catch (const std::bad_alloc&) {
  Abandon();
  return absl::UnavailableError("no memory");  // another attempt may succeed
}

absl::Status Connector::TimedOut(const Attempt& attempt) const {
  if (!attempt.two.empty()) return Restarted(attempt);
  if (attempt.targets.empty()) return attempt.refusal;
  return Unreachable(
      attempt, absl::StrCat(attempt.connected ? "no answer to the handshake" : "no connection",
                            " within ", absl::FormatDuration(url_.connect_timeout),
                            attempt.connected && url_.tls != nullptr
                                ? " (does it speak TLS at that port? If not, write redis://)"
                                : ""));
}

void Connector::Attempt::GoOn(absl::Status why) {
  refusal = std::move(why);
  dialogue = Dialogue();
  connected = false;
}

Connector::Outcome Connector::Advance(Attempt& attempt, base::Instant limit) {
  if (attempt.targets.empty()) {
    auto targets = endpoint_(limit);
    attempt.refusal = targets.status();
    if (absl::IsDeadlineExceeded(targets.status())) {
      attempt.refusal = absl::UnavailableError(targets.status().message());
      return false;
    }
    // A search by sentinels or the start of an embedded server goes on after `limit`.
    const bool looked_up = url_.kind == Url::Kind::kTcp;
    if (!targets.ok() && !looked_up && limit <= base::Now()) return false;
    if (!targets.ok()) return targets.status();
    attempt.targets = *std::move(targets);
  }
  if (!attempt.connected) {
    Outcome connected = ConnectToOne(attempt);
    if (!connected.ok() || !*connected) return connected;
  }
  return Greet(attempt);
}

absl::Status Connector::OpenNext(Attempt& attempt) {
  const size_t left = attempt.targets.size() - attempt.next_target;
  if (left == 0) {
    if (!attempt.refusal.ok()) return attempt.refusal;
    const bool denied = attempt.last_errno == EACCES || attempt.last_errno == EPERM;
    return Unreachable(
        attempt,
        absl::StrCat(attempt.last_error, denied ? "; is this user allowed to connect there?"
                                                : "; is it running, and is the address right?"));
  }
  // An address that never answers must not use up the time of those after it.
  const base::Instant now = base::Now();
  attempt.target_deadline = now + (attempt.deadline - now) / static_cast<int64_t>(left);
  ++attempt.next_target;
  return Open(attempt, kFirstTimeout);
}

absl::Status Connector::Open(Attempt& attempt, absl::Duration socket_timeout) {
  absl::StatusOr<std::unique_ptr<Transport>> opened = open_(attempt.target());
  if (!opened.ok()) return opened.status();
  attempt.dialogue.transport = *std::move(opened);
  attempt.socket_timeout = socket_timeout;
  attempt.socket_deadline = base::Now() + socket_timeout;
  // Leaves time for a next socket with a longer timeout.
  const base::Instant enough = attempt.socket_deadline + 2 * socket_timeout;
  if (attempt.target_deadline < enough) attempt.socket_deadline = attempt.target_deadline;
  return absl::OkStatus();
}

Connector::Outcome Connector::ConnectToOne(Attempt& attempt) {
  std::unique_ptr<Transport>& transport = attempt.dialogue.transport;
  for (;;) {
    if (transport == nullptr) {
      if (absl::Status opened = OpenNext(attempt); !opened.ok()) return opened;
    }
    const IoResult result = transport->Connect();
    if (result.kind == IoResult::Kind::kDone) {
      attempt.connected = true;
      attempt.dialogue.unwritten = handshake_.bytes();
      return true;
    }
    if (result.blocked()) {
      attempt.connect_wants = result.wants();
      const base::Instant now = base::Now();
      if (now < attempt.socket_deadline || attempt.deadline <= now) return false;
      if (attempt.socket_deadline < attempt.target_deadline) {
        absl::Status opened = Open(attempt, kTimeoutGrowth * attempt.socket_timeout);
        if (!opened.ok()) return opened;
        continue;
      }
      attempt.last_error = "no answer";
    } else {
      attempt.last_error = Describe(result);
    }
    attempt.last_errno = result.kind == IoResult::Kind::kError ? result.error : 0;
    if (attempt.targets.size() > 1 || url_.kind == Url::Kind::kSentinel) {
      attempt.last_error = absl::StrCat(attempt.target().address.text, ": ", attempt.last_error);
    }
    transport = nullptr;
  }
}

Connector::Outcome Connector::Greet(Attempt& attempt) {
  Dialogue& dialogue = attempt.dialogue;
  if (!attempt.two.empty()) return dialogue.GoOn(1, base::Now());
  const absl::StatusOr<bool> done = dialogue.GoOn(handshake_.reply_count(), base::Now());
  if (!done.ok()) return HungUp(attempt, done.status());
  if (!*done) {
    const bool last = attempt.next_target == attempt.targets.size();
    if (last || base::Now() < attempt.target_deadline) return false;
    return Unreachable(attempt, "no answer to the handshake");
  }
  if (dialogue.replies.size() > handshake_.reply_count()) {
    return Unreachable(attempt, "it sent a reply that nothing had asked for");
  }
  return true;
}

}  // namespace redlatch::redis
