#include "src/quorum/node.h"

#include <algorithm>

#include "absl/types/span.h"
#include "src/base/status.h"
#include "src/base/thread.h"
#include "src/redis/link/script_runner.h"
#include "src/redis/wire/errors.h"

namespace redlatch::quorum {
namespace {

// Callers do not wait for a node that has been absent for longer.
constexpr absl::Duration kConnectingFor = absl::Milliseconds(300);
constexpr absl::Duration kConnectTurn = absl::Milliseconds(100);  // for one attempt to connect
constexpr absl::Duration kPause = absl::Milliseconds(10);
constexpr absl::Duration kRefusedPause = absl::Milliseconds(100);
// The thread stops connecting if no command was for the node in this time.
constexpr absl::Duration kWantedFor = absl::Seconds(30);
constexpr absl::Duration kUnread = absl::Milliseconds(50);  // how long a reply may lie unread
constexpr size_t kMostCleanups = 1024;
constexpr size_t kMostJobs = 256;
constexpr absl::Duration kSubscribeTurn = absl::Milliseconds(100);
// The pause before a cleanup that the node refused for now is sent again.
constexpr absl::Duration kFirstBackoff = absl::Milliseconds(10);
constexpr int kMostDoublingsOfBackoff = 7;

// `words` holds what the call refers to.
redis::ScriptCall ViewOf(const NodeCall& call, std::vector<std::string_view>& words) {
  words.assign(call.keys.begin(), call.keys.end());
  words.insert(words.end(), call.args.begin(), call.args.end());
  const auto all = absl::MakeConstSpan(words);
  return {.script = call.script,
          .keys = all.subspan(0, call.keys.size()),
          .args = all.subspan(call.keys.size())};
}

// Returns whether a command that must be executed has to be repeated after this reply.
bool IsToBeRepeated(const absl::StatusOr<redis::Reply>& reply) {
  using redis::ErrorCode;
  if (!reply.ok()) return absl::IsUnavailable(reply.status()) || redis::NotSent(reply.status());
  if (!reply->is_error()) return false;
  const ErrorCode code = redis::ClassifyError(reply->text);
  if (code == ErrorCode::kNoScript || code == ErrorCode::kMoved || code == ErrorCode::kAsk) {
    return true;
  }
  const absl::Status refused = redis::ErrorStatus(reply->text, "");
  return absl::IsUnavailable(refused) || absl::IsResourceExhausted(refused);
}

}  // namespace

Node::Node(std::unique_ptr<redis::ServerGroup> at, std::function<void()> on_up,
           std::function<void()> on_subscribed)
    : at_(std::move(at)), on_up_(std::move(on_up)), on_subscribed_(std::move(on_subscribed)) {}

Node::~Node() {
  Stop();
  {
    const base::MutexLock lock(mu_);
    closing_ = true;
  }
  at_.reset();  // first, as the replies in flight use the rest
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

// If the thread cannot be started, the next caller tries again.
void Node::StartThread() {
  if (thread_.joinable() || stopping_) return;
  static_cast<void>(base::TryStartThread(thread_, "redlatch-node", [this] { Work(); }));
}

void Node::WakeThread() {
  StartThread();
  changed_.SignalAll();
}

// ---- Commands.

redis::Command Node::Encode(const NodeCall& call, bool by_text) {
  if (call.command) return *call.command;
  std::vector<std::string_view> words;
  return redis::EncodeCall(at_->WordingOf(ViewOf(call, words)), by_text);
}

absl::StatusOr<redis::Reply> Node::Run(const NodeCall& call, base::Instant deadline) {
  std::vector<std::string_view> words;
  return at_->Run(ViewOf(call, words), deadline, redis::AlwaysWanted);
}

absl::Status Node::Send(std::string_view key, const redis::Command& command, Done done) {
  ++in_flight_;
  absl::Status sent =
      at_->Send(key, command, [this, done = std::move(done)](absl::StatusOr<redis::Reply> reply) {
        done(std::move(reply));
        --in_flight_;
      });
  if (!sent.ok()) --in_flight_;
  if (!sent.ok() || reads_.load() || reads_.exchange(true)) return sent;
  const base::MutexLock lock(mu_);
  read_at_ = base::Now() + kUnread;
  WakeThread();
  return sent;
}

Node::Sent Node::TrySend(std::string_view key, const redis::Command& command, Done done) {
  const absl::Status sent = Send(key, command, std::move(done));
  if (sent.ok()) return Sent::kSent;
  const base::Instant now = base::Now();
  const base::MutexLock lock(mu_);
  Want(key, now, now + kWantedFor);
  const bool refused = !failure_.ok() && !absl::IsUnavailable(failure_);
  if (!refused && now - absent_since_ <= kConnectingFor && thread_.joinable()) {
    return Sent::kConnecting;
  }
  if (failure_.ok()) failure_ = sent;
  return Sent::kDown;
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
  WakeThread();
  return true;
}

std::shared_ptr<const Node::Subscription> Node::Subscribe(std::string_view key) {
  auto made = std::make_shared<Subscription>(key);
  const base::MutexLock lock(mu_);
  WakeThread();
  return subscriptions_.try_emplace(at_->slot_tag(key), std::move(made)).first->second;
}

// ---- Cleanups.

void Node::CleanUp(NodeCall call, base::Instant expires) {
  SendCleanup(std::make_shared<Cleanup>(Cleanup{.call = std::move(call), .expires = expires}));
}

void Node::SendCleanup(const std::shared_ptr<Cleanup>& cleanup) {
  const redis::Command command = Encode(cleanup->call, /*by_text=*/true);
  const absl::Status sent = Send(cleanup->call.keys.front(), command,
                                 [this, cleanup](const absl::StatusOr<redis::Reply>& reply) {
                                   if (!IsToBeRepeated(reply)) return;
                                   const base::MutexLock lock(mu_);
                                   Keep(std::move(*cleanup), /*node_is_away=*/!reply.ok());
                                 });
  if (sent.ok()) return;
  const base::MutexLock lock(mu_);
  Keep(std::move(*cleanup), /*node_is_away=*/true);
}

void Node::CleanUpAfter(const absl::StatusOr<redis::Reply>& reply, const NodeCall& call,
                        base::Instant expires) {
  if (!IsToBeRepeated(reply)) return;
  const base::MutexLock lock(mu_);
  Keep({.call = call, .expires = expires}, /*node_is_away=*/!reply.ok());
}

void Node::CleanUpNow() {
  const base::MutexLock lock(mu_);
  for (Cleanup& each : cleanups_) {
    if (!each.due.is_infinite()) each.due = base::Now();
  }
  changed_.SignalAll();
}

bool Node::CleanedUp() {
  SendCleanups(base::Now());
  const base::MutexLock lock(mu_);
  return in_flight_ == 0 && CleanupDue().is_infinite();
}

// Cleanups for a node that is down are sent when it is connected.
void Node::Keep(Cleanup cleanup, bool node_is_away) {
  if (closing_) return;
  const base::Instant now = base::Now();
  if (cleanups_.size() >= kMostCleanups) {
    std::erase_if(cleanups_, [now](const Cleanup& each) { return each.expires <= now; });
  }
  if (node_is_away) {
    Want(cleanup.call.keys.front(), now, std::max(wanted_until_, cleanup.expires));
    cleanup.due = base::Instant::Infinite();
  } else {
    cleanup.due = now + kFirstBackoff * (1 << std::min(cleanup.tries++, kMostDoublingsOfBackoff));
  }
  // The oldest are kept: they were most likely in flight when the node went.
  if (cleanups_.size() < kMostCleanups) cleanups_.push_back(std::move(cleanup));
  WakeThread();
}

base::Instant Node::CleanupDue() const {
  base::Instant first = base::Instant::Infinite();
  for (const Cleanup& each : cleanups_) first = std::min(first, each.due);
  return first;
}

// Sends them in the order in which they came.
void Node::SendCleanups(base::Instant due) {
  std::deque<Cleanup> cleanups;
  {
    const base::MutexLock lock(mu_);
    for (Cleanup& each : std::exchange(cleanups_, {})) {
      (each.due <= due ? cleanups : cleanups_).push_back(std::move(each));
    }
  }
  const base::Instant now = base::Now();
  for (Cleanup& each : cleanups) {
    if (now < each.expires) SendCleanup(std::make_shared<Cleanup>(std::move(each)));
  }
}

// ---- The node's own thread.

void Node::Want(std::string_view key, base::Instant now, base::Instant until) {
  key_ = key;
  wanted_until_ = until;
  absent_since_ = std::min(absent_since_, now);
  if (!wanted_) changed_.SignalAll();
  wanted_ = true;
  StartThread();
}

// Reading also finds out that a node hangs, as no caller waits for it.
void Node::ReadReplies() {
  if (in_flight_ > 0) at_->Drain(base::Now());
  const base::MutexLock lock(mu_);
  read_at_ = base::Instant::Infinite();
  reads_ = false;
  if (in_flight_ == 0) return;
  reads_ = true;
  read_at_ = base::Now() + kUnread;
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
    } else if (!subscriptions_.empty()) {
      mu_.Unlock();
      SubscribeNext();
    } else if (read_at_ <= now) {
      mu_.Unlock();
      ReadReplies();
    } else if (wanted_ && connect_at_ <= now) {
      mu_.Unlock();
      Connect();
    } else if (CleanupDue() <= now) {
      mu_.Unlock();
      SendCleanups(now);
    } else {
      changed_.WaitUntil(mu_, std::min({read_at_, CleanupDue(),
                                        wanted_ ? connect_at_ : base::Instant::Infinite()}));
      continue;
    }
    mu_.Lock();
  }
  mu_.Unlock();
}

// Channels take turns, as one that is wanted again at once would delay the others.
void Node::SubscribeNext() {
  std::shared_ptr<Subscription> next;
  {
    const base::MutexLock lock(mu_);
    auto its = subscriptions_.upper_bound(last_subscribed_);
    if (its == subscriptions_.end()) its = subscriptions_.begin();
    last_subscribed_ = its->first;
    next = std::move(its->second);
    subscriptions_.erase(its);
  }
  if (!at_->subscriptions().subscribed(next->key)) {
    next->outcome = at_->subscriptions().Subscribe(next->key, base::Now() + kSubscribeTurn, {});
  }
  next->over = true;
  on_subscribed_();
}

// In a cluster, this connects to the server that has the key.
absl::Status Node::TryConnect(absl::Duration& pause) {
  std::string key;
  {
    const base::MutexLock lock(mu_);
    key = key_;
  }
  const base::Instant until = base::Now() + kConnectTurn;
  std::vector<std::string> warnings;
  if (absl::Status failed = at_->Connect(until, warnings); !failed.ok()) return failed;
  if (!key.empty()) {
    const absl::StatusOr<redis::Reply> pong = at_->Call(key, redis::Command({"PING"}), until);
    if (!pong.ok()) return pong.status();
    if (pong->is_error()) {
      pause = kRefusedPause;
      return redis::MarkNotSent(redis::ErrorStatus(pong->text, server()));
    }
  }
  const base::MutexLock lock(mu_);
  warnings_.insert(warnings_.end(), warnings.begin(), warnings.end());
  return absl::OkStatus();
}

void Node::Connect() {
  absl::Duration pause = kPause;
  const absl::Status status = TryConnect(pause);
  {
    const base::MutexLock lock(mu_);
    const base::Instant now = base::Now();
    failure_ = status;
    connect_at_ = now + pause;
    if (status.ok()) absent_since_ = base::Instant::Infinite();
    if (status.ok() || wanted_until_ < now) wanted_ = false;
  }
  if (!status.ok()) return;
  SendCleanups(base::Instant::Infinite());
  on_up_();
}

}  // namespace redlatch::quorum
