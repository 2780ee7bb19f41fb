#include "src/quorum/node.h"

#include <algorithm>
#include <new>

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

using Words = absl::InlinedVector<std::string_view, 24>;

// Returns a view of a call, as a server group takes it.
redis::ScriptCall ViewOf(const NodeCall& call, Words& words) {
  const NodeCall& base = call.base != nullptr ? *call.base : call;
  words.assign(base.keys.begin(), base.keys.end());
  words.insert(words.end(), base.args.begin(), base.args.end());
  if (call.base != nullptr) words.insert(words.end(), call.args.begin(), call.args.end());
  const auto all = absl::MakeConstSpan(words);
  return {.script = call.script,
          .keys = all.subspan(0, base.keys.size()),
          .args = all.subspan(base.keys.size()),
          .command = call.command ? &*call.command : nullptr};
}

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
  FailWaiting(base::WithMemory(
      [this] { return absl::UnavailableError(server_ + " is not used any more"); }));
}

// ---- Calls.

void Node::Send(NodeCallPtr call, Done done, Wanted wanted) {
  CallPtr its(
      new Call{.call = std::move(call), .done = std::move(done), .wanted = std::move(wanted)});
  SendNow(its);
}

void Node::SendNow(CallPtr& call) {
  redis::InFlight& in_flight = call->in_flight;
  in_flight.results = absl::MakeSpan(&call->reply, 1);
  in_flight.done = [this, its = call.get()] { OnReply(CallPtr(its)); };
  ++in_flight_;
  absl::Status sent;
  try {
    Words words;
    sent = at_->Post(ViewOf(*call->call, words), in_flight);
  } catch (const std::bad_alloc&) {
    sent = base::NoMemory();  // the thread sends it
  }
  if (!sent.ok()) {
    --in_flight_;
    absl::Status down = SendOnceUp(call, std::move(sent));
    if (!down.ok()) call->done(redis::MarkNotSent(std::move(down)));
    return;
  }
  static_cast<void>(call.release());  // its `done` deletes it
  if (reads_.load() || reads_.exchange(true)) return;
  const base::MutexLock lock(mu_);
  read_at_ = base::Now() + kUnread;
  worker_.Wake();
}

void Node::OnReply(CallPtr call) {
  absl::StatusOr<redis::Reply> result = redis::ResultOfPost(std::move(call->reply), server_);
  const bool again = redis::NotSent(result.status()) && !call->again && SendAgain(call);
  if (!again) call->done(std::move(result));
  --in_flight_;
}

bool Node::SendAgain(CallPtr& call) try {
  const base::MutexLock lock(mu_);
  if (stopping_ || !worker_.Start() || waiting_.size() >= kMostWaiting) return false;
  call->again = true;
  waiting_.push_back(std::move(call));
  worker_.Wake();
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

absl::Status Node::SendOnceUp(CallPtr& call, absl::Status why) {
  const base::Instant now = base::Now();
  const base::MutexLock lock(mu_);
  Want(call->call->key(), now, std::max(wanted_until_, now + kWantedFor));
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
void Node::RunHere(CallPtr& call) {
  if (!call->wanted()) {
    call->done(redis::MarkNotSent(absl::UnavailableError("not sent: no caller waits any more")));
  } else if (call->again && sharded_) {
    Words words;
    call->done(redis::ResultOfPost(
        at_->Run(ViewOf(*call->call, words), base::Now() + kFollowFor, call->wanted), server_));
  } else {
    SendNow(call);
  }
}

void Node::FailWaiting(const absl::Status& why) {
  std::list<CallPtr> calls;
  {
    const base::MutexLock lock(mu_);
    calls.swap(waiting_);
  }
  for (const CallPtr& call : calls) {
    base::WithMemory([&] { call->done(redis::MarkNotSent(base::Unshared(why))); });
  }
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
  const std::string channel = at_->slot_tag(key);
  const base::MutexLock lock(mu_);
  worker_.Wake();
  const auto same = std::find_if(subscriptions_.begin(), subscriptions_.end(),
                                 [&](const auto& each) { return each->channel == channel; });
  if (same != subscriptions_.end()) return *same;
  return subscriptions_.emplace_back(new Subscription{.key = std::string(key), .channel = channel});
}

// ---- Cleanups.

void Node::CleanUp(Cleanup cleanup) {
  NodeCallPtr call = cleanup.call;
  const base::Instant expires = cleanup.expires;
  const Wanted wanted = cleanup.wanted;
  Send(
      std::move(call),
      [this, cleanup = std::move(cleanup)](const absl::StatusOr<redis::Reply>& result) {
        base::WithMemory([&] { CleanUpAfter(result.status(), cleanup); });
      },
      [expires, wanted] { return base::Now() < expires && wanted(); });
}

// Cleanups for a node that is down are sent when it is connected.
void Node::CleanUpAfter(const absl::Status& result, Cleanup cleanup) {
  if (!IsToBeRepeated(result) || !cleanup.wanted()) return;
  const base::MutexLock lock(mu_);
  if (closing_) return;
  const base::Instant now = base::Now();
  if (cleanups_.size() >= kMostCleanups) {
    std::erase_if(cleanups_, [now](const Cleanup& each) { return each.expires <= now; });
  }
  if (redis::NotSent(result) || redis::MayHaveExecuted(result)) {  // the node is away
    Want(cleanup.call->key(), now, std::max(wanted_until_, cleanup.expires));
    cleanup.due = base::Instant::Infinite();
  } else {
    cleanup.due = now + kFirstBackoff * (1 << std::min(cleanup.tries++, kMostDoublingsOfBackoff));
  }
  // The oldest are kept: they were most likely in flight when the node went.
  if (cleanups_.size() < kMostCleanups) cleanups_.push_back(std::move(cleanup));
  worker_.Wake();
}

bool Node::CleanedUp() {
  SendCleanups(base::Now());
  const base::MutexLock lock(mu_);
  return in_flight_ == 0 && CleanupDue().is_infinite();
}

base::Instant Node::CleanupDue() const {
  base::Instant first = base::Instant::Infinite();
  for (const Cleanup& each : cleanups_) first = std::min(first, each.due);
  return first;
}

// Sends them in the order in which they came.
void Node::SendCleanups(base::Instant due) {
  std::list<Cleanup> cleanups;
  {
    const base::MutexLock lock(mu_);
    for (auto next = cleanups_.begin(); next != cleanups_.end();) {
      const auto each = next++;
      if (each->due <= due) cleanups.splice(cleanups.end(), cleanups_, each);
    }
  }
  const base::Instant now = base::Now();
  for (const Cleanup& each : cleanups) {
    if (now < each.expires && each.wanted()) base::WithMemory([&] { CleanUp(each); });
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
  CallPtr call;
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
    base::WithMemory([&] { RunHere(call); });
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

void Node::SubscribeNext() {
  std::shared_ptr<Subscription> next;
  {
    const base::MutexLock lock(mu_);
    next = std::move(subscriptions_.front());
    subscriptions_.pop_front();
  }
  if (!at_->subscription(next->key).acknowledged) {
    next->outcome =
        base::WithMemory([&] { return at_->Subscribe(next->key, base::Now() + kSubscribeTurn); });
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
