#include "src/redis/connect/connector.h"

#include <errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {
namespace {

// The kernel repeats the first packet of a connection only after a second, by which time most calls
// are over. A new socket sends one of its own sooner; each is given longer than the last.
constexpr absl::Duration kFirstPatience = absl::Milliseconds(250);
constexpr int kPatienceGrows = 3;

}  // namespace

Connector::Connector(const Url& url, Handshake::Purpose purpose, TransportFactory open,
                     std::unique_ptr<Endpoint> endpoint, Whereabouts where)
    : url_(url),
      server_(url.DebugString()),
      handshake_(url, purpose),
      open_(std::move(open)),
      endpoint_(endpoint != nullptr ? std::move(endpoint) : MakeEndpoint(url)),
      where_(std::move(where)) {}

absl::Status Connector::Unreachable(const Attempt& attempt, const std::string& why) const {
  const std::string address =
      attempt.transport != nullptr && attempt.next_address > 0 && attempt.addresses.size() > 1
          ? attempt.addresses[attempt.next_address - 1].text + ": "
          : "";
  return absl::UnavailableError(absl::StrCat("cannot connect to ", server_, ": ", address, why));
}

absl::Status Connector::HungUp(const Attempt& attempt, const std::string& why) const {
  if (attempt.replies.empty() || !attempt.replies.back().is_error()) {
    return Unreachable(attempt, why);
  }
  const absl::Status last_words = ErrorStatus(attempt.replies.back().text, server_);
  return absl::UnavailableError(absl::StrCat(std::string(last_words.message()), "; ", why));
}

void Connector::BeginAttempt() {
  attempt_ = Attempt();
  attempt_->deadline = base::Now() + url_.connect_timeout;
  if (!where_ || !trust_where_) return;
  if (std::optional<SocketAddress> address = where_()) {
    attempt_->told_where = true;
    attempt_->addresses.push_back(*std::move(address));
  }
}

absl::StatusOr<std::optional<Connection>> Connector::Failed(absl::Status why) {
  trust_where_ = !attempt_->told_where;
  attempt_.reset();
  return why;
}

// Whether `where` names another address by now than the one of the attempt.
bool Connector::Moved() const {
  if (!attempt_.has_value() || !attempt_->told_where) return false;
  const std::optional<SocketAddress> address = where_();
  return address.has_value() && *address != attempt_->addresses.front();
}

absl::StatusOr<std::optional<Connection>> Connector::Step(base::Instant deadline, int wake_fd) {
  // What ended while nobody worked on it tells nothing of the server.
  const bool over = attempt_.has_value() && attempt_->deadline <= base::Now();
  if (!attempt_.has_value() || over || Moved()) BeginAttempt();
  Attempt& attempt = *attempt_;
  if (attempt.transport != nullptr) attempt.transport->Verify();
  const base::Instant limit = std::min(deadline, attempt.deadline);
  for (;;) {
    const Outcome outcome = Advance(attempt, limit, wake_fd);
    absl::Status failed = outcome.status();
    if (outcome.ok() && *outcome == Progress::kOutOfTime) {
      if (base::Now() < attempt.deadline) return std::nullopt;
      return Failed(Unreachable(attempt, Late(attempt)));
    }
    if (outcome.ok()) {
      Connection made{.transport = std::move(attempt.transport),
                      .parser = std::move(attempt.parser),
                      .info = ServerInfo(),
                      .address = attempt.addresses[attempt.next_address - 1]};
      failed = handshake_.Check(attempt.replies, &made.info);
      if (failed.ok()) {
        attempt_.reset();
        trust_where_ = true;
        return std::optional<Connection>(std::move(made));
      }
    }
    const bool reached = attempt.connected && absl::IsUnavailable(failed);
    if (!reached || attempt.next_address == attempt.addresses.size()) {
      return Failed(std::move(failed));
    }
    attempt.GoOn(std::move(failed));
  }
}

void Connector::Attempt::GoOn(absl::Status why) {
  refusal = std::move(why);
  transport = nullptr;
  connected = false;
  written = 0;
  parser = ReplyParser();
  replies.clear();
}

std::string Connector::Late(const Attempt& attempt) const {
  return absl::StrCat(attempt.connected ? "no answer to the handshake" : "no connection",
                      " within ", absl::FormatDuration(url_.connect_timeout));
}

Connector::Outcome Connector::FindAddresses(Attempt& attempt, base::Instant limit) {
  auto addresses = endpoint_->Addresses(limit);
  if (!addresses.ok()) {
    if (limit <= base::Now()) return Progress::kOutOfTime;
    return addresses.status();
  }
  attempt.addresses = *std::move(addresses);
  return Progress::kReady;
}

Connector::Outcome Connector::Advance(Attempt& attempt, base::Instant limit, int wake_fd) {
  if (attempt.addresses.empty()) {
    Outcome found = FindAddresses(attempt, limit);
    if (!found.ok() || *found != Progress::kReady) return found;
  }
  if (!attempt.connected) {
    Outcome connected = ConnectToOne(attempt, limit, wake_fd);
    if (!connected.ok() || *connected != Progress::kReady) return connected;
  }
  return Greet(attempt, limit, wake_fd);
}

absl::Status Connector::OpenNext(Attempt& attempt) {
  const size_t left = attempt.addresses.size() - attempt.next_address;
  if (left == 0) {
    if (!attempt.refusal.ok()) return attempt.refusal;
    const bool denied = attempt.last_errno == EACCES || attempt.last_errno == EPERM;
    return Unreachable(
        attempt,
        absl::StrCat(attempt.last_error, denied ? "; is this user allowed to connect there?"
                                                : "; is it running, and is the address right?"));
  }
  // An address that swallows everything must not use up the time of those behind it.
  const base::Instant now = base::Now();
  attempt.address_deadline = now + (attempt.deadline - now) / static_cast<int64_t>(left);
  ++attempt.next_address;
  return Open(attempt, kFirstPatience);
}

absl::Status Connector::Open(Attempt& attempt, absl::Duration patience) {
  absl::StatusOr<std::unique_ptr<Transport>> opened =
      open_(attempt.addresses[attempt.next_address - 1]);
  if (!opened.ok()) return opened.status();
  attempt.transport = *std::move(opened);
  attempt.patience = patience;
  attempt.patient_until = base::Now() + patience;
  // The next one is to have more.
  const base::Instant enough = attempt.patient_until + 2 * patience;
  if (attempt.address_deadline < enough) attempt.patient_until = attempt.address_deadline;
  return absl::OkStatus();
}

Connector::Outcome Connector::ConnectToOne(Attempt& attempt, base::Instant limit, int wake_fd) {
  for (;;) {
    if (attempt.transport == nullptr) {
      if (absl::Status opened = OpenNext(attempt); !opened.ok()) return opened;
    }
    const IoResult result = attempt.transport->Connect();
    if (result.kind == IoResult::Kind::kDone) {
      attempt.connected = true;
      return Progress::kReady;
    }
    if (result.kind == IoResult::Kind::kAgain) {
      const base::Instant until = std::min(limit, attempt.patient_until);
      const Readiness ready = attempt.transport->Wait(Transport::Interest::kWrite, wake_fd, until);
      if (ready.writable) {
        if (limit <= base::Now()) return Progress::kOutOfTime;
        continue;
      }
      if (ready.woken || limit <= base::Now()) return Progress::kOutOfTime;
      if (base::Now() < attempt.patient_until) continue;
      if (attempt.patient_until < attempt.address_deadline) {
        absl::Status opened = Open(attempt, kPatienceGrows * attempt.patience);
        if (!opened.ok()) return opened;
        continue;
      }
      attempt.last_error = "no answer";
    } else {
      attempt.last_error = Describe(result);
    }
    attempt.last_errno = result.kind == IoResult::Kind::kError ? result.error : 0;
    if (attempt.addresses.size() > 1) {
      attempt.last_error =
          absl::StrCat(attempt.addresses[attempt.next_address - 1].text, ": ", attempt.last_error);
    }
    attempt.transport = nullptr;
  }
}

Connector::Outcome Connector::Greet(Attempt& attempt, base::Instant limit, int wake_fd) {
  char buffer[4096];
  const bool last = attempt.next_address == attempt.addresses.size();
  const base::Instant until = last ? limit : std::min(limit, attempt.address_deadline);
  while (attempt.replies.size() < handshake_.reply_count()) {
    if (until <= base::Now()) {
      if (limit <= base::Now()) return Progress::kOutOfTime;
      return Unreachable(attempt, "no answer to the handshake");
    }
    const std::string_view rest = std::string_view(handshake_.bytes()).substr(attempt.written);
    if (!rest.empty()) {
      const IoResult put = attempt.transport->Write(rest);
      if (put.kind == IoResult::Kind::kDone) {
        attempt.written += put.bytes;
        continue;
      }
      // A server that hangs up before it was asked has said why, and that can be read.
      if (put.kind != IoResult::Kind::kAgain) attempt.written = handshake_.bytes().size();
    }
    const IoResult got = attempt.transport->Read(buffer, sizeof buffer);
    if (got.kind == IoResult::Kind::kAgain) {
      const auto interest =
          rest.empty() ? Transport::Interest::kRead : Transport::Interest::kReadAndWrite;
      if (attempt.transport->Wait(interest, wake_fd, until).woken) return Progress::kOutOfTime;
      continue;
    }
    if (got.kind != IoResult::Kind::kDone) return HungUp(attempt, Describe(got));
    attempt.parser.Feed({buffer, got.bytes});
    for (;;) {
      auto reply = attempt.parser.Next();
      if (!reply.ok()) return Unreachable(attempt, std::string(reply.status().message()));
      if (!reply->has_value()) break;
      attempt.replies.push_back(**std::move(reply));
    }
  }
  if (attempt.replies.size() > handshake_.reply_count()) {
    return Unreachable(attempt, "it sent a reply that nothing had asked for");
  }
  return Progress::kReady;
}

}  // namespace redlatch::redis
