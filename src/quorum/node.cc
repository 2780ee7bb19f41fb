#include "src/quorum/node.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "src/base/status.h"
#include "src/redis/wire/errors.h"

namespace redlatch::quorum {
namespace {

// Calls do not wait for a node that has been absent for longer.
constexpr absl::Duration kConnectingFor = absl::Milliseconds(300);
constexpr absl::Duration kConnectTurn = absl::Milliseconds(100);  // for one attempt to connect
constexpr absl::Duration kPause = absl::Milliseconds(10);
constexpr absl::Duration kRefusedPause = absl::Milliseconds(100);
// The thread stops connecting if no call was for the node in this time.
constexpr absl::Duration kWantedFor = absl::Seconds(30);
constexpr absl::Duration kUnread = absl::Milliseconds(50);      // how long a reply may lie unread
constexpr absl::Duration kFollowFor = absl::Milliseconds(200);  // for a call that was refused
constexpr size_t kMostCleanups = 1024;
constexpr size_t kMostWaiting = 1024;
constexpr absl::Duration kSubscribeTurn = absl::Milliseconds(100);
// The pause before a cleanup that the node refused for now is sent again.
constexpr absl::Duration kFirstBackoff = absl::Milliseconds(10);
constexpr int kMostDoublingsOfBackoff = 7;

// A view of a call, as a server group takes it.
class View {
 public:
  explicit View(const NodeCall& call) : call_(call), words_(call.keys.begin(), call.keys.end()) {
    words_.insert(words_.end(), call.args.begin(), call.args.end());
  }
  redis::ScriptCall operator*() const {
    const auto words = absl::MakeConstSpan(words_);
    return {.script = call_.script,
            .keys = words.subspan(0, call_.keys.size()),
            .args = words.subspan(call_.keys.size()),
            .command = call_.command ? &*call_.command : nullptr};
  }

 private:
  const NodeCall& call_;
  absl::InlinedVector<std::string_view, 24> words_;
};

// Returns whether a call that must be executed has to be repeated after this result.
bool IsToBeRepeated(const absl::Status& result) {
  return absl::IsUnavailable(result) || absl::IsResourceExhausted(result) || redis::NotSent(result);
}

}  // namespace

Node::Node(std::unique_ptr<redis::ServerGroup> at, std::function<void()> on_up,
           std::function<void()> on_subscribed)
    : at_(std::move(at)),
      server_(at_->facts({}).name),
      sharded_(!at_->slot_tag({}).empty()),
      on_up_(std::move(on_up)),
      on_subscribed_(std::move(on_subscribed)) {}

Node::~Node() {
  Stop();
  {
    const base::MutexLock lock(mu_);
    closing_ = true;
  }
  at_.reset();  // first, as the replies in flight use the rest
}

void Node::Stop() {
  {
    const base::MutexLock lock(mu_);
    stopping_ = true;
  }
  worker_.Stop();
  FailWaiting(absl::UnavailableError(server_ + " is not used any more"));
}

// ---- Calls.

void Node::Send(NodeCallPtr call, Done done, Wanted wanted) {
  SendNow(std::make_shared<Call>(
      Call{.call = std::move(call), .done = std::move(done), .wanted = std::move(wanted)}));
}

void Node::SendNow(const std::shared_ptr<Call>& call) {
  ++in_flight_;
  absl::Status sent =
      at_->Send(*View(*call->call), [this, call](absl::StatusOr<redis::Reply> result) {
        const bool again = redis::NotSent(result.status()) && !call->again && SendAgain(call);
        if (!again) call->done(std::move(result));
        --in_flight_;
      });
  if (!sent.ok()) {
    --in_flight_;
    absl::Status down = SendOnceUp(call, std::move(sent));
    if (!down.ok()) call->done(redis::MarkNotSent(std::move(down)));
    return;
  }
  if (reads_.load() || reads_.exchange(true)) return;
  const base::MutexLock lock(mu_);
  read_at_ = base::Now() + kUnread;
  worker_.Wake();
}

bool Node::SendAgain(std::shared_ptr<Call> call) {
  const base::MutexLock lock(mu_);
  if (stopping_ || !worker_.Start() || waiting_.size() >= kMostWaiting) return false;
  call->again = true;
  waiting_.push_back(std::move(call));
  worker_.Wake();
  return true;
}

absl::Status Node::SendOnceUp(std::shared_ptr<Call> call, absl::Status why) {
  const base::Instant now = base::Now();
  const base::MutexLock lock(mu_);
  Want(call->call->keys.front(), now, std::max(wanted_until_, now + kWantedFor));
  const bool refused = !failure_.ok() && !absl::IsUnavailable(failure_);
  if (refused || now - absent_since_ > kConnectingFor || stopping_ || !worker_.Start() ||
      waiting_.size() >= kMostWaiting) {
    if (failure_.ok()) failure_ = std::move(why);
    return base::Unshared(failure_);
  }
  waiting_.push_back(std::move(call));
  return absl::OkStatus();
}

// Runs a call that had to wait for the thread.
void Node::RunHere(const std::shared_ptr<Call>& call) {
  if (!call->wanted()) {
    call->done(redis::MarkNotSent(absl::UnavailableError("not sent: no caller waits any more")));
  } else if (call->again && sharded_) {
    call->done(redis::ResultOfPosted(
        at_->Run(*View(*call->call), base::Now() + kFollowFor, call->wanted), server_));
  } else {
    SendNow(call);
  }
}

void Node::FailWaiting(const absl::Status& why) {
  std::deque<std::shared_ptr<Call>> calls;
  {
    const base::MutexLock lock(mu_);
    calls.swap(waiting_);
  }
  for (const auto& call : calls) call->done(redis::MarkNotSent(base::Unshared(why)));
}

absl::Status Node::failure() const {
  const base::MutexLock lock(mu_);
  return base::Unshared(failure_);
}

std::vector<std::string> Node::TakeWarnings() {
  const base::MutexLock lock(mu_);
  return std::exchange(warnings_, {});
}

std::shared_ptr<const Node::Subscription> Node::Subscribe(std::string_view key) {
  auto made = std::make_shared<Subscription>(key);
  const base::MutexLock lock(mu_);
  worker_.Wake();
  return subscriptions_.try_emplace(at_->slot_tag(key), std::move(made)).first->second;
}

// ---- Cleanups.

void Node::SendCleanup(Cleanup cleanup) {
  const NodeCallPtr call = cleanup.call;
  const base::Instant expires = cleanup.expires;
  Send(
      call,
      [this, cleanup = std::move(cleanup)](const absl::StatusOr<redis::Reply>& result) {
        if (!IsToBeRepeated(result.status())) return;
        const base::MutexLock lock(mu_);
        Keep(cleanup, redis::NotSent(result.status()) || redis::MayHaveExecuted(result.status()));
      },
      [expires] { return base::Now() < expires; });
}

void Node::CleanUpAfter(const absl::Status& result, NodeCallPtr call, base::Instant expires) {
  if (!IsToBeRepeated(result)) return;
  const base::MutexLock lock(mu_);
  Keep({.call = std::move(call), .expires = expires},
       redis::NotSent(result) || redis::MayHaveExecuted(result));
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
    Want(cleanup.call->keys.front(), now, std::max(wanted_until_, cleanup.expires));
    cleanup.due = base::Instant::Infinite();
  } else {
    cleanup.due = now + kFirstBackoff * (1 << std::min(cleanup.tries++, kMostDoublingsOfBackoff));
  }
  // The oldest are kept: they were most likely in flight when the node went.
  if (cleanups_.size() < kMostCleanups) cleanups_.push_back(std::move(cleanup));
  worker_.Wake();
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
    if (now < each.expires) SendCleanup(std::move(each));
  }
}

// ---- The node's own thread.

void Node::Want(std::string_view key, base::Instant now, base::Instant until) {
  key_ = key;
  wanted_until_ = until;
  absent_since_ = std::min(absent_since_, now);
  if (!std::exchange(wanted_, true)) worker_.Wake();
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

base::Instant Node::TakeTurn() {
  const base::Instant now = base::Now();
  std::shared_ptr<Call> call;
  bool subscribes = false;
  bool reads = false;
  bool connects = false;
  {
    const base::MutexLock lock(mu_);
    subscribes = !subscriptions_.empty();
    reads = read_at_ <= now;
    connects = wanted_ && connect_at_ <= now;
    const bool follows = sharded_ && !waiting_.empty() && waiting_.front()->again;
    if (follows || (absent_since_.is_infinite() && !waiting_.empty())) {
      call = std::move(waiting_.front());
      waiting_.pop_front();
    } else if (!subscribes && !reads && !connects && CleanupDue() > now) {
      return std::min({read_at_, CleanupDue(), wanted_ ? connect_at_ : base::Instant::Infinite()});
    }
  }
  if (call != nullptr) {
    RunHere(call);
  } else if (subscribes) {
    SubscribeNext();
  } else if (reads) {
    ReadReplies();
  } else if (connects) {
    Connect();
  } else {
    SendCleanups(now);
  }
  return {};
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
  if (!at_->subscription(next->key).acknowledged) {
    next->outcome = at_->Subscribe(next->key, base::Now() + kSubscribeTurn, {});
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
  bool down = false;
  {
    const base::MutexLock lock(mu_);
    const base::Instant now = base::Now();
    failure_ = status;
    connect_at_ = now + pause;
    if (status.ok()) absent_since_ = base::Instant::Infinite();
    if (status.ok() || wanted_until_ < now) wanted_ = false;
    down = !status.ok() &&
           (!absl::IsUnavailable(status) || now - absent_since_ > kConnectingFor || !wanted_);
  }
  if (down) FailWaiting(status);
  if (!status.ok()) return;
  SendCleanups(base::Instant::Infinite());
  on_up_();
}

}  // namespace redlatch::quorum
