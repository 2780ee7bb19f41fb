#include "src/quorum/round.h"

#include <algorithm>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"
#include "src/base/wake_event.h"
#include "src/redis/wire/errors.h"

namespace redlatch::quorum {
namespace {

// How often to look at a node that is being connected to, or whose connection another thread reads:
// that thread may leave before this round's replies have come.
constexpr absl::Duration kTurn = absl::Milliseconds(1);
constexpr absl::Duration kFollowFor = absl::Milliseconds(200);
constexpr absl::Duration kLongestTurn = absl::Milliseconds(50);

// Wakes the calling thread, in all its rounds. A forked child has another.
base::WakeEvent& WakeOfThisThread() {
  thread_local std::optional<base::WakeEvent> event;
  thread_local std::optional<base::ForkGuard> guard;
  if (!event || guard->InForkedChild()) {
    event.emplace();
    guard.emplace();
  }
  event->Open();
  return *event;
}

}  // namespace

struct Round::Arrival {
  size_t index = 0;  // of the calls
  size_t node = 0;
  absl::StatusOr<redis::Reply> reply;
};

// Where replies arrive, from any thread, until the round's own takes them.
class Round::Inbox {
 public:
  void Add(Arrival arrival) {
    const base::MutexLock lock(mu_);
    if (closed_) return;
    arrivals_.push_back(std::move(arrival));
    // Under the mutex: once it is closed, the descriptor may be another's.
    if (std::this_thread::get_id() != owner_) base::WakeEvent::Signal(wake_fd_);
  }
  void Close() {
    const base::MutexLock lock(mu_);
    closed_ = true;
  }
  std::vector<Arrival> Take() {
    const base::MutexLock lock(mu_);
    return std::exchange(arrivals_, {});
  }
  // Becomes readable when another thread adds an arrival. -1: there is none.
  int wake_fd() const { return wake_fd_; }

 private:
  const std::thread::id owner_ = std::this_thread::get_id();
  const int wake_fd_ = WakeOfThisThread().fd();
  base::Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Arrival> arrivals_ ABSL_GUARDED_BY(mu_);
};

Round::Round(Nodes& nodes) : nodes_(nodes), inbox_(std::make_shared<Inbox>()) {}

Round::~Round() {
  inbox_->Close();
  for (const NodeCalls* const calls : calls_) {
    if (calls->on_reply == nullptr) continue;
    for (size_t node = 0; node < nodes_.size(); ++node) {
      if ((calls->connecting & Only(node)) == 0) continue;
      (*calls->on_reply)(node, *nodes_[node],
                         redis::MarkNotSent(absl::UnavailableError("not sent: not connected yet")));
    }
  }
}

void Round::Put(NodeCalls& calls, NodeSet to) {
  calls_.push_back(&calls);
  calls.results.resize(nodes_.size());
  calls.replies.resize(nodes_.size());
  for (size_t node = 0; node < nodes_.size(); ++node) {
    if ((to & Only(node)) != 0) {
      Send(calls_.size() - 1, node, /*by_text=*/false);
    } else {
      calls.results[node].kind = NodeResult::Kind::kNo;
    }
  }
}

void Round::Send(size_t index, size_t node, bool by_text) {
  NodeCalls& calls = *calls_[index];
  Node& its = *nodes_[node];
  std::optional<redis::Command> own;
  if (!calls.alike || by_text) {
    own = its.Encode(calls.call_of(node), by_text);
  } else if (!calls.text) {
    calls.text = its.Encode(calls.call_of(node), by_text);
  }
  const Node::Sent sent =
      its.TrySend(calls.key, own ? *own : *calls.text,
                  [inbox = inbox_, index, node, &its,
                   on_reply = calls.on_reply](absl::StatusOr<redis::Reply> reply) {
                    if (on_reply != nullptr) (*on_reply)(node, its, reply);
                    inbox->Add({.index = index, .node = node, .reply = std::move(reply)});
                  });
  const NodeSet connecting = sent == Node::Sent::kConnecting ? Only(node) : 0;
  calls.connecting = (calls.connecting & ~Only(node)) | connecting;
  if (sent != Node::Sent::kDown) return;
  Set(calls, node, redis::MarkNotSent(its.failure()));
  if (calls.on_reply != nullptr) (*calls.on_reply)(node, its, calls.replies[node]);
}

void Round::SendToConnecting() {
  for (size_t index = 0; index < calls_.size(); ++index) {
    for (size_t node = 0; node < nodes_.size(); ++node) {
      if ((calls_[index]->connecting & Only(node)) != 0) Send(index, node, /*by_text=*/false);
    }
  }
}

void Round::Set(NodeCalls& calls, size_t node, absl::StatusOr<redis::Reply> reply) {
  calls.replies[node] = std::move(reply);
  calls.results[node] = calls.read(node, calls.replies[node]);
}

void Round::Take(Arrival arrival) {
  NodeCalls& calls = *calls_[arrival.index];
  if (arrival.reply.ok() && arrival.reply->is_error()) return TakeError(arrival);
  Set(calls, arrival.node, std::move(arrival.reply));
}

void Round::TakeError(Arrival& arrival) {
  using redis::ErrorCode;
  NodeCalls& calls = *calls_[arrival.index];
  Node& node = *nodes_[arrival.node];
  const ErrorCode code = redis::ClassifyError(arrival.reply->text);
  if (code == ErrorCode::kNoScript) return Send(arrival.index, arrival.node, /*by_text=*/true);
  const bool moves = code == ErrorCode::kMoved || code == ErrorCode::kAsk ||
                     code == ErrorCode::kTryAgain || code == ErrorCode::kClusterDown;
  if (!moves || calls.call_of(arrival.node).script == nullptr) {
    return Set(calls, arrival.node, redis::ErrorStatus(arrival.reply->text, node.server()));
  }
  // The node is a cluster whose slot moves: its own thread follows the slot.
  const bool follows =
      node.Do([&node, inbox = inbox_, call = calls.call_of(arrival.node), on_reply = calls.on_reply,
               index = arrival.index, which = arrival.node] {
        auto reply = node.Run(call, base::Now() + kFollowFor);
        if (on_reply != nullptr) (*on_reply)(which, node, reply);
        inbox->Add({.index = index, .node = which, .reply = std::move(reply)});
      });
  if (follows) return;
  Set(calls, arrival.node,
      redis::MarkNotSent(absl::UnavailableError(
          absl::StrCat(node.server(), " moves slots, and too many calls wait for it already"))));
}

void Round::Await(absl::FunctionRef<bool()> enough, base::Instant deadline) {
  while (!enough() && base::Now() < deadline) {
    SendToConnecting();
    std::vector<Arrival> arrivals = inbox_->Take();
    if (arrivals.empty()) {
      ReadConnections(deadline);
      arrivals = inbox_->Take();
    }
    for (Arrival& arrival : arrivals) Take(std::move(arrival));
  }
}

// Reads what has come, or waits for something to come.
void Round::ReadConnections(base::Instant until) {
  absl::InlinedVector<pollfd, 8> fds;
  absl::InlinedVector<size_t, 8> awaited;  // nodes
  until = std::min(until, base::Now() + kLongestTurn);
  fds.push_back({.fd = inbox_->wake_fd(), .events = POLLIN, .revents = 0});
  bool ready = false;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    const auto calls = std::find_if(calls_.begin(), calls_.end(), [&](const NodeCalls* each) {
      return each->results[node].kind == NodeResult::Kind::kInFlight;
    });
    if (calls == calls_.end()) continue;
    if (((*calls)->connecting & Only(node)) != 0) until = std::min(until, base::Now() + kTurn);
    std::vector<redis::Transport::Polled> polled;
    nodes_[node]->at().BeginPoll(polled);
    bool any = false;
    for (const auto& each : polled) {
      any |= each.fd >= 0;
      until = std::min(until, each.until);
      ready |= each.already.readable;
      fds.push_back({.fd = each.fd, .events = each.events, .revents = 0});
      awaited.push_back(node);
    }
    if (!any) until = std::min(until, base::Now() + kTurn);
  }
  const int came = base::Poll(fds.data(), fds.size(), ready ? base::Instant() : until);
  if (came > 0 && fds[0].revents != 0) WakeOfThisThread().Drain();
  for (size_t i = 0; i < awaited.size(); ++i) {
    const bool readable = came > 0 && fds[i + 1].revents != 0;
    if (readable || ready || came == 0) {
      nodes_[awaited[i]]->at().Drain(base::Instant());
    }
  }
}

}  // namespace redlatch::quorum
