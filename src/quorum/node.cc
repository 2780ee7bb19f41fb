#include "src/quorum/node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/thread.h"
#include "src/redis/wire/errors.h"

namespace redlatch::quorum {
namespace {

// A node that has not been there for so long is not waited for to come.
constexpr absl::Duration kComingFor = absl::Milliseconds(300);
constexpr absl::Duration kTurn = absl::Milliseconds(100);  // of an attempt to connect
constexpr absl::Duration kPause = absl::Milliseconds(10);
// Nobody has asked it for so long: then it is not connected to.
constexpr absl::Duration kWantedFor = absl::Seconds(30);
constexpr absl::Duration kStalled = absl::Milliseconds(900);
constexpr size_t kMostOwed = 1024;

}  // namespace

bool IsToBeRepeated(const absl::StatusOr<redis::Reply>& answer) {
  if (!answer.ok()) return absl::IsUnavailable(answer.status());
  if (!answer->is_error()) return false;
  if (redis::ClassifyError(answer->text) == redis::ErrorCode::kNoScript) return true;
  const absl::Status refused = redis::ErrorStatus(answer->text, "");
  return absl::IsUnavailable(refused) || absl::IsResourceExhausted(refused);
}

Node::Node(std::unique_ptr<redis::Deployment> at, std::function<void()> on_up)
    : at_(std::move(at)), on_up_(std::move(on_up)) {}

// The answers that are still due use all the rest.
Node::~Node() {
  Stop();
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
  if (thread.joinable()) thread.join();
}

void Node::StartThread() {
  if (thread_.joinable() || stopping_) return;
  base::TryStartThread(thread_, "redlatch-node", [this] { Work(); });
}

Node::Sent Node::Ask(std::string_view key, const redis::Command& command, Done done,
                     absl::FunctionRef<Come()> come) {
  const base::Instant now = base::Now();
  // One that hangs is found out by nobody else: nobody waits for it.
  if (pending_.fetch_add(1) == 0) {
    heard_ = now.nanos();
  } else if (now - base::Instant::FromNanos(heard_) > kStalled) {
    at_->Drain(key, now);
  }
  const absl::Status sent =
      at_->Send(key, command, [this, done = std::move(done)](absl::StatusOr<redis::Reply> answer) {
        heard_ = base::Now().nanos();
        --pending_;
        done(std::move(answer));
      });
  if (sent.ok()) return Sent::kSent;
  --pending_;
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
  // A copy that shares nothing: the thread sanitizer does not see how Abseil counts.
  return {failure_.code(), failure_.message()};
}

std::vector<std::string> Node::TakeWarnings() {
  const base::MutexLock lock(mu_);
  return std::exchange(warnings_, {});
}

void Node::Do(std::function<void()> job) {
  {
    const base::MutexLock lock(mu_);
    jobs_.push_back(std::move(job));
    StartThread();
  }
  changed_.SignalAll();
}

void Node::Tell(std::string key, redis::Command command, base::Instant expires) {
  auto owed = std::make_shared<Owed>(
      Owed{.key = std::move(key), .command = std::move(command), .expires = expires});
  const absl::Status sent =
      at_->Send(owed->key, owed->command, [this, owed](const absl::StatusOr<redis::Reply>& answer) {
        if (IsToBeRepeated(answer))
          Owe(
              owed->key, [&] { return owed->command; }, owed->expires);
      });
  if (!sent.ok())
    Owe(
        owed->key, [&] { return owed->command; }, owed->expires);
}

void Node::Owe(std::string key, absl::FunctionRef<redis::Command()> command,
               base::Instant expires) {
  const base::MutexLock lock(mu_);
  if (stopping_) return;
  wanted_until_ = std::max(wanted_until_, expires);
  key_ = key;
  if (owed_.size() >= kMostOwed) {
    std::erase_if(owed_, [now = base::Now()](const Owed& each) { return each.expires <= now; });
  }
  // What ended first was most likely on its way when the node went.
  if (owed_.size() < kMostOwed) {
    owed_.push_back({.key = std::move(key), .command = command(), .expires = expires});
  }
  absent_since_ = std::min(absent_since_, base::Now());
  wanted_ = true;
  StartThread();
  changed_.SignalAll();
}

void Node::Work() {
  mu_.Lock();
  while (!stopping_) {
    if (!jobs_.empty()) {
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      mu_.Unlock();
      job();
      mu_.Lock();
      continue;
    }
    if (!wanted_) {
      changed_.Wait(mu_);
      continue;
    }
    mu_.Unlock();
    Connect();
    mu_.Lock();
  }
  mu_.Unlock();
}

void Node::Connect() {
  std::string key;
  {
    const base::MutexLock lock(mu_);
    key = key_;
  }
  const base::Instant until = base::Now() + kTurn;
  std::vector<std::string> warnings;
  absl::Status status = at_->Connect(until, warnings);
  // Of a cluster, the one that has the key.
  if (status.ok() && !key.empty()) {
    status = at_->Call(key, redis::Command({"PING"}), until).status();
  }
  std::vector<Come> coming;
  {
    const base::MutexLock lock(mu_);
    failure_ = status;
    const bool lasting = !status.ok() && !absl::IsUnavailable(status);
    if (status.ok() || lasting || base::Now() - absent_since_ > kComingFor) {
      coming = std::exchange(coming_, {});
    }
    if (status.ok()) {
      wanted_ = false;
      absent_since_ = base::Instant::Infinite();
      warnings_.insert(warnings_.end(), warnings.begin(), warnings.end());
    } else if (wanted_until_ < base::Now()) {
      wanted_ = false;
    }
  }
  for (const Come& each : coming) each(status);
  if (status.ok()) {
    const bool owed = Settle();
    on_up_();
    if (!owed) return;  // else a server that refuses for now would be asked all the time
  }
  const base::MutexLock lock(mu_);
  if (!stopping_) changed_.WaitUntil(mu_, base::Now() + kPause);
}

// In the order in which it was owed. Whether anything was.
bool Node::Settle() {
  std::deque<Owed> owed;
  {
    const base::MutexLock lock(mu_);
    owed = std::exchange(owed_, {});
  }
  const base::Instant now = base::Now();
  for (Owed& each : owed) {
    if (now < each.expires) Tell(std::move(each.key), std::move(each.command), each.expires);
  }
  return !owed.empty();
}

}  // namespace redlatch::quorum
