// The contract of lua/README.md: requests as keys and arguments of scripts, and replies and
// messages as values.
#ifndef REDLATCH_SRC_LOCK_SCRIPT_CODEC_H_
#define REDLATCH_SRC_LOCK_SCRIPT_CODEC_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "redlatch/lock_info.h"
#include "src/base/short_text.h"
#include "src/lock/lock_type.h"
#include "src/lock/state/request.h"
#include "src/redis/link/script_runner.h"
#include "src/redis/server_group/server_group.h"
#include "src/redis/wire/codec.h"

namespace redlatch::internal {

// The client, as all of its scripts name it.
struct Identity {
  std::string client;  // 32 hex digits
};
Identity NewIdentity();
// Grants are published to a client on a channel of this prefix, then perhaps a tag (see
// ServerGroup::slot_tag()), then the client.
inline constexpr std::string_view kChannelPrefix = "redlatch:";

// The lock that a request is about. All of it outlives the request.
struct Subject {
  const Identity& identity;
  const KeySet& keys;
  const LockType& type;
  std::string_view owner;  // of holds, as the server knows it
  // How long a handover by message makes it the owner, if its lease is longer.
  absl::Duration claim = absl::InfiniteDuration();
  absl::Duration brief_claim = absl::ZeroDuration();  // at least, in place of `claim`
  bool listens = false;  // this client listens on the channel of a Redisson lock
  // Tells where channels are, and whose server this is. Null if channels do not depend on the
  // server.
  redis::ServerGroup* server_group = nullptr;
  // If the lock type is Quarantined(): how long nothing is granted after a promotion. See
  // lua/common/quarantine.lua.
  absl::Duration quarantine = absl::ZeroDuration();
};

// The keys and arguments of one script call as text.
class EncodedRequest {
 public:
  EncodedRequest(const Subject& subject, const Request& request);
  // The result is valid until this object is moved or destroyed.
  redis::ScriptCall call();
  // The key of that grant's tombstone, or Redisson's latch of its release.
  static std::string Tombstone(const Subject& subject, GrantId grant);

 private:
  class Piece;
  void Put(std::initializer_list<Piece> pieces);
  void PutKey(const KeySet& keys, std::string_view suffix);
  void PutKeys(const LockType& type, const KeySet& keys);
  void PutGrant(const Subject& subject, GrantId grant);
  bool PutNative(const Subject& subject, const Request& request);
  void PutAcquire(const Subject& subject, const AcquireRequest& acquire);
  void PutEnding(const ReleaseRequest& release, int64_t tombstone);
  void PutTombstones(const Subject& subject, absl::Span<const GrantId> grants);
  void PutRedisson(const Subject& subject, uint32_t permits);

  const LuaScript* script_ = nullptr;
  redis::Native native_ = redis::Native::kNo;
  size_t key_count_ = 0;
  base::ShortText<1024> text_;                // all words, one after the other
  absl::InlinedVector<uint32_t, 24> starts_;  // of each word in `text_`
  absl::InlinedVector<std::string_view, 24> words_;
};

Result ReadResult(const Request& request, const absl::StatusOr<redis::Reply>& reply);
absl::StatusOr<LockInfo> ReadInspection(const redis::Reply& reply);
// The reply of a script that may need several calls: as in Result, and the argument of the next
// call.
struct Part {
  bool unfinished = false;
  absl::Duration check_after = absl::ZeroDuration();
  std::string next = "more";
};
Part ReadPart(const redis::Reply& reply);

// A message on the client's channel, about the lock whose main key is `key`.
struct Message {
  enum class Kind : uint8_t { kGrant, kForced, kAskAgain, kVote, kRecall, kTried };
  Kind kind = Kind::kGrant;
  NewGrant news;  // for other kinds than kGrant, only `grant` is set
  std::string_view key;
};
// Returns nothing if the message is not one of redlatch.
std::optional<Message> ReadMessage(const Identity& identity, std::string_view text);

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_SCRIPT_CODEC_H_
