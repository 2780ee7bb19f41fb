#include "src/redis/link/cluster_view.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "src/base/words.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {
namespace {

// Redis' own limit is about 1,000.
constexpr size_t kMostNodes = 2048;

// [host, port, id, [name, value, ...]]. A node leaves out a host that it does not know, or says
// "?".
std::optional<HostAndPort> ReadNode(const Reply& node, const HostAndPort& asked) {
  if (node.elements.size() < 2) return std::nullopt;
  const int64_t port = node.elements[1].integer;
  if (port < 1 || port > 65535) return std::nullopt;
  std::string host = node.elements[0].text;
  if (host == "?" && node.elements.size() > 3) host = ValueOf(node.elements[3], "ip");
  if (host.empty() || host == "?") host = asked.host;
  if (!IsHost(host)) return std::nullopt;
  return HostAndPort{.host = std::move(host), .port = static_cast<uint16_t>(port)};
}

// [first, last, primary, replica, ...]. False: it makes no sense.
bool AddRange(const Reply& range, const HostAndPort& asked, ClusterView& view) {
  if (range.elements.size() < 3) return false;
  const int64_t first = range.elements[0].integer;
  const int64_t last = range.elements[1].integer;
  if (first < 0 || last < first || last >= kSlots) return false;
  SlotRange read{.first = static_cast<Slot>(first), .last = static_cast<Slot>(last)};
  for (size_t i = 2; i < range.elements.size(); ++i) {
    const Reply& each = range.elements[i];
    if (each.elements.size() > 2) view.ids.insert(each.elements[2].text);
    const std::optional<HostAndPort> node = ReadNode(each, asked);
    if (node) view.members.insert(*node);
    if (i == 2 && !node) return false;
    if (i == 2) read.primary = *node;
    if (i > 2 && node) read.replicas.push_back(*node);
  }
  view.ranges.push_back(std::move(read));
  return true;
}

// CLUSTER SHARDS also names nodes without slots, to which a slot may be moving. Without that
// command, or the right to it, only the others are known.
void AddMembers(const Reply& shards, const Url& url, const HostAndPort& asked, ClusterView& view) {
  for (const Reply& shard : shards.elements) {
    if (shard.elements.size() < 4) continue;
    for (const Reply& node : shard.elements[3].elements) {
      Reply port;
      for (size_t i = 0; i + 1 < node.elements.size(); i += 2) {
        const bool tls = node.elements[i].text == "tls-port";
        if (tls ? url.tls != nullptr : node.elements[i].text == "port") port = node.elements[i + 1];
      }
      const Reply words{.elements = {Reply{.text = std::string(ValueOf(node, "endpoint"))}, port}};
      const auto member = ReadNode(words, asked);
      if (member && view.members.size() < kMostNodes) view.members.insert(*member);
    }
  }
}

}  // namespace

absl::StatusOr<ClusterView> ReadView(const Reply& slots, const Reply& info,
                                     const HostAndPort& asked) {
  if (slots.is_error()) return ErrorStatus(slots.text, asked.text());
  ClusterView view;
  for (const Reply& each : slots.elements) {
    if (!AddRange(each, asked, view)) {
      return absl::UnavailableError(
          absl::StrCat(asked.text(), " answered ", each.DebugString(), " to CLUSTER SLOTS"));
    }
  }
  if (view.members.size() > kMostNodes) {
    return absl::UnavailableError(
        absl::StrCat(asked.text(), " names more than ", kMostNodes, " nodes of its cluster"));
  }
  if (info.is_error()) return ErrorStatus(info.text, asked.text());
  view.well = InfoField(info.text, "cluster_state") == "ok";
  base::ReadNumber(InfoField(info.text, "cluster_current_epoch"), view.epoch);
  return view;
}

Url UrlOfNode(const Url& url, const HostAndPort& node) {
  HostAndPort reached = node;
  for (const auto& [announced, its] : url.mapped) {
    if (announced == node) reached = its;
  }
  Url one = UrlTowards(url, reached);
  one.in_cluster = true;
  return one;
}

absl::StatusOr<ClusterView> AskForView(const Url& url, const HostAndPort& node,
                                       base::Instant deadline) {
  auto connection = PlainConnection::Open(UrlOfNode(url, node), deadline);
  if (!connection.ok()) return connection.status();
  const Command questions[] = {Command({"CLUSTER", "SLOTS"}), Command({"CLUSTER", "INFO"}),
                               Command({"CLUSTER", "SHARDS"})};
  auto answers = connection->CallAll(questions, deadline);
  if (!answers.ok()) return answers.status();
  for (const Reply& answer : absl::MakeConstSpan(*answers).first(2)) {
    if (!answer.is_error() || ClassifyError(answer.text) != ErrorCode::kNoPermission) continue;
    return absl::PermissionDeniedError(
        absl::StrCat(node.text(), " answered: ", answer.text, " (grant it: ACL SETUSER ",
                     url.user.empty() ? "default" : url.user, " +cluster|slots +cluster|info)"));
  }
  auto view = ReadView((*answers)[0], (*answers)[1], node);
  if (view.ok()) AddMembers((*answers)[2], url, node, *view);
  if (view.ok() && view->ranges.empty()) {
    return absl::UnavailableError(absl::StrCat(node.text(), " knows of no node that serves slots"));
  }
  return view;
}

}  // namespace redlatch::redis
