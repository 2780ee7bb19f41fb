// Where a client's locks are, and what it says of its own there.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lua/scripts.h"
#include "src/engine/protocol/description.h"
#include "src/engine/protocol/key_set.h"
#include "src/engine/protocol/kinds.h"
#include "src/engine/runtime/core.h"
#include "src/quorum/quorum.h"
#include "src/redis/deployment/cluster.h"
#include "src/redis/deployment/single_server.h"

namespace redlatch::engine {
namespace {

// Of a mark in a cluster, which is never read: writing it is what counts.
constexpr absl::Duration kMarkLifetime = absl::Seconds(1);

std::string QuarantineMs(const redis::Url& url) {
  return absl::StrCat(absl::ToInt64Milliseconds(url.quarantine));
}

// What is said first over each connection. Nobody waits for a node of a quorum so as to repeat a
// script to it with its text.
std::vector<redis::Command> FirstOf(const redis::Url& url, const redis::Command& description,
                                    bool of_quorum) {
  if (of_quorum) {
    std::vector<redis::Command> first = {description};
    for (const LuaScript& script :
         {lua::kQuorumAcquire, lua::kQuorumRelease, lua::kQuorumRenew, lua::kQuorumCancel}) {
      first.push_back(redis::Command({"SCRIPT", "LOAD", script.body}));
    }
    return first;
  }
  if (url.quarantine <= absl::ZeroDuration()) return {description};
  return {redis::Command({"EVAL", lua::kReignBegin.body, "1", ReignKey({}), "", QuarantineMs(url)}),
          description};
}

std::string GoneKeyAtQuorum(std::string_view main, std::string_view hold) {
  std::string suffix = KeyNames(kinds::kQuorum).gone.append(hold);
  std::replace(suffix.begin(), suffix.end(), ':', '.');
  return AuxiliaryKey(main, suffix);
}

}  // namespace

std::unique_ptr<redis::Deployment> Core::MakeDeployment() {
  redis::Deployment::Events events{
      .on_message = [this](std::string_view message) { OnMessage(message); },
      .on_reconnected = [this] { inside_->renewer.Reconnected(); },
      .on_down = [this] { inside_->renewer.Deafened(); },
      .on_hearing = [this](bool hears, std::string_view why) { TellWhetherItHears(hears, why); },
      .on_unread = [this] { async_->Nudge(); }};
  if (url_.kind != redis::Url::Kind::kQuorum) return MakeDeployment(url_, std::move(events));
  // All nodes' messages come to one thread.
  const auto thread = std::make_shared<redis::ListeningThread>();
  return std::make_unique<quorum::Quorum>(
      quorum::Quorum::Options{
          .name = url_.DebugString(),
          .restart_delay = url_.restart_delay,
          .problem = url_problem_,
          .nodes = url_.members.size(),
          .make =
              [this, thread](size_t node, redis::Deployment::Events its) {
                return MakeDeployment(url_.members[node], std::move(its), {.thread = thread});
              },
          .channel = [this](std::string_view tag) { return ChannelName(tag); },
          .gone_key = [](std::string_view key,
                         std::string_view hold) { return GoneKeyAtQuorum(key, hold); },
          .node_key = [](std::string_view tag) { return QuorumKey(tag); }},
      std::move(events));
}

std::string Core::ChannelName(std::string_view tag) const {
  return absl::StrCat(std::string(kChannelPrefix), std::string(tag), identity_.client);
}

std::unique_ptr<redis::Deployment> Core::MakeDeployment(const redis::Url& url,
                                                        redis::Deployment::Events events,
                                                        redis::Membership node) {
  const auto channel = [this](std::string_view tag) { return ChannelName(tag); };
  const auto mark = [this, process = ThisProcess(options_.program),
                     since = absl::Now()](std::string_view key) {
    const std::string tag = deployment_->slot_tag(key);
    return DescribeAnewCommand(tag + identity_.client, process, since,
                               tag.empty() ? pace_.lifetime : kMarkLifetime);
  };
  if (url.kind == redis::Url::Kind::kCluster) {
    return std::make_unique<redis::Cluster>(
        url,
        redis::Cluster::Own{.channel = channel,
                            .description_key = DescriptionKey(identity_.client),
                            .description = description_,
                            .mark = mark,
                            .reigns = {.begin = &lua::kReignBegin,
                                       .quarantine_ms = QuarantineMs(url),
                                       .client = identity_.client,
                                       .key = ReignKey}},
        std::move(events));
  }
  return std::make_unique<redis::SingleServer>(url, ChannelName({}),
                                               FirstOf(url, description_, is_quorum()), mark,
                                               std::move(events), std::move(node));
}

void Core::Reconnected() {
  const auto [concerned, reconnected] = deployment_->Realign();
  if (reconnected) {
    reconnects_.fetch_add(1, std::memory_order_relaxed);
    TellLater([server = server()](Observer& observer) { observer.OnReconnected(server); });
  }
  inside_->machines.VisitAll([this, &concerned = concerned](Entry& entry) {
    if (concerned && !concerned(entry.keys.main())) return;
    Feed(entry, [](Bidder& machine, Effects&) { machine.OnReconnected(base::Now()); });
  });
  counts_.RepeatAll(concerned);
  releases_.RepeatAll(concerned);
}

}  // namespace redlatch::engine
