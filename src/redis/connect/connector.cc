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

// If the server hangs up, the rest is dropped, since the server may have said why before.
void Dialogue::Write() {
  write_wants = Interest::kNone;
  while (!unwritten.empty()) {
    const IoResult put = transport->Write(unwritten);
    if (put.blocked()) {
      write_wants = put.wants();
      return;
    }
    unwritten.erase(0, put.kind == IoResult::Kind::kDone ? put.bytes : unwritten.size());
  }
}

absl::Status Dialogue::Read() {
  char buffer[size_t{16} << 10];
  const IoResult got = transport->Read(buffer, sizeof buffer);
  read_wants = got.wants();
  if (got.blocked()) return absl::OkStatus();
  if (got.kind == IoResult::Kind::kRefused) return absl::FailedPreconditionError(Describe(got));
  if (got.kind != IoResult::Kind::kDone) return absl::UnavailableError(Describe(got));
  const absl::Status parsed = parser.Take({buffer, got.bytes}, replies);
  return parsed.ok() ? parsed : absl::UnavailableError(parsed.message());
}

absl::StatusOr<bool> Dialogue::GoOn(size_t count, base::Instant deadline) {
  for (bool over = false;; over = deadline <= base::Now()) {
    Write();
    if (unwritten.empty() && replies.size() >= count) return true;
    if (over) return false;
    const Readiness ready = transport->Wait(wants(), -1, deadline);
    if (!ready.Meets(read_wants)) continue;
    if (absl::Status read = Read(); !read.ok()) return read;
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
                     Endpoint endpoint, std::optional<FirstScript> begin)
    : url_(url),
      server_(url.DebugString()),
      handshake_(url, purpose, std::move(begin)),
      open_(open ? std::move(open) : OpenTransport),
      endpoint_(endpoint ? std::move(endpoint) : MakeEndpoint(url)),
      compares_run_ids_(purpose == Handshake::Purpose::kCommands && !url.in_cluster &&
                        (url.kind == Url::Kind::kTcp || url.kind == Url::Kind::kSentinel)) {}

absl::StatusOr<std::optional<Accepted>> Connector::Step(base::Instant deadline) {
  const base::NoCancellation no_cancellation;
  // An attempt that ran out of time between two calls says nothing about the server.
  const bool over = attempt_.has_value() && attempt_->deadline <= base::Now();
  if (over && attempt_->made) return Made(*std::move(attempt_->made));
  if (over) attempt_.reset();
  for (;;) {
    auto made = Proceed(deadline);
    if (!made.ok() || made->has_value() || deadline <= base::Now()) return made;
    const Dialogue& dialogue = attempt_->dialogue;
    if (dialogue.transport == nullptr) continue;
    dialogue.transport->Wait(dialogue.wants(), -1, std::min(deadline, attempt_->AwaitedUntil()));
  }
}

absl::StatusOr<std::optional<Accepted>> Connector::Poll(Transport::Polled* awaited) {
  const base::NoCancellation no_cancellation;
  auto made = Proceed(base::Now());
  if (!made.ok() || made->has_value()) return made;
  const Dialogue& dialogue = attempt_->dialogue;
  if (dialogue.transport != nullptr) *awaited = dialogue.transport->BeginPoll(dialogue.wants());
  awaited->until = std::min(awaited->until, attempt_->AwaitedUntil());
  return made;
}

absl::StatusOr<std::optional<Accepted>> Connector::Proceed(base::Instant limit) try {
  if (!attempt_.has_value()) {
    attempt_ = Attempt();
    attempt_->began = base::Now();
    attempt_->deadline = attempt_->began + url_.connect_timeout;
  }
  Attempt& attempt = *attempt_;
  for (;;) {
    const Outcome greeted = Advance(attempt, std::min(limit, attempt.deadline));
    const bool pending = greeted.ok() && !*greeted;
    if (pending && base::Now() < attempt.deadline) return std::nullopt;
    if (!attempt.two.ok()) {
      return Failed(greeted.ok() && !pending ? attempt.two
                                             : Unreachable(attempt, "it restarted meanwhile"));
    }
    if (pending) return Failed(TimedOut(attempt));
    absl::Status failed = greeted.status();
    if (failed.ok()) {
      Accepted made{.dialogue = std::move(attempt.dialogue),
                    .info = ServerInfo(),
                    .target = attempt.target()};
      failed = handshake_.Check(std::exchange(made.dialogue.replies, {}), &made.info);
      std::optional<Accepted>& first = attempt.made;
      const std::string& known = first ? first->info.run_id : run_id_;
      if (failed.ok() && compares_run_ids_ && !made.info.run_id.empty() &&
          made.info.run_id != known) {
        if (first) {
          attempt.AskFirst(TwoServers(*first, made));
        } else {
          attempt.BeginSecond(std::move(made));
        }
        continue;
      }
      if (failed.ok()) return Made(first ? *std::move(first) : std::move(made));
    }
    const bool reached = attempt.connected && absl::IsUnavailable(failed);
    if (!reached || attempt.next_target == attempt.targets.size()) {
      return Failed(std::move(failed));
    }
    attempt.refusal = std::move(failed);
    attempt.dialogue = Dialogue();
    attempt.connected = false;
  }
} catch (const std::bad_alloc&) {
  Abandon();
  return absl::UnavailableError("no memory");  // another attempt may succeed
}

absl::StatusOr<std::optional<Accepted>> Connector::Failed(absl::Status why) {
  if (attempt_->made) return Made(*std::move(attempt_->made));
  attempt_.reset();
  return why;
}

absl::StatusOr<std::optional<Accepted>> Connector::Made(Accepted made) {
  attempt_.reset();
  run_id_ = made.info.run_id;
  return std::optional<Accepted>(std::move(made));
}

base::Instant Connector::Attempt::AwaitedUntil() const {
  const base::Instant next = dialogue.transport == nullptr ? base::Now() + kLookUpPause
                             : connected                   ? target_deadline
                                                           : socket_deadline;
  return std::min(next, deadline);
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

// If the first server has restarted meanwhile, it no longer answers over the first connection.
void Connector::Attempt::AskFirst(absl::Status if_there) {
  two = std::move(if_there);
  target_deadline = deadline;
  dialogue = std::move(made->dialogue);
  dialogue.unwritten = Command{"PING"}.bytes();
  made.reset();
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

Connector::Outcome Connector::ConnectToOne(Attempt& attempt) {
  Dialogue& dialogue = attempt.dialogue;
  for (;;) {
    if (dialogue.transport == nullptr) {
      const size_t left = attempt.targets.size() - attempt.next_target;
      if (left == 0) return attempt.refusal.ok() ? attempt.unreachable : attempt.refusal;
      // An address that never answers must not use up the time of those after it.
      const base::Instant now = base::Now();
      attempt.target_deadline = now + (attempt.deadline - now) / static_cast<int64_t>(left);
      ++attempt.next_target;
      if (absl::Status opened = Open(attempt, kFirstTimeout); !opened.ok()) return opened;
    }
    const IoResult result = dialogue.transport->Connect();
    if (result.kind == IoResult::Kind::kDone) {
      attempt.connected = true;
      dialogue.read_wants = Interest::kRead;
      dialogue.unwritten = handshake_.bytes();
      return true;
    }
    if (result.blocked()) {
      dialogue.read_wants = result.wants();
      const base::Instant now = base::Now();
      if (now < attempt.socket_deadline || attempt.deadline <= now) return false;
      if (attempt.socket_deadline < attempt.target_deadline) {
        absl::Status opened = Open(attempt, kTimeoutGrowth * attempt.socket_timeout);
        if (!opened.ok()) return opened;
        continue;
      }
    }
    const bool denied = result.error == EACCES || result.error == EPERM;
    attempt.unreachable =
        Unreachable(attempt, absl::StrCat(result.blocked() ? "no answer" : Describe(result),
                                          denied ? "; is this user allowed to connect there?"
                                                 : "; is it running, and is the address right?"));
    dialogue.transport = nullptr;
  }
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

Connector::Outcome Connector::Greet(Attempt& attempt) {
  Dialogue& dialogue = attempt.dialogue;
  if (!attempt.two.ok()) return dialogue.GoOn(1, base::Now());
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

// The user must fix this, unless the name led to one server before: it may lead to two for a
// moment, during a failover.
absl::Status Connector::TwoServers(const Accepted& first, const Accepted& second) const {
  const std::string& one = first.target.address.text;
  const std::string& other = second.target.address.text;
  const std::string where =
      one == other ? " and another there as well" : " and another at " + other;
  return {run_id_.empty() ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kUnavailable,
          absl::StrCat(server_, " leads to two primaries, one at ", one, where,
                       ", and each would have locks of its own (name one server, without a load "
                       "balancer before it)")};
}

absl::Status Connector::TimedOut(const Attempt& attempt) const {
  if (attempt.targets.empty()) return attempt.refusal;
  return Unreachable(
      attempt, absl::StrCat(attempt.connected ? "no answer to the handshake" : "no connection",
                            " within ", absl::FormatDuration(url_.connect_timeout),
                            attempt.connected && url_.tls != nullptr
                                ? " (does it speak TLS at that port? If not, write redis://)"
                                : ""));
}

absl::Status Connector::Unreachable(const Attempt& attempt, const std::string& why) const {
  const bool one_of_several = attempt.targets.size() > 1 || url_.kind == Url::Kind::kSentinel;
  const std::string address = attempt.dialogue.transport != nullptr && one_of_several
                                  ? attempt.target().address.text + ": "
                                  : "";
  return absl::UnavailableError(absl::StrCat("cannot connect to ", server_, ": ", address, why));
}

absl::Status Connector::HungUp(const Attempt& attempt, const absl::Status& broken) const {
  const std::string why(broken.message());
  const std::vector<Reply>& said = attempt.dialogue.replies;
  if (!said.empty() && said.back().is_error()) {
    const absl::Status last_words = ErrorStatus(WithoutArguments(said.back().text), server_);
    return absl::UnavailableError(absl::StrCat(std::string(last_words.message()), "; ", why));
  }
  // With any other error, the server has said what is wrong.
  const bool silent = said.empty() && absl::IsUnavailable(broken);
  return {broken.code(), Unreachable(attempt, why + (silent ? Hint() : "")).message()};
}

// Says what may be wrong if the server hangs up before it has said anything.
std::string Connector::Hint() const {
  if (url_.kind != Url::Kind::kTcp && url_.kind != Url::Kind::kSentinel) return "";
  if (url_.tls == nullptr) {
    const bool by_scheme = url_.kind == Url::Kind::kTcp && !url_.in_cluster;
    return absl::StrCat(" (is it a Redis server? If it speaks TLS at that port, ",
                        by_scheme ? "write rediss://)" : "add tls=on)");
  }
  return url_.tls->options().cert.empty() ? " (does it want to see a certificate of this client? "
                                            "Name the files: cert=/path&key=/path)"
                                          : "";
}

}  // namespace redlatch::redis
