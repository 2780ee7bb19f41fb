#include "src/quorum/node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/base/thread.h"
#include "src/redis/wire/errors.h"

namespace redlatch::quorum {
namespace {

// A node that has not been there for so long is not waited for to come.
constexpr absl::Duration kComingFor = absl::Milliseconds(300);
constexpr absl::Duration kConnectTurn = absl::Milliseconds(100);  // of an attempt to connect
constexpr absl::Duration kPause = absl::Milliseconds(10);
constexpr absl::Duration kRefusedPause = absl::Milliseconds(100);
// Nobody has asked it for so long: then it is not connected to.
constexpr absl::Duration kWantedFor = absl::Seconds(30);
// How long an answer may lie unread, and after how many looks in vain nobody looks any more.
constexpr absl::Duration kUnread = absl::Milliseconds(50);
constexpr int kIdleReads = 20;
constexpr size_t kMostOwed = 1024;
constexpr size_t kMostJobs = 256;
constexpr absl::Duration kListenTurn = absl::Milliseconds(100);
// Before what a node refuses for now is sent again.
constexpr absl::Duration kFirstBackoff = absl::Milliseconds(10);
constexpr int kMostConnectDoublings = 7;

}  // namespace

bool IsToBeRepeated(const absl::StatusOr<redis::Reply>& answer) {
  using redis::ErrorCode;
  if (!answer.ok()) {
    return absl::IsUnavailable(answer.status()) || redis::NotSent(answer.status());
  }
  if (!answer->is_error()) return false;
  const ErrorCode code = redis::ClassifyError(answer->text);
  if (code == ErrorCode::kNoScript || code == ErrorCode::kMoved || code == ErrorCode::kAsk) {
    return true;
  }
  const absl::Status refused = redis::ErrorStatus(answer->text, "");
  return absl::IsUnavailable(refused) || absl::IsResourceExhausted(refused);
}

Node::Node(std::unique_ptr<redis::ServerGroup> at, std::function<void()> on_up,
           std::function<void()> on_heard)
    : at_(std::move(at)), on_up_(std::move(on_up)), on_heard_(std::move(on_heard)) {}

// The answers that are still due use all the rest.
Node::~Node() {
  Stop();
  {
    const base::MutexLock lock(mu_);
    closing_ = true;
  }
  at_.reset();
}

void Node::Stop() {
  std::thread thread;
  {
    const base::MutexLock lock(mu_);
    stopping_ = true;
    thread = std::move(thread_);
  }
  changed_.SignalAll();
  base::Join(thread);
}

void Node::StartThread() {
  if (thread_.joinable() || stopping_) return;
  // Else when it is next needed.
  static_cast<void>(base::TryStartThread(thread_, "redlatch-node", [this] { Work(); }));
}

Node::Done Node::Counted(Done done) {
  ++pending_;
  return [this, done = std::move(done)](absl::StatusOr<redis::Reply> answer) {
    done(std::move(answer));
    --pending_;
  };
}

absl::Status Node::Send(std::string_view key, const redis::Command& command, Done done) {
  absl::Status sent = at_->Send(key, command, Counted(std::move(done)));
  sent.ok() ? Expect() : static_cast<void>(--pending_);
  return sent;
}

Node::Sent Node::Ask(std::string_view key, const redis::Command& command, Done done,
                     absl::FunctionRef<Come()> come) {
  const absl::Status sent = Send(key, command, std::move(done));
  if (sent.ok()) return Sent::kSent;
  const base::Instant now = base::Now();
  const base::MutexLock lock(mu_);
  key_ = key;
  wanted_until_ = now + kWantedFor;
  absent_since_ = std::min(absent_since_, now);
  if (!wanted_) changed_.SignalAll();
  wanted_ = true;
  StartThread();
  if (now - absent_since_ > kComingFor || !thread_.joinable()) {
    if (failure_.ok()) failure_ = sent;
    return Sent::kDown;
  }
  coming_.push_back(come());
  return Sent::kComing;
}

absl::Status Node::failure() const {
  const base::MutexLock lock(mu_);
  return base::Unshared(failure_);
}

std::vector<std::string> Node::TakeWarnings() {
  const base::MutexLock lock(mu_);
  return std::exchange(warnings_, {});
}

bool Node::Do(std::function<void()> job) {
  const base::MutexLock lock(mu_);
  if (jobs_.size() >= kMostJobs) return false;
  jobs_.push_back(std::move(job));
  StartThread();
  changed_.SignalAll();
  return true;
}

std::shared_ptr<const Node::Listening> Node::Listen(std::string_view key) {
  auto made = std::make_shared<Listening>(key);
  const base::MutexLock lock(mu_);
  auto& wanted = wanted_channels_.try_emplace(at_->slot_tag(key), std::move(made)).first->second;
  StartThread();
  changed_.SignalAll();
  return wanted;
}

// In turn, since a channel that is wanted again at once would keep others waiting.
void Node::ListenToNext() {
  std::shared_ptr<Listening> next;
  {
    const base::MutexLock lock(mu_);
    auto its = wanted_channels_.upper_bound(listened_to_);
    if (its == wanted_channels_.end()) its = wanted_channels_.begin();
    listened_to_ = its->first;
    next = std::move(its->second);
    wanted_channels_.erase(its);
  }
  if (!at_->subscribed(next->key)) {
    next->outcome = at_->Subscribe(next->key, base::Now() + kListenTurn, {});
  }
  next->over = true;
  on_heard_();
}

void Node::Tell(std::string key, redis::Command command, base::Instant expires) {
  Tell(std::make_shared<Owed>(
      Owed{.key = std::move(key), .command = std::move(command), .expires = expires}));
}

void Node::Tell(const std::shared_ptr<Owed>& owed) {
  const absl::Status sent =
      Send(owed->key, owed->command, [this, owed](const absl::StatusOr<redis::Reply>& answer) {
        if (!IsToBeRepeated(answer)) return;
        const base::MutexLock lock(mu_);
        Keep(std::move(*owed), /*away=*/!answer.ok());
      });
  if (sent.ok()) return;
  const base::MutexLock lock(mu_);
  Keep(std::move(*owed), /*away=*/true);
}

void Node::Owe(std::string key, absl::FunctionRef<redis::Command()> command, base::Instant expires,
               const absl::StatusOr<redis::Reply>& answer) {
  const base::MutexLock lock(mu_);
  if (closing_) return;  // what the command is made of may be gone
  Keep({.key = std::move(key), .command = command(), .expires = expires}, /*away=*/!answer.ok());
}

void Node::SettleNow() {
  const base::MutexLock lock(mu_);
  for (Owed& each : owed_) {
    if (!each.due.is_infinite()) each.due = base::Now();
  }
  changed_.SignalAll();
}

bool Node::TellRest() {
  Settle(base::Now());
  const base::MutexLock lock(mu_);
  return pending_ == 0 && OwedAt().is_infinite();
}

// `away`: there is no connection, and with the next one it is sent at once.
void Node::Keep(Owed owed, bool away) {
  if (closing_) return;
  const base::Instant now = base::Now();
  if (owed_.size() >= kMostOwed) {
    std::erase_if(owed_, [now](const Owed& each) { return each.expires <= now; });
  }
  if (away) {
    wanted_until_ = std::max(wanted_until_, owed.expires);
    key_ = owed.key;
    absent_since_ = std::min(absent_since_, now);
    wanted_ = true;
    owed.due = base::Instant::Infinite();
  } else {
    owed.due = now + kFirstBackoff * (1 << std::min(owed.tries++, kMostConnectDoublings));
  }
  // What ended first was most likely on its way when the node went.
  if (owed_.size() < kMostOwed) owed_.push_back(std::move(owed));
  StartThread();
  changed_.SignalAll();
}

void Node::Expect() {
  ++expected_;
  if (reads_.load() || reads_.exchange(true)) return;
  const base::MutexLock lock(mu_);
  read_at_ = base::Now() + kUnread;
  StartThread();
  changed_.SignalAll();
}

// One that hangs is found out so, too: nobody waits for it.
void Node::ReadUnread() {
  const uint64_t expected = expected_;
  if (pending_ > 0) at_->DrainAll(base::Now());
  const bool idle = pending_ == 0 && expected == expected_before_;
  expected_before_ = expected;
  idle_reads_ = idle ? idle_reads_ + 1 : 0;
  const base::MutexLock lock(mu_);
  read_at_ = base::Now() + kUnread;
  if (idle_reads_ < kIdleReads) return;
  idle_reads_ = 0;
  reads_ = false;
  if (expected_ == expected) {
    read_at_ = base::Instant::Infinite();
  } else {
    reads_ = true;  // Expect() may not have seen that nobody does
  }
}

void Node::Work() {
  mu_.Lock();
  while (!stopping_) {
    const base::Instant now = base::Now();
    if (!jobs_.empty()) {
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      mu_.Unlock();
      job();
    } else if (!wanted_channels_.empty()) {
      mu_.Unlock();
      ListenToNext();
    } else if (read_at_ <= now) {
      mu_.Unlock();
      ReadUnread();
    } else if (wanted_ && connect_at_ <= now) {
      mu_.Unlock();
      Connect();
    } else if (OwedAt() <= now) {
      mu_.Unlock();
      Settle(now);
    } else {
      changed_.WaitUntil(
          mu_, std::min({read_at_, OwedAt(), wanted_ ? connect_at_ : base::Instant::Infinite()}));
      continue;
    }
    mu_.Lock();
  }
  mu_.Unlock();
}

base::Instant Node::OwedAt() const {
  base::Instant first = base::Instant::Infinite();
  for (const Owed& each : owed_) first = std::min(first, each.due);
  return first;
}

void Node::Connect() {
  std::string key;
  {
    const base::MutexLock lock(mu_);
    key = key_;
  }
  const base::Instant until = base::Now() + kConnectTurn;
  std::vector<std::string> warnings;
  absl::Status status = at_->Connect(until, warnings);
  absl::Duration pause = kPause;
  // Of a cluster, the one that has the key.
  if (status.ok() && !key.empty()) {
    const absl::StatusOr<redis::Reply> pong = at_->Call(key, redis::Command({"PING"}), until);
    status = pong.status();
    if (pong.ok() && pong->is_error()) {
      status = redis::MarkNotSent(redis::ErrorStatus(pong->text, server()));
      pause = kRefusedPause;
    }
  }
  std::vector<Come> coming;
  {
    const base::MutexLock lock(mu_);
    const base::Instant now = base::Now();
    failure_ = status;
    connect_at_ = now + pause;
    const bool lasting = !status.ok() && !absl::IsUnavailable(status);
    if (status.ok() || lasting || now - absent_since_ > kComingFor) {
      coming = std::exchange(coming_, {});
    }
    if (status.ok()) {
      wanted_ = false;
      absent_since_ = base::Instant::Infinite();
      warnings_.insert(warnings_.end(), warnings.begin(), warnings.end());
    } else if (wanted_until_ < now) {
      wanted_ = false;
    }
  }
  for (const Come& each : coming) each(status);
  if (!status.ok()) return;
  Settle(base::Instant::Infinite());
  on_up_();
}

// In the order in which it was owed.
void Node::Settle(base::Instant due) {
  std::deque<Owed> owed;
  {
    const base::MutexLock lock(mu_);
    for (Owed& each : std::exchange(owed_, {})) {
      (each.due <= due ? owed : owed_).push_back(std::move(each));
    }
  }
  const base::Instant now = base::Now();
  for (Owed& each : owed) {
    if (now < each.expires) Tell(std::make_shared<Owed>(std::move(each)));
  }
}

}  // namespace redlatch::quorum
