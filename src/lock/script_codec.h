// The contract of lua/README.md: what the machine asks, as keys and arguments of a script, and what
// a script or a message says, as values.
#ifndef REDLATCH_SRC_LOCK_SCRIPT_CODEC_H_
#define REDLATCH_SRC_LOCK_SCRIPT_CODEC_H_

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

// Who asks: the part of arguments that is the same for all scripts of a client.
struct Identity {
  std::string client;  // 32 hex digits
};
Identity NewIdentity();
// Grants are published to a client on a channel that is called so, and then, perhaps with a tag
// before it (ServerGroup::slot_tag()), as the client is.
inline constexpr std::string_view kChannelPrefix = "redlatch:";

// The lock that is asked for. All of it outlives the request.
struct Subject {
  const Identity& identity;
  const KeySet& keys;
  const LockType& type;
  std::string_view owner;  // of holds, as the server knows it
  // For how long a hand-over by message makes it the owner, if its lease is longer.
  absl::Duration claim = absl::InfiniteDuration();
  // Knows where channels are, and whose server this is; null: channels have no place of their own.
  redis::ServerGroup* server_group = nullptr;
  // Of a plan that is Quarantined(), so that nothing is granted too soon after a promotion: see
  // lua/common/quarantine.lua.
  absl::Duration quarantine = absl::ZeroDuration();
};

// One script call with the text of its keys and arguments.
class EncodedRequest {
 public:
  EncodedRequest(const Subject& subject, const Request& request);
  // Of a script that is no part of anybody's hold, and that may have a key of its own. It outlives
  // the request.
  EncodedRequest(const Subject& subject, const LuaScript& script,
                 absl::Span<const std::string> args, std::string_view own_key = {});

  // Valid as long as this object is neither moved nor destroyed.
  redis::ScriptCall call();

 private:
  void Ask(const Subject& subject, const Request& request, const AcquireRequest& what);
  void Ask(const Subject& subject, const Request& request, const RenewRequest& what);
  void Ask(const Subject& subject, const Request& request, const ReleaseRequest& what);
  void Ask(const Subject& subject, const Request& request, const CancelRequest& what);
  void Ask(const Subject& subject, const Request& request, const ScriptRequest& what);
  void Keys(const LockType& type, const KeySet& keys);
  void Gone(const Subject& subject, GrantId grant);
  void ExtraKeys(const Subject& subject, bool quarantined);
  void PutPrimaryEpoch(const Subject& subject);
  void PutAcquire(const Subject& subject, const AcquireRequest& acquire);
  void Begin() { starts_.push_back(static_cast<uint32_t>(text_.size())); }
  // To the word that is begun.
  template <class... Pieces>
  void Add(const Pieces&... pieces);
  void Put(std::string_view value);
  void PutKey(const KeySet& keys, std::string_view suffix);
  void PutNumber(int64_t value);
  void PutMillis(absl::Duration value);
  void PutHold(const Subject& subject, GrantId grant);
  void AddChannel(const Subject& subject);

  const LuaScript* script_ = nullptr;
  size_t key_count_ = 0;
  base::ShortText<1024> text_;                // all words, one after the other
  absl::InlinedVector<uint32_t, 24> starts_;  // of each word in it
  absl::InlinedVector<std::string_view, 24> words_;
};

Result ReadResult(const Request& request, const absl::StatusOr<redis::Reply>& reply);
absl::StatusOr<LockInfo> ReadInspection(const redis::Reply& reply);
// Of a forced release, or of another script for people whose work may take several calls: the look
// that it asks for, a millisecond to be called again at once, and what to say then.
struct Part {
  absl::Duration check_after = absl::ZeroDuration();
  std::string next = "more";
};
Part ReadPart(const redis::Reply& reply);

// A message on the client's channel, for the lock whose main key is `key`.
struct Message {
  enum class Kind : uint8_t { kGrant, kForced, kAskAgain, kWanted, kTried };
  Kind kind = Kind::kGrant;
  NewGrant news;  // but for kGrant, its `grant` alone
  std::string_view key;
};
// Nothing where the message is none of ours.
std::optional<Message> ReadMessage(const Identity& identity, std::string_view text);

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_SCRIPT_CODEC_H_
