#include "src/redis/url/quorum_url.h"

#include <algorithm>
#include <utility>

#include "src/redis/url/url.h"
#include "src/redis/url/url_parts.h"

namespace redlatch::redis {

namespace {

// A comma is followed by a server's scheme, or is a URL's own.
std::vector<std::string> SplitUrls(std::string_view text) {
  std::vector<std::string> members;
  while (!text.empty()) {
    size_t end = text.find(',');
    while (end != std::string_view::npos && !BeginsWithScheme(text.substr(end + 1))) {
      end = text.find(',', end + 1);
    }
    members.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return members;
}

}  // namespace

absl::StatusOr<Url> ParseQuorum(std::string_view text) {
  std::vector<Url> members;
  for (const std::string& each : SplitUrls(text)) {
    absl::StatusOr<Url> member = ParseUrl(each);
    if (!member.ok()) return member.status();
    members.push_back(*std::move(member));
  }
  return QuorumOf(std::move(members));
}

std::vector<std::string> MembersOf(std::string_view quorum) {
  return SplitUrls(quorum.substr(quorum.find(':') + 1));
}

std::string AsQuorum(std::string_view member) {
  return std::string(kQuorumScheme).append(":").append(member);
}

absl::StatusOr<Url> QuorumOf(std::vector<Url> members) {
  constexpr size_t kMostMembers = 64;
  if (members.empty() || members.size() > kMostMembers) {
    return InvalidUrl(
        {"a quorum has 1 to 64 servers; write, for example, "
         "redlock:redis://a,redis://b,redis://c"});
  }
  Url url;
  url.kind = Url::Kind::kQuorum;
  url.restart_delay = members.front().restart_delay;
  url.client_name = members.front().client_name;
  url.command_timeout = url.connect_timeout = absl::ZeroDuration();
  for (const Url& member : members) {
    if (member.kind == Url::Kind::kQuorum) {
      return InvalidUrl({"a quorum's server is a quorum; name the servers themselves"});
    }
    if (member.restart_delay != url.restart_delay) {
      return InvalidUrl(
          {"the option restart_delay differs between servers of a quorum; say the "
           "same for each"});
    }
    if (member.quarantine > absl::ZeroDuration()) {
      return InvalidUrl({"the option quarantine is not for servers of a quorum; restart_delay is"});
    }
    const auto same = std::count_if(members.begin(), members.end(), [&](const Url& other) {
      return other.DebugString() == member.DebugString();
    });
    if (same > 1) {
      return InvalidUrl({member.DebugString(), " is in the quorum twice; name each server once"});
    }
    url.command_timeout = std::max(url.command_timeout, member.command_timeout);
    url.connect_timeout = std::max(url.connect_timeout, member.connect_timeout);
  }
  url.members = std::move(members);
  return url;
}

}  // namespace redlatch::redis
