#include "src/redis/link/shared_connection.h"

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

bool Pipeline::Append(absl::Span<const Command> commands, InFlight& in_flight) noexcept {
  size_t bytes = 0;
  for (const Command& command : commands) bytes += command.bytes().size();
  try {
    unsent_.reserve(unsent_.size() + bytes);
    commands_.push_back(
        {.in_flight = &in_flight, .bytes = bytes, .replies = commands.size(), .index = 0});
  } catch (const std::bad_alloc&) {
    return false;
  }
  for (const Command& command : commands) unsent_.append(command.bytes());
  size_ += commands.size();
  in_flight.open += commands.size();
  return true;
}

void Pipeline::Prepend(const Command& command) noexcept {
  base::Reserve(unsent_, unsent_.size() + command.bytes().size());
  base::WithMemory([&] {
    commands_.push_front(
        {.in_flight = nullptr, .bytes = command.bytes().size(), .replies = 1, .index = 0});
  });
  unsent_.insert(0, command.bytes());
  ++size_;
}

void Pipeline::TakeUnsent(std::string& empty) {
  unsent_.swap(empty);
  sent_ = commands_.size();
}

bool Pipeline::Deliver(Reply reply, Finished& finished) {
  if (sent_ == 0) return false;
  InFlightCommands& commands = commands_.front();
  if (InFlight* in_flight = commands.in_flight; in_flight != nullptr) {
    in_flight->results[commands.index++] = std::move(reply);
    if (--in_flight->open == 0) finished.push_back(in_flight);
  }
  --size_;
  if (--commands.replies == 0) {
    commands_.pop_front();
    --sent_;
  }
  return true;
}

void Pipeline::Fail(const InFlightCommands& commands, const absl::Status& why, Finished& finished) {
  InFlight* in_flight = commands.in_flight;
  if (in_flight == nullptr) return;
  for (size_t i = 0; i < commands.replies; ++i)
    in_flight->results[commands.index + i] = base::Unshared(why);
  in_flight->open -= commands.replies;
  if (in_flight->open == 0) finished.push_back(in_flight);
}

void Pipeline::ConnectionLost(std::string_view rest, const absl::Status& sent,
                              const absl::Status& unsent, Finished& finished) noexcept {
  base::Reserve(unsent_, unsent_.size() + rest.size());  // the rest must not fail half-way
  base::Reserve(finished, finished.size() + commands_.size());
  size_t left = rest.size();
  while (sent_ > 0 && commands_[sent_ - 1].bytes <= left) left -= commands_[--sent_].bytes;
  unsent_.insert(0, rest.substr(left));
  for (; sent_ > 0; --sent_) {
    Fail(commands_.front(), sent, finished);
    size_ -= commands_.front().replies;
    commands_.pop_front();
  }
  FailUnsent([](const InFlight* each) { return each == nullptr || !each->waits(); }, unsent,
             finished);
}

void Pipeline::FailUnsent(absl::FunctionRef<bool(const InFlight*)> which, const absl::Status& why,
                          Finished& finished) {
  size_t kept = sent_;
  size_t kept_bytes = 0;
  size_t at = 0;
  for (size_t i = sent_; i < commands_.size(); ++i) {
    const InFlightCommands commands = commands_[i];
    if (which(commands.in_flight)) {
      Fail(commands, why, finished);
      size_ -= commands.replies;
    } else {
      std::memmove(&unsent_[kept_bytes], &unsent_[at], commands.bytes);
      kept_bytes += commands.bytes;
      commands_[kept++] = commands;
    }
    at += commands.bytes;
  }
  commands_.resize(kept);
  unsent_.resize(kept_bytes);
}

bool Pipeline::Abandon(InFlight& in_flight, const absl::Status& sent, const absl::Status& unsent) {
  Finished none;  // the calling thread need not be told
  for (size_t i = 0; i < sent_; ++i) {
    if (commands_[i].in_flight != &in_flight) continue;
    Fail(commands_[i], sent, none);
    commands_[i].in_flight = nullptr;
    return true;
  }
  FailUnsent([&](const InFlight* each) { return each == &in_flight; }, unsent, none);
  return false;
}

InFlight* Pipeline::FirstWaiting() const {
  for (const InFlightCommands& commands : commands_) {
    InFlight* const in_flight = commands.in_flight;
    if (in_flight != nullptr && in_flight->waits() && !in_flight->away) return in_flight;
  }
  return nullptr;
}

namespace {

constexpr double kSmoothing = 1.0 / 8;
constexpr size_t kRepliesInSample = 512;  // with many callers
// Many commands are answered later than one, and their threads take turns meanwhile. This is long
// enough that hardly any of them sleeps: a thread that sleeps costs a futex, which undoes the gain
// of the others.
constexpr int kLongerForMany = 16;

}  // namespace

absl::Duration SpinPolicy::Length() const {
  const base::WayToWait& account = many_callers() ? many_ : alone_;
  if (account.way() == base::WayToWait::kPatient) return absl::ZeroDuration();
  return many_callers() ? kLongerForMany * length_ : length_;
}

void SpinPolicy::Received(size_t replies) {
  const double before = callers_per_read();
  callers_per_read_.store(before + kSmoothing * (static_cast<double>(replies) - before),
                          std::memory_order_relaxed);
  replies_ += replies;
}

void SpinPolicy::Completed(base::Instant begun, base::Instant now) {
  if (many_callers()) {
    if (replies_ < kRepliesInSample) return;
    many_.Record((now - counted_from_) / static_cast<double>(replies_));
  } else {
    alone_.Record(now - begun + in_vain_);
  }
  replies_ = 0;
  counted_from_ = now;
}

SharedConnection::SharedConnection(const Url& url, SharedConnectionOptions options)
    : options_(std::move(options)),
      server_(url.DebugString()),
      reconnect_(options_.first_backoff, options_.longest_backoff),
      spin_(options_.spin),
      connector_(
          url, url.only_questions ? Handshake::Purpose::kQuestions : Handshake::Purpose::kCommands,
          options_.open, nullptr, nullptr, options_.begin),
      buffer_(std::make_unique_for_overwrite<char[]>(kReadSize)) {}

SharedConnection::~SharedConnection() {
  Finished finished;
  {
    const base::MutexLock lock(mu_);
    FailSent(base::WithMemory(
                 [this] { return absl::StrCat("the connection to ", server_, " was closed"); }),
             finished);
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

absl::Status SharedConnection::InForkedChild() const {
  return absl::FailedPreconditionError(
      absl::StrCat("the connection to ", server_,
                   " belongs to the process that forked this one; connect again after fork()"));
}

absl::StatusOr<Reply> SharedConnection::Call(const Command& command, base::Instant deadline) {
  absl::StatusOr<Reply> result;
  CallBatch(absl::MakeConstSpan(&command, 1), deadline, absl::MakeSpan(&result, 1));
  return result;
}

absl::Status SharedConnection::Connect(base::Instant deadline) {
  const Command ping{"PING"};
  absl::StatusOr<Reply> result;
  CallBatch(absl::MakeConstSpan(&ping, 1), deadline, absl::MakeSpan(&result, 1),
            /*fail_fast=*/true);
  if (result.ok() && result->is_error()) return ErrorStatus(result->text, server_);
  return result.status();
}

void SharedConnection::CallBatch(absl::Span<const Command> commands, base::Instant deadline,
                                 absl::Span<absl::StatusOr<Reply>> results,
                                 bool fail_fast) noexcept {
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
    leading = leader_ == nullptr;
    if (leading) {
      leader_ = &mine;
    } else {
      has_unsent_.store(true, std::memory_order_release);
      if (leader_sleeps_) Write();
    }
  }
  if (leading || Follow(mine, deadline)) Lead(mine, deadline);
}

bool SharedConnection::GoesOn(const InFlight& mine) const {
  if (!mine.results.empty()) return mine.open > 0;
  return connected_ && pipeline_.size() > 0 && pipeline_.FirstWaiting() == nullptr;
}

bool SharedConnection::Follow(InFlight& mine, base::Instant deadline) {
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

void SharedConnection::Lead(InFlight& mine, base::Instant deadline) {
  mine.parker.Arm();
  Finished finished;
  InFlight* next = nullptr;
  bool unread = false;
  {
    const base::MutexLock lock(mu_);
    spin_.Begun();
    // An idle connection may have ended unnoticed. If that is seen before anything is sent, no call
    // fails.
    bool look_first = connected_ && mine.begun - progress_ > kIdle;
    do {
      if (std::exchange(look_first, false)) {
        Receive(mine, kAtOnce, finished);
        if (!leaving_.empty()) LeaveOnceAnswered();  // a leader that does not wait comes here once
      } else if (connected_) {
        Write();
        if (!leaving_.empty()) LeaveOnceAnswered();
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
    if (next == nullptr) Write();  // commands that no thread waits for
    unread = next == nullptr && connected_ && pipeline_.size() > 0;
  }
  // The next leader continues first.
  if (next != nullptr) next->parker.Set(kLead);
  TellFinished(mine, finished);
  if (unread && options_.on_unread) options_.on_unread();
}

void SharedConnection::GiveUp(InFlight& mine) {
  ++stats_.late;
  const absl::Status why = connected_ ? absl::OkStatus() : last_failure_;
  const absl::Status unsent = base::WithMemory([&] {
    return why.ok()
               ? absl::UnavailableError(
                     absl::StrCat("the command could not be sent to ", server_, " in time"))
               : MarkNotSent(absl::Status(
                     why.code(),
                     absl::StrCat(std::string(why.message()),
                                  " (the command was not sent; it was tried until the deadline)")));
  });
  const absl::Status sent =
      base::WithMemory([this] { return WhenSent(server_ + " did not answer in time"); });
  if (pipeline_.Abandon(mine, sent, unsent)) GiveUpIfStalled();
}

void SharedConnection::TellFinished(const InFlight& mine, Finished& finished) {
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
void SharedConnection::ReplaceConnection(std::string_view why) {
  const base::MutexLock lock(mu_);
  if (!leaving_.empty()) return;
  leaving_ = std::string(why);
  InterruptLeader();
}

std::optional<Peer> SharedConnection::peer() const {
  const base::MutexLock lock(mu_);
  return connected_ && leaving_.empty() ? peer_ : std::nullopt;
}

SharedConnection::Stats SharedConnection::stats() const {
  const base::MutexLock lock(mu_);
  return stats_;
}

ServerInfo SharedConnection::server_info() const {
  const base::MutexLock lock(mu_);
  return info_;
}

// ---- Commands without a waiting caller.

namespace {

constexpr size_t kMostUnreadReplies = 1024;  // of posted commands
constexpr absl::Duration kYields = absl::Microseconds(100);

}  // namespace

void SharedConnection::Finish(InFlight& mine, base::Instant deadline) noexcept {
  bool open = false;
  bool leading = false;
  mine.begun = base::Now();
  {
    const base::MutexLock lock(mu_);
    mine.away = false;
    open = mine.open > 0;
    leading = open && leader_ == nullptr;
    if (leading) leader_ = &mine;
  }
  if (!open) {
    // The thread that has read the reply sets the parker, and no longer uses `mine` then.
    mine.parker.ParkUntil(base::Instant::Infinite());
  } else if (leading || Follow(mine, deadline)) {
    Lead(mine, deadline);
  }
}

bool SharedConnection::Leave(InFlight& mine, std::function<void()> done) noexcept {
  {
    const base::MutexLock lock(mu_);
    mine.away = false;
    if (mine.open > 0) {
      mine.done = std::move(done);
      ++pending_done_;
      return true;
    }
  }
  mine.parker.ParkUntil(base::Instant::Infinite());  // as in Finish()
  return false;
}

absl::Status SharedConnection::NotSent(const char* why) const noexcept try {
  return absl::UnavailableError(absl::StrCat("not sent to ", server_, ": ", why));
} catch (const std::bad_alloc&) {
  return base::NoMemory();
}

absl::Status SharedConnection::Post(absl::Span<const Command> commands,
                                    InFlight& in_flight) noexcept {
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
    if (leader_ != nullptr || !to_be_read) return status;
    leader_ = &drain;
  }
  Lead(drain, kAtOnce);
  return status;
}

bool SharedConnection::Drain(base::Instant until) noexcept {
  InFlight drain;
  drain.begun = base::Now();
  bool leading = false;
  {
    const base::MutexLock lock(mu_);
    leading = leader_ == nullptr && connected_ && pipeline_.size() > 0;
    if (leading) {
      leader_ = &drain;
      write_wants_ = Interest::kNone;  // there may be room by now
    }
  }
  if (leading) Lead(drain, until);
  return pending_done_ == 0;
}

Transport::Polled SharedConnection::BeginPoll() {
  const base::MutexLock lock(mu_);
  // If no reply is due, no caller would read what makes it ready, such as the server's end.
  const bool waits = connected_ && leader_ == nullptr && pipeline_.size() > 0;
  return waits ? transport_->BeginPoll(read_wants_ | write_wants_) : Transport::Polled();
}

// ---- What the leader does on the connection.

void SharedConnection::Reconnect(InFlight& mine, base::Instant deadline, Finished& finished) {
  const base::Instant next_attempt = reconnect_.next_attempt();
  // A server may now accept what it refused before, so it is asked again.
  const bool unreachable = absl::IsUnavailable(last_failure_);
  if (options_.fail_fast && base::Now() < next_attempt && unreachable) {
    const absl::Status why = MarkNotSent(last_failure_);
    return pipeline_.FailUnsent([](const InFlight*) { return true; }, why, finished);
  }
  mu_.Unlock();
  TellFinished(mine, finished);
  if (base::Now() < next_attempt) {
    mine.parker.ParkUntil(std::min(deadline, next_attempt));  // the leader is not woken
    mu_.Lock();
    return;
  }
  auto step = wake_.Open() ? connector_.Step(deadline)
                           : absl::UnavailableError(absl::StrCat("cannot connect to ", server_,
                                                                 ": ", std::strerror(errno)));
  mu_.Lock();
  if (!step.ok()) {
    leaving_.clear();  // the next attempt finds the address again
    last_failure_ = MarkNotSent(step.status());
    reconnect_.Failed();
    const bool lasting = !absl::IsUnavailable(last_failure_) || options_.fail_fast;
    pipeline_.FailUnsent(
        [&](const InFlight* each) {
          return lasting || each == nullptr || each->fail_fast || !each->waits();
        },
        last_failure_, finished);
    return;
  }
  if (!step->has_value()) return;
  transport_ = std::move((*step)->dialogue.transport);
  full_duplex_ = transport_->full_duplex();
  read_wants_ = (*step)->dialogue.read_wants;
  parser_ = std::move((*step)->dialogue.parser);
  info_ = std::move((*step)->info);
  conditional_delete_ = info_.conditional_delete;
  connected_ = true;
  ++made_;
  progress_ = base::Now();
  peer_ = Peer{.target = std::move((*step)->target), .since = progress_};
  reconnect_.Made();
  for (auto each = options_.first.rbegin(); each != options_.first.rend(); ++each) {
    pipeline_.Prepend(*each);
  }
  if (++stats_.connects > 1 && options_.on_reconnected) options_.on_reconnected();
}

void SharedConnection::Receive(const InFlight& mine, base::Instant deadline, Finished& finished) {
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
  for (Reply& reply : arrived_) {
    if (reply.is_error() && leaving_.empty() && options_.after_error) {
      const absl::Duration connected_for = base::Now() - peer_->since;
      leaving_ = base::WithMemory([&] { return options_.after_error(reply.text, connected_for); });
    }
    if (reply.type == Reply::Type::kPush || !pipeline_.Deliver(std::move(reply), finished))
      broken = "it sent a reply that nothing had asked for";
  }
  arrived_.clear();
  // Callers without a thread do not count, and a batch counts once.
  const auto waiting = std::count_if(finished.begin(), finished.end(),
                                     [](const InFlight* each) { return each->waits(); });
  if (waiting > 0) spin_.Received(static_cast<size_t>(waiting));
  if (!broken.empty()) doomed_ = std::move(broken);
}

IoResult SharedConnection::Read(base::Instant deadline, bool may_spin) {
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

IoResult SharedConnection::ReadOnce() {
  const IoResult got = transport_->Read(buffer_.get(), kReadSize);
  read_wants_ = got.wants();
  return got;
}

// Keeps other threads from writing until the leader releases them. A thread in Write() leaves the
// rest to the leader.
void SharedConnection::HoldWriters() {
  writers_held_ = true;
  while (writing_) {
    writer_left_.Arm();
    mu_.Unlock();
    writer_left_.ParkUntil(base::Instant::Infinite());
    mu_.Lock();
    has_unsent_.store(true, std::memory_order_relaxed);
  }
}

absl::Status SharedConnection::WhenSent(const std::string& why) {
  return MarkMayHaveExecuted(
      absl::UnavailableError(why + " (the command was sent and may have been executed)"));
}

void SharedConnection::FailSent(const std::string& why, Finished& finished) {
  const std::string_view unwritten = std::string_view(in_flight_).substr(in_flight_done_);
  const absl::Status unsent = base::WithMemory(
      [&] { return MarkNotSent(absl::UnavailableError(why + " (the command was not sent)")); });
  const absl::Status sent = base::WithMemory([&] { return WhenSent(why); });
  pipeline_.ConnectionLost(unwritten, sent, unsent, finished);
}

void SharedConnection::GiveUpIfStalled() {
  if (!connected_ || !pipeline_.awaits_reply()) return;
  if (base::Now() - progress_ < options_.stall_timeout) return;
  doomed_ = base::WithMemory(
      [this] { return "it has not answered for " + absl::FormatDuration(options_.stall_timeout); });
  InterruptLeader();
}

void SharedConnection::Break(Finished& finished) {
  connected_ = false;
  HoldWriters();
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
}

bool SharedConnection::MayWrite() const {
  return connected_ && !writing_ && !writers_held_ && write_wants_ == Interest::kNone &&
         doomed_.empty() &&
         (in_flight_done_ < in_flight_.size() ||
          (leaving_.empty() && pipeline_.unsent_bytes() > 0));
}

void SharedConnection::LeaveOnceAnswered() {
  if (!doomed_.empty()) return;
  const bool written = !writing_ && in_flight_done_ == in_flight_.size();
  const bool answered = written && !pipeline_.awaits_reply();
  const bool silent = base::Now() - progress_ >= options_.stall_timeout;
  if (!answered && !silent) return;
  base::Reserve(doomed_, leaving_.size());
  doomed_ = leaving_;
}

void SharedConnection::Write() {
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
    InterruptLeader();
  }
}

// The process may end as soon as the caller returns, and with it the leader.
void SharedConnection::WriteAll() {
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

void SharedConnection::InterruptLeader() {
  if (leader_sleeps_) wake_.Signal();
}

}  // namespace redlatch::redis
