#include "src/redis/connect/needs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace redlatch::redis {
namespace {

// Each with all the arguments that it takes: a server may crash that is asked about less
// (Redis 7.0, of EVAL). @ is a key, & a channel.
constexpr absl::string_view kNeeds =
    "eval x 0;evalsha x 0;ping;time;"
    "get @;getrange @ 0 0;set @ x;setrange @ 0 x;psetex @ 1 x;del @;unlink @;rename @ @;exists @;"
    "pexpire @ 1;pexpireat @ 1;pttl @;hget @ f;hset @ f v;hsetnx @ f v;hdel @ f;hexists @ f;"
    "hgetall @;hkeys @;hmget @ f;hincrby @ f 1;zadd @ 1 m;zrem @ m;zremrangebyrank @ 0 0;zcard @;"
    "zcount @ 0 0;zrange @ 0 0;zrangebyscore @ 0 0;zrank @ m;zscore @ m";
constexpr absl::string_view kMessages = "publish & x;subscribe &;unsubscribe &;pubsub|numsub &;";
constexpr absl::string_view kShardedMessages =
    "spublish & x;ssubscribe &;sunsubscribe &;pubsub|shardnumsub "
    "&;asking;cluster|slots;cluster|info;";
constexpr std::string_view kKey = "redlatch:probe";
constexpr std::string_view kChannels = "redlatch:*";

// First those that the server does not know under that name, which rename-command may have taken
// away. None is executed: each has a word too few or too many. Then what this user may not do: that
// is tried, and refused, since only the refusal tells a command from a key.
constexpr std::string_view kProbe = R"(
local unknown, denied = {}, {}
local shard = ARGV[4]
for _, call in ipairs({{'TIME', ''}, {shard .. 'PUBLISH'}, {'PUBSUB'}, {shard .. 'SUBSCRIBE'}}) do
  local answer = redis.pcall(unpack(call))
  if answer.err and string.find(answer.err, 'nknown') then unknown[#unknown + 1] = call[1] end
end
if not redis.acl_check_cmd then return {unknown, denied} end
local key_denied, channel_denied = false, false
for line in string.gmatch(ARGV[1], '[^;]+') do
  local name, words, keyed = nil, {}, false
  for word in string.gmatch(line, '%S+') do
    if not name then
      name = word
      for part in string.gmatch(word, '[^|]+') do words[#words + 1] = part end
    else
      keyed = keyed or word == '@'
      words[#words + 1] = word == '@' and ARGV[2] or word == '&' and ARGV[3] or word
    end
  end
  if not (keyed and key_denied) and not (string.find(name, '^s?subscribe') and channel_denied) then
    local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
    if known and not allowed then
      local answer = redis.pcall(unpack(words))
      local said = type(answer) == 'table' and answer.err or ''
      if string.find(said, 'to run ') or string.find(said, 'run this command') then
        denied[#denied + 1] = '+' .. name
      elseif string.find(said, 'channel') then
        channel_denied = true
        denied[#denied + 1] = '&' .. ARGV[3]
      elseif string.find(said, 'access') then
        key_denied = true
      else
        denied[#denied + 1] = '+' .. name
      end
    end
  end
end
return {unknown, denied})";

std::string Needs(bool in_cluster) {
  return absl::StrCat(in_cluster ? kShardedMessages : kMessages, kNeeds);
}

std::vector<std::string> TextsOf(const Reply& list) {
  std::vector<std::string> texts;
  for (const Reply& each : list.elements) texts.push_back(each.text);
  return texts;
}

absl::Status Lacks(std::string_view server, std::string_view user, const std::string& rules) {
  const std::string who(user.empty() ? "default" : user);
  return absl::PermissionDeniedError(
      absl::StrCat(std::string(server), " does not permit user ", who,
                   " all that locks need (grant it: ACL SETUSER ", who, " ", rules, ")"));
}

}  // namespace

std::vector<std::string> NeededCommands(bool in_cluster) {
  std::vector<std::string> names;
  const std::string needs = Needs(in_cluster);
  for (const absl::string_view need : absl::StrSplit(needs, ';')) {
    names.emplace_back(need.substr(0, need.find(' ')));
  }
  return names;
}

Command NeedsProbe(bool in_cluster) {
  return {"EVAL", kProbe, "0", Needs(in_cluster), kKey, kChannels, in_cluster ? "S" : ""};
}

absl::Status CheckNeeds(const Reply& reply, std::string_view server, std::string_view user,
                        bool in_cluster) {
  // It could not be asked for the channels. Who has all of them can't be given some.
  const std::string and_channels =
      absl::StrCat("; and &", std::string(kChannels), " if it has not all channels");
  if (reply.is_error()) {
    return Lacks(server, user,
                 absl::StrCat("+", absl::StrJoin(NeededCommands(in_cluster), " +"), and_channels));
  }
  if (reply.elements.size() != 2) return absl::OkStatus();  // its Lua is another
  const std::vector<std::string> unknown = TextsOf(reply.elements[0]);
  if (!unknown.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(std::string(server), " does not know ", absl::StrJoin(unknown, ", "),
                     ", which locks need under that name (remove its rename-command line from the "
                     "server's configuration)"));
  }
  const std::vector<std::string> denied = TextsOf(reply.elements[1]);
  if (denied.empty()) return absl::OkStatus();
  const bool channels_unknown = std::any_of(
      denied.begin(), denied.end(),
      [](const std::string& rule) { return rule == "+publish" || rule == "+spublish"; });
  return Lacks(server, user,
               absl::StrCat(absl::StrJoin(denied, " "), channels_unknown ? and_channels : ""));
}

}  // namespace redlatch::redis
