#include "src/cli/term/cluster_server.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "src/base/parker.h"
#include "src/base/random.h"
#include "src/cli/term/cluster_nodes.h"
#include "src/cli/term/shards.h"
#include "src/redis/link/cluster_view.h"
#include "src/redis/wire/errors.h"

namespace redlatch::cli {
namespace {

// Between attempts that were refused for a reason that passes.
constexpr absl::Duration kFirstBackoff = absl::Milliseconds(5);
constexpr absl::Duration kLongestBackoff = absl::Milliseconds(100);
// One redirection leads to the owner, and a second one if the slot was on the move.
constexpr int kRoundsAtOnce = 3;

bool Passes(redis::ErrorCode code) {
  return code == redis::ErrorCode::kTryAgain || code == redis::ErrorCode::kClusterDown;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> ClusterServer::Open(const redis::Url& parsed,
                                                            std::string_view url) {
  std::unique_ptr<ClusterServer> server(new ClusterServer(parsed, url));
  if (absl::Status learned = server->Learn(); !learned.ok()) return learned;
  return server;
}

// Of those that have been of use first.
absl::Status ClusterServer::Learn() {
  std::vector<redis::HostAndPort> whom;
  for (const Node& node : nodes_) {
    if (node.connection) whom.push_back(node.where);
  }
  whom.insert(whom.end(), parsed_.nodes.begin(), parsed_.nodes.end());
  for (const Node& node : nodes_) {
    if (std::ranges::find(whom, node.where) == whom.end()) whom.push_back(node.where);
  }
  const absl::StatusOr<redis::ClusterView> view = FindCluster(parsed_, whom);
  if (!view.ok()) return view.status();
  owners_.fill(kNobody);
  for (const redis::SlotRange& range : view->ranges) {
    const size_t node = NodeAt(range.primary);
    std::fill(owners_.begin() + range.first, owners_.begin() + range.last + 1, node);
  }
  return absl::OkStatus();
}

// A slot may be on its way to a primary that has none; so may its keys.
void ClusterServer::FindAllParts() {
  const auto unserved = std::ranges::find(owners_, kNobody);
  if (unserved != owners_.end()) {
    PassesOver(absl::UnavailableError(
        absl::StrCat("no node of ", name(), " serves ", std::ranges::count(owners_, kNobody),
                     " of its slots, the first of which is ", unserved - owners_.begin())));
  }
  for (size_t part = 0; part < nodes_.size(); ++part) {
    const absl::StatusOr<redis::Reply> told = AskPart(part, redis::Command{"CLUSTER", "NODES"});
    if (absl::IsPermissionDenied(told.status())) return;
    if (!told.ok()) continue;
    for (const ClusterLine& line : ReadClusterNodes(told->text)) {
      const size_t colon = line.address.rfind(':');
      int port = 0;
      if (line.serves || line.flags != std::set<std::string>{"master"} || colon == 0 ||
          colon == std::string::npos || !absl::SimpleAtoi(line.address.substr(colon + 1), &port)) {
        continue;
      }
      NodeAt({.host = line.address.substr(0, colon), .port = static_cast<uint16_t>(port)});
    }
    return;
  }
}

size_t ClusterServer::NodeAt(const redis::HostAndPort& where) {
  const auto found = std::ranges::find(nodes_, where, &Node::where);
  if (found != nodes_.end()) return static_cast<size_t>(found - nodes_.begin());
  nodes_.push_back({.where = where, .url = redis::UrlOfNode(parsed_, where)});
  return nodes_.size() - 1;
}

absl::StatusOr<std::vector<redis::Reply>> ClusterServer::AskNode(
    Node& node, absl::Span<const redis::Command> commands, base::Instant deadline) {
  if (!node.connection) {
    const absl::Duration patience = parsed_.connect_timeout + parsed_.command_timeout;
    auto opened =
        redis::PlainConnection::Open(node.url, std::min(deadline, base::Now() + patience));
    node.failure = opened.status();
    if (!opened.ok()) return opened.status();
    node.connection = *std::move(opened);
  }
  auto replies = node.connection->CallAll(commands, deadline);
  node.failure = replies.status();
  if (!replies.ok()) node.connection.reset();
  return replies;
}

absl::StatusOr<redis::Reply> ClusterServer::AskPart(size_t part, const redis::Command& command) {
  Node& node = nodes_[part];
  if (passes_over_unreachable() && !node.failure.ok()) return node.failure;
  auto replies = AskNode(node, {&command, 1}, base::Now() + patience_);
  if (!replies.ok()) return replies.status();
  if (!replies->front().is_error()) return std::move(replies->front());
  return redis::ErrorStatus(replies->front().text, node.url.DebugString());
}

absl::StatusOr<std::vector<redis::Reply>> ClusterServer::Ask(
    absl::Span<const redis::Command> commands, absl::Span<const redis::Slot> slots,
    Unreachable unreachable) {
  const bool soon = unreachable == Unreachable::kIsNil;
  Call call{.commands = commands,
            .slots = slots,
            .nil_if_unreachable = soon || passes_over_unreachable(),
            .deadline = base::Now() + (soon ? parsed_.command_timeout : patience_),
            .replies = std::vector<redis::Reply>(commands.size())};
  std::vector<Pending> pending;
  for (size_t i = 0; i < slots.size(); ++i) {
    pending.push_back({.index = i, .node = owners_[slots[i]]});
  }
  absl::Status asked = AskAll(std::move(pending), call);
  if (!asked.ok()) return asked;
  return std::move(call.replies);
}

// In rounds, since an answer may say who has to be asked instead.
absl::Status ClusterServer::AskAll(std::vector<Pending> pending, Call& call) {
  base::Backoff backoff(kFirstBackoff, kLongestBackoff);
  for (int rounds = 1; !pending.empty(); ++rounds) {
    std::ranges::stable_sort(pending, {}, &Pending::node);
    std::set<size_t> left;
    for (const Pending& each : pending) left.insert(each.node);
    for (auto first = pending.begin(); first != pending.end();) {
      // One that hangs leaves the others their time.
      const base::Instant now = base::Now();
      call.nodes_share = now + (call.deadline - now) / static_cast<int64_t>(left.size());
      left.erase(first->node);
      const auto last = std::find_if(first, pending.end(),
                                     [&](const Pending& p) { return p.node != first->node; });
      absl::Status asked = AskTogether({&*first, static_cast<size_t>(last - first)}, call);
      if (!asked.ok()) return asked;
      first = last;
    }
    pending = std::exchange(call.again, {});
    const bool circles = !pending.empty() && rounds % kRoundsAtOnce == 0;
    if (call.later.ok() && !circles) continue;
    absl::Status why =
        circles && call.later.ok()
            ? absl::UnavailableError(absl::StrCat(name(), " sends from one node to the other"))
            : std::exchange(call.later, absl::OkStatus());
    const base::Instant next = base::Now() + backoff.Next();
    if (call.deadline <= next || (gave_up_ && call.nil_if_unreachable)) {
      gave_up_ = true;
      if (!call.nil_if_unreachable) return why;
      (void)PassesOver(why);
      return absl::OkStatus();
    }
    base::Parker().ParkUntil(next);
    Learn().IgnoreError();
    for (Pending& each : pending) {
      if (!each.asking) each.node = owners_[call.slots[each.index]];
    }
  }
  return absl::OkStatus();
}

// All of a group go to the same node.
absl::Status ClusterServer::AskTogether(absl::Span<const Pending> group, Call& call) {
  if (group.front().node == kNobody) {
    call.later = absl::UnavailableError(
        absl::StrCat("no node of ", name(), " serves slot ", call.slots[group.front().index]));
    call.again.insert(call.again.end(), group.begin(), group.end());
    return absl::OkStatus();
  }
  Node& node = nodes_[group.front().node];
  if (call.nil_if_unreachable && !node.failure.ok()) {
    (void)PassesOver(node.failure);
    return absl::OkStatus();
  }
  std::vector<redis::Command> commands;
  for (const Pending& each : group) {
    if (each.asking) commands.push_back(redis::Command{"ASKING"});
    commands.push_back(call.commands[each.index]);
  }
  auto replies = AskNode(node, commands, call.nodes_share);
  if (!replies.ok()) return TakeFailure(group, replies.status(), call);
  auto reply = replies->begin();
  for (const Pending& each : group) {
    if (each.asking && reply->is_error()) {
      return redis::ErrorStatus(reply->text, node.url.DebugString());
    }
    if (each.asking) ++reply;
    if (!reply->is_error()) {
      call.replies[each.index] = std::move(*reply);
    } else if (absl::Status taken = TakeError(each, reply->text, call); !taken.ok()) {
      return taken;
    }
    ++reply;
  }
  return absl::OkStatus();
}

// Another node may have taken over from the one that could not be asked.
absl::Status ClusterServer::TakeFailure(absl::Span<const Pending> group, const absl::Status& why,
                                        Call& call) {
  if (!std::exchange(call.learned, true)) Learn().IgnoreError();
  bool missed = false;
  for (const Pending& each : group) {
    const size_t owner = owners_[call.slots[each.index]];
    if (owner == kNobody || owner == each.node) {
      missed = true;
    } else {
      call.again.push_back({.index = each.index, .node = owner});
    }
  }
  if (!missed) return absl::OkStatus();
  if (!call.nil_if_unreachable) return why;
  (void)PassesOver(why);
  return absl::OkStatus();
}

absl::Status ClusterServer::TakeError(const Pending& asked, const std::string& error, Call& call) {
  absl::Status refused = redis::ErrorStatus(error, nodes_[asked.node].url.DebugString());
  if (const std::optional<redis::Redirect> redirect = redis::RedirectOf(refused)) {
    const std::string& here = nodes_[asked.node].where.host;
    const redis::HostAndPort where = {.host = redirect->host.empty() ? here : redirect->host,
                                      .port = redirect->port};
    if (!redirect->once && !std::exchange(call.learned, true)) Learn().IgnoreError();
    const size_t next = NodeAt(where);
    if (!redirect->once) owners_[redirect->slot] = next;
    call.again.push_back({.index = asked.index, .node = next, .asking = redirect->once});
    return absl::OkStatus();
  }
  if (Passes(redis::ClassifyError(error))) {
    call.later = std::move(refused);
    call.again.push_back({.index = asked.index, .node = owners_[call.slots[asked.index]]});
    return absl::OkStatus();
  }
  return IsNil(error) ? absl::OkStatus() : refused;
}

}  // namespace redlatch::cli
