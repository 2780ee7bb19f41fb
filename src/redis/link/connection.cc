#include "src/redis/link/connection.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {

Connection::Connection(const Url& url, ConnectionOptions options)
    : options_(std::move(options)),
      server_(url.DebugString()),
      reconnect_(options_.first_backoff, options_.longest_backoff),
      spin_(options_.spin),
      listener_(options_.listener != nullptr ? options_.listener : std::make_shared<Listener>()),
      missed_(options_.first_is_again),
      connector_(url, url.only_questions ? Handshake::Purpose::kQuestions : options_.purpose,
                 options_.open, options_.endpoint, options_.begin),
      buffer_(std::make_unique_for_overwrite<char[]>(kReadSize)) {}

Connection::~Connection() {
  Stop();
  Finished finished;
  {
    const base::MutexLock lock(mu_);
    FailSent(base::WithMemory(
                 [this] { return absl::StrCat("the connection to ", server_, " was closed"); }),
             finished);
  }
  TellFinished({}, finished);
}

void Connection::operator delete(Connection* connection, std::destroying_delete_t) {
  if (connection->fork_guard_.InForkedChild()) {
    connection->transport_.reset();
    connection->connector_.CloseInForkedChild();
    connection->listener_->CloseInForkedChild();
    connection->gate_.Close();
    connection->watch_wake_.Close();
    return connection->wake_.Close();
  }
  connection->~Connection();
  ::operator delete(connection);
}

absl::Status Connection::InForkedChild() const {
  return absl::FailedPreconditionError(
      absl::StrCat("the connection to ", server_,
                   " belongs to the process that forked this one; connect again after fork()"));
}

absl::StatusOr<Reply> Connection::Call(const Command& command, base::Instant deadline) {
  absl::StatusOr<Reply> result;
  CallBatch(absl::MakeConstSpan(&command, 1), deadline, absl::MakeSpan(&result, 1));
  return result;
}

absl::Status Connection::Connect(base::Instant deadline) {
  const Command ping{"PING"};
  absl::StatusOr<Reply> result;
  CallBatch(absl::MakeConstSpan(&ping, 1), deadline, absl::MakeSpan(&result, 1),
            /*fail_fast=*/true);
  if (result.ok() && result->is_error()) return ErrorStatus(result->text, server_);
  return result.status();
}

void Connection::CallBatch(absl::Span<const Command> commands, base::Instant deadline,
                           absl::Span<absl::StatusOr<Reply>> results, bool fail_fast) noexcept {
  if (commands.empty()) return;
  const auto refuse = [&](const absl::Status& why) {
    std::fill(results.begin(), results.end(), why);
  };
  InFlight mine;
  mine.results = results;
  mine.fail_fast = fail_fast;
  mine.begun = base::Now();
  if (fork_guard_.InForkedChild()) return refuse(InForkedChild());
  if (deadline <= mine.begun) {
    return refuse(absl::UnavailableError(
        absl::StrCat("there was no time left to ask ", server_, " (the command was not sent)")));
  }
  bool leading = false;
  {
    const base::MutexLock lock(mu_);
    // Without a leader, waiting bytes are not sent. So the next caller is accepted, and sends them.
    if (leader_ != nullptr && pipeline_.unsent_bytes() > options_.backlog_bytes) {
      return refuse(absl::UnavailableError(
          absl::StrCat(server_, " does not keep up: ", options_.backlog_bytes,
                       " bytes of commands are waiting to be sent")));
    }
    if (!pipeline_.Append(commands, mine)) return refuse(base::NoMemory());
    leading = TakeLead(mine);
  }
  if (leading || Follow(mine, deadline)) Lead(mine, deadline);
}

bool Connection::TakeLead(InFlight& mine) {
  if (leader_ == nullptr) {
    leader_ = &mine;
    ShutGate();
    return true;
  }
  WriteSoon();
  return false;
}

bool Connection::GoesOn(const InFlight& mine) const {
  if (!mine.results.empty()) return mine.open > 0 && !(mine.leaves_once_connected && connected_);
  return connected_ && pipeline_.size() > 0 && pipeline_.FirstWaiting() == nullptr;
}

bool Connection::Follow(InFlight& mine, base::Instant deadline) {
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
    // Another thread decided under the lock, and will set the parker any moment.
    deadline = base::Instant::Infinite();
  }
}

void Connection::Lead(InFlight& mine, base::Instant deadline) {
  mine.parker.Arm();
  Finished finished;
  InFlight* next = nullptr;
  {
    const base::MutexLock lock(mu_);
    spin_.Begun();
    // An idle connection may have ended unnoticed. If that is seen before anything is sent, no call
    // fails.
    bool look_first = connected_ && mine.begun - progress_ > kIdle;
    do {
      if (std::exchange(look_first, false)) {
        Receive(mine, kAtOnce, finished);
      } else if (connected_) {
        Write();
        if (!leaving_.empty()) LeaveOnceAnswered();
        const base::Instant silent_at = progress_ + options_.stall_timeout;
        const base::Instant until = leaving_.empty() ? deadline : std::min(deadline, silent_at);
        if (doomed_.empty()) Receive(mine, until, finished);
      } else {
        Reconnect(mine, deadline, finished);
      }
      if (connected_ && !leaving_.empty()) LeaveOnceAnswered();
      if (deadline == kAtOnce) KeepAlive(base::Now());
      if (!doomed_.empty()) Break(finished);
    } while (GoesOn(mine) && base::Now() < deadline);
    if (mine.open > 0 && mine.leaves_once_connected && connected_) {
      pipeline_.Abandon(mine, absl::UnavailableError(""), absl::UnavailableError(""));
    } else if (mine.open > 0) {
      GiveUp(mine);
    } else if (mine.results.empty() && deadline != kAtOnce && deadline <= base::Now()) {
      GiveUpIfStalled();
    } else if (mine.results.size() == 1 && mine.results[0].ok()) {
      spin_.Completed(mine.begun, base::Now());
    }
    if (!doomed_.empty()) Break(finished);
    next = pipeline_.FirstWaiting();
    if (next == nullptr) {
      Write();  // commands that no thread waits for
      if (!doomed_.empty()) Break(finished);
      next = pipeline_.FirstWaiting();
    }
    leader_ = next;
    next == nullptr ? OpenGate() : ShutGate();  // a watcher that leads leaves it open
    serving_ = false;
  }
  // The next leader continues first.
  if (next != nullptr) next->parker.Set(kLead);
  TellFinished(mine, finished);
}

void Connection::GiveUp(InFlight& mine) {
  ++stats_.late;
  const absl::Status why = connected_ ? absl::OkStatus() : last_failure_;
  // While the connection is made again, it is not known whether the server still refuses it.
  const bool stands = base::Now() < reconnect_.next_attempt();
  const absl::Status unsent = base::WithMemory([&] {
    return why.ok()
               ? absl::UnavailableError(
                     absl::StrCat("the command could not be sent to ", server_, " in time"))
               : MarkNotSent(absl::Status(
                     stands ? why.code() : absl::StatusCode::kUnavailable,
                     absl::StrCat(std::string(why.message()),
                                  " (the command was not sent; it was tried until the deadline)")));
  });
  const absl::Status sent =
      base::WithMemory([this] { return WhenSent(server_ + " did not answer in time"); });
  if (pipeline_.Abandon(mine, sent, unsent)) GiveUpIfStalled();
}

void Connection::TellFinished(const InFlight& mine, Finished& finished) {
  for (InFlight* in_flight : finished) {
    if (in_flight == &mine) continue;
    if (in_flight->waits()) {
      in_flight->parker.Set(kDone);
    } else {
      std::exchange(in_flight->done, nullptr)();  // it may delete `in_flight`
      --pending_done_;
    }
  }
  finished.clear();
}

// The next leader gives the connection up.
void Connection::Replace(std::string_view why) {
  const base::MutexLock lock(mu_);
  if (!leaving_.empty()) return;
  leaving_ = std::string(why);
  WakeReader();
}

std::optional<Peer> Connection::peer() const {
  const base::MutexLock lock(mu_);
  return connected_ && leaving_.empty() ? peer_ : std::nullopt;
}

Connection::Stats Connection::stats() const {
  const base::MutexLock lock(mu_);
  return stats_;
}

ServerInfo Connection::server_info() const {
  const base::MutexLock lock(mu_);
  return info_;
}

// ---- Commands without a waiting caller.

namespace {

constexpr size_t kMostUnreadReplies = 1024;  // of posted commands
constexpr absl::Duration kYields = absl::Microseconds(100);

}  // namespace

void Connection::Finish(InFlight& mine, base::Instant deadline) noexcept {
  bool open = false;
  bool leading = false;
  mine.begun = base::Now();
  {
    const base::MutexLock lock(mu_);
    mine.away = false;
    open = mine.open > 0;
    leading = open && leader_ == nullptr && TakeLead(mine);
  }
  if (!open) {
    // The thread that has read the reply sets the parker, and no longer uses `mine` then.
    mine.parker.ParkUntil(base::Instant::Infinite());
  } else if (leading || Follow(mine, deadline)) {
    Lead(mine, deadline);
  }
}

absl::Status Connection::NotSent(const char* why) const noexcept try {
  return absl::UnavailableError(absl::StrCat("not sent to ", server_, ": ", why));
} catch (const std::bad_alloc&) {
  return base::NoMemory();
}

absl::Status Connection::Post(absl::Span<const Command> commands, InFlight& in_flight) noexcept {
  if (fork_guard_.InForkedChild()) return InForkedChild();
  InFlight drain;  // reads what is there, and waits for nothing
  drain.begun = base::Now();
  absl::Status status;
  {
    const base::MutexLock lock(mu_);
    // A connection that is being left takes no more commands.
    if (!connected_ || !leaving_.empty()) {
      return NotSent("not connected");
    }
    if (pipeline_.unsent_bytes() > options_.backlog_bytes) {
      status = NotSent("it does not keep up with the commands");
    } else if (!pipeline_.Append(commands, in_flight)) {
      return base::NoMemory();
    } else {
      in_flight.away = in_flight.waits();
      if (!in_flight.away) ++pending_done_;
      has_unsent_.store(true, std::memory_order_release);
    }
    if (leader_ == nullptr && !in_flight.unhurried) {
      write_wants_ = Interest::kNone;  // there may be room by now
      Write();
    } else if (leader_sleeps_) {
      Write();
    } else if (!in_flight.unhurried && status.ok() && !in_flight.away) {
      WriteAll();
    }
    // A broken connection is handled now: the next call may not come soon.
    const bool to_be_read = pipeline_.size() >= kMostUnreadReplies || !doomed_.empty();
    if (leader_ != nullptr || !to_be_read || !TakeLead(drain)) return status;
  }
  Lead(drain, kAtOnce);
  return status;
}

bool Connection::Drain(base::Instant until) noexcept {
  InFlight drain;
  drain.begun = base::Now();
  bool leading = false;
  {
    const base::MutexLock lock(mu_);
    leading = leader_ == nullptr && connected_ && pipeline_.size() > 0 && TakeLead(drain);
    if (leading) write_wants_ = Interest::kNone;  // there may be room by now
  }
  if (leading) Lead(drain, until);
  return pending_done_ == 0;
}

// ---- What the leader does on the connection.

void Connection::Reconnect(InFlight& mine, base::Instant deadline, Finished& finished) {
  const base::Instant next_attempt = reconnect_.next_attempt();
  connecting_ = {.until = next_attempt};
  // A server may now accept what it refused before, so it is asked again.
  const bool unreachable = absl::IsUnavailable(last_failure_);
  if (options_.fail_fast && base::Now() < next_attempt && unreachable) {
    const absl::Status why = MarkNotSent(last_failure_);
    return pipeline_.FailUnsent([](const InFlight*) { return true; }, why, finished);
  }
  const bool waits = deadline != kAtOnce;
  mu_.Unlock();
  TellFinished(mine, finished);
  if (base::Now() < next_attempt) {
    if (waits) mine.parker.ParkUntil(std::min(deadline, next_attempt));  // the leader is not woken
    mu_.Lock();
    return;
  }
  auto step = MakeStep(waits, deadline);
  mu_.Lock();
  if (!step.ok()) {
    leaving_.clear();  // the next attempt finds the address again
    last_failure_ = MarkNotSent(step.status());
    reconnect_.Failed();
    connecting_ = {.until = reconnect_.next_attempt()};
    NotConnected();
    const bool lasting = !absl::IsUnavailable(last_failure_) || options_.fail_fast;
    pipeline_.FailUnsent(
        [&](const InFlight* each) {
          return lasting || each == nullptr || each->fail_fast || !each->waits();
        },
        last_failure_, finished);
    return;
  }
  if (step->has_value()) NowConnected(**std::move(step));
}

void Connection::NowConnected(Accepted made) {
  transport_ = std::move(made.dialogue.transport);
  full_duplex_ = transport_->full_duplex();
  read_wants_ = made.dialogue.read_wants;
  parser_ = std::move(made.dialogue.parser);
  info_ = std::move(made.info);
  conditional_delete_ = info_.conditional_delete;
  connected_ = true;
  now_connected_.store(true, std::memory_order_release);
  ++made_;
  progress_ = base::Now();
  peer_ = Peer{.target = std::move(made.target), .since = progress_};
  reconnect_.Made();
  for (auto each = options_.first.rbegin(); each != options_.first.rend(); ++each) {
    pipeline_.Prepend(*each);
  }
  std::vector<const std::string*> channels;
  base::Reserve(channels, channels_.size());
  for (auto& [channel, its] : channels_) {
    if (!its.promised) continue;  // a caller that waits for it has a command of its own
    channels.push_back(&channel);
    its.asked = true;
  }
  pipeline_.PrependSubscribes(channels, options_.sharded);
  if (first_waiter_ != nullptr) {
    LetWaiterWatch();
    first_waiter_->parker->Interrupt();
  }
  const bool again = std::exchange(missed_, false) || stats_.connects > 0;
  ++stats_.connects;
  // It may have left the watching to a waiter that is gone by now.
  if (listening_ && watcher_ != Watcher::kWaiter) BringListenerBack();
  if (again && options_.on_reconnected) base::WithMemory([this] { options_.on_reconnected(); });
}

// Takes a step to a connection; without `waits`, it is not blocked.
absl::StatusOr<std::optional<Accepted>> Connection::MakeStep(bool waits, base::Instant deadline) {
  if (!wake_.Open()) {
    return absl::UnavailableError(
        absl::StrCat("cannot connect to ", server_, ": ", std::strerror(errno)));
  }
  if (waits) return connector_.Step(deadline);
  Transport::Polled polled;
  auto step = connector_.Poll(&polled);
  Watched watched{.fd = polled.fd, .events = polled.events, .until = polled.until};
  if (polled.already.Meets(Interest::kReadAndWrite)) watched.until = base::Instant();
  const base::MutexLock lock(mu_);
  connecting_ = watched;
  return step;
}

void Connection::Receive(const InFlight& mine, base::Instant deadline, Finished& finished) {
  if (!full_duplex_) {
    mu_.Unlock();
    TellFinished(mine, finished);  // those that are told may write
    mu_.Lock();
    HoldWriters();
  }
  // Spinning could take in the bytes that a blocked write waits for.
  const bool may_spin = write_wants_ != Interest::kRead;
  mu_.Unlock();
  TellFinished(mine, finished);
  const IoResult got = Read(deadline, may_spin);
  const bool came = got.kind == IoResult::Kind::kDone;
  absl::Status parsed;
  if (came) parsed = parser_->Take({buffer_.get(), got.bytes}, arrived_);
  const bool ended = !came && !got.blocked();
  std::string broken =
      base::WithMemory([&] { return ended ? Describe(got) : std::string(parsed.message()); });
  mu_.Lock();
  writers_held_ = false;
  if (write_wants_ == Interest::kRead)
    write_wants_ = Interest::kNone;  // Read() may have taken it in
  if (came) progress_ = base::Now();
  reconnect_.Received(arrived_.size());
  size_t waiting = 0;
  for (Reply& reply : arrived_) {
    if (reply.is_error() && leaving_.empty() && options_.after_error) {
      const absl::Duration connected_for = base::Now() - peer_->since;
      leaving_ = base::WithMemory([&] { return options_.after_error(reply.text, connected_for); });
    }
    if (reply.is_error()) {
      const std::string* const channel = pipeline_.NextAbout(Pipeline::About::kSubscribe);
      if (channel != nullptr) HandleRefusal(*channel, reply.text);
    }
    // Callers without a thread do not count, and a batch counts once.
    const size_t before = finished.size();
    const bool expected = reply.type == Reply::Type::kPush
                              ? HandlePush(reply, mine, finished)
                              : pipeline_.Deliver(std::move(reply), finished);
    if (!expected) broken = "it sent a reply that nothing had asked for";
    if (before < finished.size() && finished.back()->waits()) ++waiting;
  }
  arrived_.clear();
  if (waiting > 0) spin_.Received(waiting);
  if (!broken.empty()) doomed_ = std::move(broken);
}

IoResult Connection::Read(base::Instant deadline, bool may_spin) {
  if (deadline == kAtOnce) return ReadOnce();
  const absl::Duration spin = spin_.Length();
  if (may_spin && spin > absl::ZeroDuration()) {
    const base::Instant begun = base::Now();
    const base::Instant until = std::min(deadline, begun + spin);
    for (;;) {
      const IoResult got = ReadOnce();
      if (!got.blocked()) return got;
      if (got.kind == IoResult::Kind::kWantWrite) break;
      if (until <= base::Now()) {
        spin_.InVain(until - begun);
        break;
      }
      // A follower with more to send may want this processor. A lone thread does not yield: it may
      // come back a time slice late.
      if (spin_.many_callers()) sched_yield();
      if (has_unsent_.load(std::memory_order_acquire)) break;  // it is sent below, if possible
    }
  }
  Interest interest = read_wants_;
  {
    const base::MutexLock lock(mu_);
    writers_held_ = false;
    if (MayWrite() || !doomed_.empty())
      return IoResult();  // the leader does not know of either yet
    interest = interest | write_wants_;
    if (!leaving_.empty()) deadline = std::min(deadline, progress_ + options_.stall_timeout);
    leader_sleeps_ = true;
  }
  const Readiness ready = transport_->Wait(interest, wake_.fd(), deadline);
  {
    const base::MutexLock lock(mu_);
    leader_sleeps_ = false;
    if (ready.Meets(write_wants_)) write_wants_ = Interest::kNone;
    if (!full_duplex_) HoldWriters();
  }
  if (ready.woken) wake_.Drain();
  return ready.Meets(read_wants_) ? ReadOnce() : IoResult();
}

IoResult Connection::ReadOnce() {
  const IoResult got = transport_->Read(buffer_.get(), kReadSize);
  read_wants_ = got.wants();
  return got;
}

// Keeps other threads from writing until the leader releases them. A thread in Write() leaves the
// rest to the leader.
void Connection::HoldWriters() {
  writers_held_ = true;
  while (writing_) {
    writer_left_.Arm();
    mu_.Unlock();
    writer_left_.ParkUntil(base::Instant::Infinite());
    mu_.Lock();
    has_unsent_.store(true, std::memory_order_relaxed);
  }
}

absl::Status Connection::WhenSent(const std::string& why) {
  return MarkMayHaveExecuted(
      absl::UnavailableError(why + " (the command was sent and may have been executed)"));
}

void Connection::FailSent(const std::string& why, Finished& finished) {
  const std::string_view unwritten = std::string_view(in_flight_).substr(in_flight_done_);
  const absl::Status unsent = base::WithMemory(
      [&] { return MarkNotSent(absl::UnavailableError(why + " (the command was not sent)")); });
  const absl::Status sent = base::WithMemory([&] { return WhenSent(why); });
  pipeline_.ConnectionLost(unwritten, sent, unsent, finished);
}

void Connection::GiveUpIfStalled() {
  if (!connected_ || !pipeline_.awaits_reply()) return;
  if (base::Now() - progress_ < options_.stall_timeout) return;
  doomed_ = base::WithMemory(
      [this] { return "it has not answered for " + absl::FormatDuration(options_.stall_timeout); });
  WakeReader();
}

void Connection::Break(Finished& finished) {
  connected_ = false;
  if (watcher_ == Watcher::kWaiter) {
    first_waiter_->watches = false;
    watcher_ = Watcher::kNone;
  }
  now_connected_.store(false, std::memory_order_release);
  HoldWriters();
  gate_.Shut();
  transport_->DiscardUnsent();
  transport_.reset();
  peer_.reset();
  leaving_.clear();
  writers_held_ = false;
  write_wants_ = Interest::kNone;
  const std::string doomed = std::exchange(doomed_, {});
  const std::string why = base::WithMemory(
      [&] { return absl::StrCat("lost the connection to ", server_, ": ", doomed); });
  last_failure_ = base::WithMemory([&] { return absl::UnavailableError(why); });
  FailSent(why, finished);
  in_flight_.clear();
  in_flight_done_ = 0;
  reconnect_.Lost();
  ++stats_.breaks;
  for (auto& [channel, its] : channels_) its.live = its.asked = false;
  connecting_ = {.until = base::Instant()};
  NotConnected();
}

void Connection::NotConnected() {
  if (channels_.empty()) return;
  missed_ = true;
  if (options_.on_down) options_.on_down();
}

bool Connection::MayWrite() const {
  return connected_ && !writing_ && !writers_held_ && write_wants_ == Interest::kNone &&
         doomed_.empty() &&
         (in_flight_done_ < in_flight_.size() ||
          (leaving_.empty() && pipeline_.unsent_bytes() > 0));
}

void Connection::LeaveOnceAnswered() {
  if (!doomed_.empty()) return;
  const bool written = !writing_ && in_flight_done_ == in_flight_.size();
  const bool answered = written && !pipeline_.awaits_reply();
  const bool silent = base::Now() - progress_ >= options_.stall_timeout;
  if (!answered && !silent) return;
  base::Reserve(doomed_, leaving_.size());
  doomed_ = leaving_;
}

void Connection::Write() {
  while (MayWrite()) {
    if (in_flight_done_ == in_flight_.size()) {
      in_flight_.clear();
      in_flight_done_ = 0;
      if (!pipeline_.awaits_reply()) progress_ = base::Now();
      pipeline_.TakeUnsent(in_flight_);
      has_unsent_.store(false, std::memory_order_relaxed);
    }
    const std::string_view rest = std::string_view(in_flight_).substr(in_flight_done_);
    writing_ = true;
    mu_.Unlock();
    const IoResult put = transport_->Write(rest);
    mu_.Lock();
    writing_ = false;
    if (put.kind == IoResult::Kind::kDone) {
      in_flight_done_ += put.bytes;
      written_ += put.bytes;
    }
    if (writers_held_) writer_left_.Set(kDone);
    if (!connected_) return;
    if (put.kind == IoResult::Kind::kDone) continue;
    // The leader writes the rest, when the transport is ready for it.
    if (put.blocked()) {
      write_wants_ = put.wants();
    } else {
      doomed_ = base::WithMemory([&] { return Describe(put); });
    }
    WakeReader();
  }
}

// The process may end as soon as the caller returns, and with it the leader.
void Connection::WriteAll() {
  const uint64_t made = made_;
  const uint64_t end = written_ + (in_flight_.size() - in_flight_done_) + pipeline_.unsent_bytes();
  const base::Instant begun = base::Now();
  Write();
  // Less than that is written if a caller withdraws its commands.
  while (written_ < end && (in_flight_done_ < in_flight_.size() || pipeline_.unsent_bytes() > 0) &&
         made == made_ && connected_ && doomed_.empty() && leaving_.empty() &&
         write_wants_ == Interest::kNone) {
    mu_.Unlock();
    const base::Instant now = base::Now();
    // A thread of lower priority may have to run first.
    if (now < begun + kYields) {
      sched_yield();
    } else {
      base::Parker().ParkUntil(now + kYields);
    }
    mu_.Lock();
    Write();
  }
}

void Connection::WriteSoon() {
  has_unsent_.store(true, std::memory_order_release);
  if (leader_ == nullptr || leader_sleeps_) Write();
}

void Connection::WakeReader() {
  if (leader_sleeps_) wake_.Signal();
  if (leader_ != nullptr) return;
  if (watcher_ == Watcher::kWaiter) return first_waiter_->parker->Interrupt();
  if (!listening_) return;
  watcher_ == Watcher::kListener ? listener_->Wake() : BringListenerBack();
}

// ---- Messages.

absl::Status Connection::StartListening() {
  if (listening_) return absl::OkStatus();
  if (absl::Status added = listener_->Add(*this); !added.ok()) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen at ", server_, ": ", std::string(added.message())));
  }
  listening_ = must_return_ = true;
  return absl::OkStatus();
}

absl::Status Connection::Subscribe(std::string_view channel, base::Instant deadline) {
  return Subscribe(channel, deadline, /*ahead=*/false);
}

absl::Status Connection::Subscribe(std::string_view channel, base::Instant deadline, bool ahead) {
  if (fork_guard_.InForkedChild()) return InForkedChild();
  absl::StatusOr<Reply> result;
  InFlight mine;
  mine.results = absl::MakeSpan(&result, 1);
  mine.begun = base::Now();
  mine.leaves_once_connected = ahead;
  const bool waits = mine.begun < deadline;
  bool leading = false;
  {
    const base::MutexLock lock(mu_);
    if (absl::Status begun = StartListening(); !begun.ok()) return begun;
    Channel& its = channels_.try_emplace(std::string(channel)).first->second;
    if (its.live) return absl::OkStatus();
    its.promised |= !waits;
    if (waits || (connected_ && !its.asked)) {
      if (!pipeline_.AppendAbout(Pipeline::About::kSubscribe, channel, options_.sharded,
                                 waits ? &mine : nullptr)) {
        return base::NoMemory();
      }
      its.asked = connected_;
    }
    if (waits) {
      leading = TakeLead(mine);
    } else {
      WriteSoon();
      if (!connected_) WakeReader();
    }
  }
  if (waits && (leading || Follow(mine, deadline))) Lead(mine, deadline);
  const base::MutexLock lock(mu_);
  const auto known = channels_.find(channel);
  const bool refused =
      waits && (result.ok() ? result->is_error() : !absl::IsUnavailable(result.status()));
  if (refused) {
    if (known != channels_.end() && !known->second.promised) channels_.erase(known);
    return result.ok() ? RefusalOf(result->text) : result.status();
  }
  if (known != channels_.end()) known->second.promised = true;
  const bool sent = ahead && connected_ && known != channels_.end();
  if (waits && (result.ok() || sent)) return absl::OkStatus();
  std::string why = connected_ ? server_ + " has not acknowledged the subscription"
                               : "not yet connected to " + server_;
  if (!connected_ && !last_failure_.ok()) why = std::string(last_failure_.message());
  return absl::UnavailableError(why + " (still trying in the background)");
}

absl::Status Connection::SubscribeAhead(std::string_view channel, base::Instant deadline) {
  if (fork_guard_.InForkedChild()) return InForkedChild();
  bool refused = false;
  {
    const base::MutexLock lock(mu_);
    refused = refused_.contains(channel);
    if (connected_ && !refused) {
      if (absl::Status begun = StartListening(); !begun.ok()) return begun;
      Channel& its = channels_.try_emplace(std::string(channel)).first->second;
      if (its.asked) return absl::OkStatus();
      if (!pipeline_.AppendAbout(Pipeline::About::kSubscribe, channel, options_.sharded, nullptr)) {
        return base::NoMemory();
      }
      its.asked = its.promised = true;
      WriteSoon();
      return absl::OkStatus();
    }
  }
  return Subscribe(channel, deadline, /*ahead=*/!refused);
}

void Connection::Unsubscribe(std::string_view channel) {
  const base::MutexLock lock(mu_);
  if (const auto was = refused_.find(channel); was != refused_.end()) refused_.erase(was);
  const auto known = channels_.find(channel);
  if (known == channels_.end()) return;
  channels_.erase(known);
  // Without memory, the messages still come, and are dropped.
  if (!connected_ ||
      !pipeline_.AppendAbout(Pipeline::About::kUnsubscribe, channel, options_.sharded, nullptr)) {
    return;
  }
  WriteSoon();
}

absl::Status Connection::RefusalOf(const std::string& error) const {
  absl::Status why = ErrorStatus(error, server_);
  // CLUSTERDOWN is about this channel's slot alone.
  const bool unserved = options_.sharded && ClassifyError(error) == ErrorCode::kClusterDown;
  return unserved ? MarkNotSent(std::move(why)) : why;
}

void Connection::HandleRefusal(const std::string& channel, const std::string& error) {
  const auto known = channels_.find(channel);
  if (known == channels_.end()) return;
  const absl::Status why = base::WithMemory([&] { return RefusalOf(error); });
  if (absl::IsUnavailable(why) && !RedirectOf(why) && !redis::NotSent(why)) {
    // It may pass: the next connection asks again.
    if (leaving_.empty()) leaving_ = base::WithMemory([&] { return std::string(why.message()); });
    return;
  }
  const bool promised = known->second.promised;
  channels_.erase(known);
  base::WithMemory([&] {
    mu_.AssertHeld();
    refused_.insert(channel);
  });
  if (promised) TellRefused(channel, why);
}

void Connection::TellRefused(const std::string& channel, const absl::Status& why) {
  if (!options_.on_refused) return;
  mu_.Unlock();
  base::WithMemory([&] { options_.on_refused(channel, why); });
  mu_.Lock();
}

// Returns false if memory is lacking: the message is lost, so the connection must be made again.
bool Connection::TellMessage(const std::string& channel, const std::string& message) noexcept try {
  options_.on_message(channel, message);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

bool Connection::HandlePush(Reply& push, const InFlight& mine, Finished& finished) {
  std::vector<Reply>& words = push.elements;
  if (words.size() != 3 || words[0].text.empty()) return true;  // of a kind that is not asked for
  std::string_view kind = words[0].text;
  if (options_.sharded && kind.front() == 's' && kind != "subscribe") kind.remove_prefix(1);
  const auto known = channels_.find(words[1].text);
  if (kind == "message") {
    if (known == channels_.end()) return true;
    ++stats_.messages;
    if (!options_.on_message) return true;
    mu_.Unlock();
    TellFinished(mine, finished);  // what came before it
    const bool told = TellMessage(words[1].text, words[2].text);
    mu_.Lock();
    if (!told) doomed_ = base::WithMemory([] { return std::string("no memory"); });
    return true;
  }
  if (kind == "subscribe") {
    if (!pipeline_.Deliver(std::move(push), finished)) return false;
    if (known == channels_.end()) return true;
    known->second.live = known->second.promised = true;
    if (const auto was = refused_.find(known->first); was != refused_.end()) refused_.erase(was);
    return true;
  }
  // A server that loses a slot ends the subscriptions in it, unasked.
  const std::string* const ends = pipeline_.NextAbout(Pipeline::About::kUnsubscribe);
  if (ends != nullptr && *ends == words[1].text) return true;
  if (kind == "unsubscribe" && known != channels_.end() && known->second.live) {
    if (!options_.sharded) return false;
    channels_.erase(known);
    const std::string& channel = words[1].text;
    TellRefused(channel, base::WithMemory([&] {
                  return MarkNotSent(absl::UnavailableError(
                      absl::StrCat(server_, " does not serve the slot of ", channel, " any more")));
                }));
  }
  return true;
}

// ---- Which thread watches the socket while none leads: the first of those that wait in Await(),
// otherwise the listener. A waiter would otherwise be woken by the listener, and on an idle machine
// that takes as long as the message itself.
//
//   watcher      thread                     becomes
//   kWaiter      the first in Await()       kWaiter, if another one waits when it leaves, or kNone
//   kListener    the listener's             kWaiter, if a thread waits;
//                                           kNone, if a thread leads and no message is urgent
//   kNone        none, for at most a nap    kWaiter, or kListener when the nap ends
//
// While leaders and waiters come and go, the listener naps, so that none of them has to wake it, or
// to open and shut the gate. They read all messages meanwhile.

namespace {

// How long a message may lie unread if no thread waits for it; twice that if a thread led
// meanwhile.
constexpr absl::Duration kNap = absl::Milliseconds(50);

// While messages must be read at once, a connection that is silent for that long is pinged, and is
// given up if it then does not answer for that long.
constexpr absl::Duration kUrgentSilence = absl::Seconds(1);

}  // namespace

void Connection::ShutGate() {
  ++reads_;
  if (watcher_ == Watcher::kListener && keep_reading_ == 0) {
    watcher_ = Watcher::kNone;
    if (!nap_until_) listener_->Wake();  // it must nap now, not sleep
  }
  if (watcher_ != Watcher::kNone) gate_.Shut();
}

void Connection::OpenGate() {
  if (!connected_) {
    if (listening_ && !serving_ && !channels_.empty()) listener_->Wake();  // it tries again
    return;
  }
  if (watcher_ == Watcher::kNone) return;
  const Transport::Polled polled = transport_->BeginPoll(read_wants_ | write_wants_);
  gate_.Open(polled);  // if that is not possible, the watcher looks now and then
  if (polled.already.Meets(Interest::kReadAndWrite) && !serving_) WakeReader();
}

absl::Duration Connection::LongestSilence() const {
  return keep_reading_ > 0 ? std::min(options_.ping_interval, kUrgentSilence)
                           : options_.ping_interval;
}

absl::Duration Connection::AnswerTimeout() const {
  return keep_reading_ > 0 ? std::min(options_.answer_timeout, kUrgentSilence)
                           : options_.answer_timeout;
}

void Connection::KeepAlive(base::Instant now) {
  if (!connected_) return;
  if (pipeline_.awaits_reply()) {
    const absl::Duration timeout = AnswerTimeout();
    if (now < progress_ + timeout) return;
    doomed_ =
        base::WithMemory([timeout] { return "no answer within " + absl::FormatDuration(timeout); });
  } else if (!channels_.empty() && progress_ + LongestSilence() <= now) {
    pipeline_.AppendUnanswered(Command{"PING"});
  }
}

Watched Connection::ToWatch(base::Instant now) {
  if (!connected_ && leader_ == nullptr) return connecting_;
  // A leader does what is due, and KeepReading() wakes no reader: both are noticed here.
  Watched watched{.until = now + kUrgentSilence};
  // Without a descriptor, it looks now and then.
  if (gate_.Create()) {
    watched.fd = gate_.fd();
  } else {
    watched.until = now + kNap;
  }
  if (leader_ != nullptr) return watched;
  if (!gate_.is_open()) watched.until = now + kNap;
  const Transport::Polled polled = transport_->BeginPoll(read_wants_ | write_wants_);
  watched.until = std::min(watched.until, polled.until);
  if (polled.already.Meets(Interest::kReadAndWrite)) watched.until = base::Instant();
  if (pipeline_.awaits_reply()) {
    watched.until = std::min(watched.until, progress_ + AnswerTimeout());
  } else if (!channels_.empty()) {
    watched.until = std::min(watched.until, progress_ + LongestSilence());
  }
  return watched;
}

void Connection::LeadOnce(bool by_listener) {
  InFlight step;
  step.begun = base::Now();
  {
    const base::MutexLock lock(mu_);
    if (leader_ != nullptr) return;
    leader_ = &step;
    serving_ = by_listener;
    if (!by_listener) ++reads_;
    write_wants_ = Interest::kNone;  // there may be room by now
  }
  Lead(step, kAtOnce);
}

Watched Connection::Serve() {
  bool leads = false;
  {
    const base::MutexLock lock(mu_);
    if (StaysAway(base::Now())) return {.until = *nap_until_};
    leads = leader_ == nullptr && (connected_ || !channels_.empty());
    connecting_ = {};
  }
  if (leads) LeadOnce(/*by_listener=*/true);
  const base::MutexLock lock(mu_);
  const base::Instant now = base::Now();
  if (connected_ && StaysAway(now)) return {.until = *nap_until_};
  return ToWatch(now);
}

// True if the listener leaves the watching to others. While they come and go it naps, so that none
// of them has to wake it; while one stays it sleeps.
bool Connection::StaysAway(base::Instant now) {
  if (watcher_ == Watcher::kListener) return false;
  const bool nap_over = nap_until_ && *nap_until_ <= now;
  const bool same = reads_ == reads_at_nap_;
  const bool quiet = nap_over && same && leader_ == nullptr;
  if (!connected_ || (watcher_ == Watcher::kNone && (must_return_ || quiet))) {
    must_return_ = false;
    nap_until_.reset();
    watcher_ = Watcher::kListener;
    if (leader_ != nullptr) gate_.Shut();
    return false;
  }
  if (nap_until_ && !nap_over) return true;
  const bool one_stays = nap_over && same && watcher_ == Watcher::kWaiter;
  nap_until_ = one_stays ? base::Instant::Infinite() : now + kNap;
  reads_at_nap_ = reads_;
  return true;
}

void Connection::BringListenerBack() {
  must_return_ = true;
  listener_->Wake();
}

void Connection::KeepReading(bool begins) {
  const base::MutexLock lock(mu_);
  keep_reading_ += begins ? 1 : -1;
  if (keep_reading_ > 0 && watcher_ == Watcher::kNone && listening_) BringListenerBack();
}

// A thread that waits at several connections, and watches those at which it is the first.
class Connection::Wait {
 public:
  Wait(absl::Span<const std::shared_ptr<Connection>> all, base::Parker& parker) : parker_(parker) {
    places_.reserve(all.size());  // the connections refer to them
    for (const auto& each : all) places_.push_back({.its = each.get(), .parker = &parker});
    for (Waiter& place : places_) place.its->BeginWaiting(place);
  }
  ~Wait() {
    for (Waiter& place : places_) place.its->EndWaiting(place);
  }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  // Handles what comes until the parker is set, or until then.
  void Until(base::Instant deadline) {
    while (parker_.value() == base::Parker::kArmed && base::Now() < deadline) {
      const base::Instant until = Prepare(deadline);
      if (wake_ == nullptr) {
        parker_.ParkUntil(until);
        Handle(/*came=*/false);
      } else if (parker_.BeginPolling(wake_->fd())) {
        fds_.push_back({.fd = wake_->fd(), .events = POLLIN, .revents = 0});
        const bool came = base::Poll(fds_.data(), fds_.size(), until) > 0;
        parker_.EndPolling();
        Handle(came);
      }
    }
  }

 private:
  // Says what to poll.
  base::Instant Prepare(base::Instant until) {
    fds_.clear();
    wake_ = nullptr;
    const base::Instant now = base::Now();
    for (Waiter& place : places_) {
      Connection& its = *place.its;
      const base::MutexLock lock(its.mu_);
      place.watched = {};
      if (place.watches) place.watched = its.ToWatch(now);
      if (place.watches && wake_ == nullptr && its.watch_wake_.Open()) wake_ = &its.watch_wake_;
      // Without a descriptor, it looks now and then.
      if (place.watches && wake_ == nullptr) place.watched.until = now + kNap;
      until = std::min(until, place.watched.until);
      fds_.push_back({.fd = place.watched.fd, .events = place.watched.events, .revents = 0});
    }
    return until;
  }

  void Handle(bool came) {
    const base::Instant now = base::Now();
    const bool woken = came && fds_.back().revents != 0;
    if (woken) wake_->Drain();
    for (size_t i = 0; i < places_.size(); ++i) {
      const Watched& watched = places_[i].watched;
      const bool ready = came && fds_[i].revents != 0;
      if (ready || watched.until <= now || (woken && watched.fd >= 0)) {
        places_[i].its->LeadOnce(/*by_listener=*/false);
      }
    }
  }

  base::Parker& parker_;
  base::WakeEvent* wake_ = nullptr;  // ends the poll; null: this thread watches nothing
  absl::InlinedVector<Waiter, 5> places_;
  absl::InlinedVector<pollfd, 6> fds_;
};

void Connection::BeginWaiting(Waiter& waiter) {
  const base::MutexLock lock(mu_);
  waiter.previous = last_waiter_;
  (last_waiter_ == nullptr ? first_waiter_ : last_waiter_->next) = &waiter;
  last_waiter_ = &waiter;
  if (connected_ && watcher_ != Watcher::kWaiter) LetWaiterWatch();
}

// REQUIRES: a thread waits.
void Connection::LetWaiterWatch() {
  watcher_ = Watcher::kWaiter;
  ++reads_;
  first_waiter_->watches = true;
  leader_ == nullptr ? OpenGate() : gate_.Shut();
}

void Connection::EndWaiting(Waiter& waiter) {
  const base::MutexLock lock(mu_);
  (waiter.previous == nullptr ? first_waiter_ : waiter.previous->next) = waiter.next;
  (waiter.next == nullptr ? last_waiter_ : waiter.next->previous) = waiter.previous;
  if (!waiter.watches) return;
  if (first_waiter_ != nullptr) {
    first_waiter_->watches = true;
    return first_waiter_->parker->Interrupt();
  }
  watcher_ = Watcher::kNone;
  if (!listening_) return;
  if (keep_reading_ > 0 || (nap_until_ && nap_until_->is_infinite())) {
    BringListenerBack();
  } else if (!nap_until_) {
    listener_->Wake();  // it did not notice the waiter: it must nap now, not sleep
  }
}

uint32_t Connection::AwaitAny(absl::Span<const std::shared_ptr<Connection>> all,
                              base::Parker& parker, base::Instant deadline) {
  Wait(all, parker).Until(deadline);
  parker.EndPolling();  // an interruption that came too late must not end another sleep
  return parker.value();
}

uint32_t Connection::Await(base::Parker& parker, base::Instant deadline) {
  const std::shared_ptr<Connection> its(std::shared_ptr<void>(), this);  // owns nothing
  return AwaitAny(absl::MakeConstSpan(&its, 1), parker, deadline);
}

void Connection::Stop() {
  if (!fork_guard_.InForkedChild()) listener_->Remove(*this);
}

}  // namespace redlatch::redis
