#include "src/lock/script_codec.h"

#include <algorithm>
#include <charconv>
#include <concepts>
#include <iterator>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lua/scripts.h"
#include "src/base/random.h"
#include "src/base/status.h"
#include "src/base/words.h"
#include "src/lock/state/timing.h"
#include "src/redis/wire/errors.h"

namespace redlatch::internal {
namespace {

// Rounds up to whole milliseconds: a lease is never shorter at the server than here.
int64_t Millis(absl::Duration value) {
  constexpr int64_t kNanos = 1'000'000;
  const int64_t nanos = absl::ToInt64Nanoseconds(value);
  return nanos / kNanos + (nanos % kNanos > 0 ? 1 : 0);
}

// Returns true if the owner is not the client itself.
bool IsExplicit(const Subject& subject) { return subject.owner != subject.identity.client; }

std::string SlotTag(const Subject& subject) {
  return subject.server_group == nullptr ? "" : subject.server_group->slot_tag(subject.keys.main());
}

uint64_t NumberOf(GrantId grant) { return grant & ~(kCacheable | kNative); }

bool IsByNativeCommand(const Request& request) {
  if (std::holds_alternative<AcquireRequest>(request.what)) return IsNative(request.grant);
  const auto* const release = std::get_if<ReleaseRequest>(&request.what);
  return release != nullptr && release->native;
}

}  // namespace

Identity NewIdentity() {
  Identity identity;
  identity.client = base::RandomHex();
  return identity;
}

// A text or a number.
class EncodedRequest::Piece {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  template <std::convertible_to<std::string_view> Text>
  Piece(const Text& text) : text_(text) {}
  template <std::integral Number>
  Piece(Number number) : text_(digits_, std::to_chars(digits_, std::end(digits_), number).ptr) {}
  // NOLINTEND(google-explicit-constructor)
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;
  std::string_view text() const { return text_; }

 private:
  char digits_[20];
  std::string_view text_;
};

// Puts one word.
void EncodedRequest::Put(std::initializer_list<Piece> pieces) {
  starts_.push_back(static_cast<uint32_t>(text_.size()));
  for (const Piece& piece : pieces) text_.append(piece.text());
}

void EncodedRequest::PutKey(const KeySet& keys, std::string_view suffix) {
  const auto [stem, middle, end] = keys.Parts(suffix);
  Put({stem, middle, end});
}

void EncodedRequest::PutKeys(const LockType& type, const KeySet& keys) {
  Put({keys.main()});
  PutKey(keys, type.keys.queue);
  PutKey(keys, type.keys.waiters);
  PutKey(keys, type.keys.fence);
}

void EncodedRequest::PutGrant(const Subject& subject, GrantId grant) {
  Put({subject.identity.client, ":", NumberOf(grant),
       IsCacheable(grant) ? "k"
       : IsNative(grant)  ? "n"
                          : ""});
}

std::string EncodedRequest::Tombstone(const Subject& subject, GrantId grant) {
  const std::string key = AuxiliaryKey(subject.keys.main(), subject.type.keys.gone);
  const std::string& client = subject.identity.client;
  if (!subject.type.redisson()) return absl::StrCat(key, client, ".", NumberOf(grant));
  // The id of an unlock request has 32 hex digits.
  return absl::StrCat(key, ":", client.substr(0, 16), absl::Hex(NumberOf(grant), absl::kZeroPad16));
}

// Puts the key and the arguments of a native command. Returns false if the request needs a script.
bool EncodedRequest::PutNative(const Subject& subject, const Request& request) {
  if (!IsByNativeCommand(request)) return false;
  const bool acquires = request.acquire() != nullptr;
  native_ = acquires ? redis::Native::kSetIfNone : redis::Native::kDeleteIfEqual;
  script_ = acquires ? nullptr : &lua::kSimpleReleaseNatively;
  key_count_ = 1;
  Put({subject.keys.main()});
  PutGrant(subject, request.grant);
  if (acquires) Put({Millis(NativeClaim(request.acquire()->terms))});
  return true;
}

void EncodedRequest::PutAcquire(const Subject& subject, const AcquireRequest& acquire) {
  const LockType& type = subject.type;
  const Terms& terms = acquire.terms;
  const absl::Duration length =
      acquire.is_brief() ? std::min(subject.claim, std::max(absl::Milliseconds(acquire.claim_ms),
                                                            subject.brief_claim))
                         : subject.claim;
  // The client leaves 1 % of a margin unused, too, which may be more than a claim.
  const absl::Duration claim = std::min(terms.lease, length + Scaled(terms.margin.get(), 101, 100));
  const std::string_view waits = type.others.empty() ? " 1 " : " 2 ";
  const std::string_view tries = acquire.recalls ? " 3 " : " 0 ";
  PutGrant(subject, acquire.grant);
  Put({Millis(acquire.is_brief() ? claim : terms.first_lease())});
  Put({acquire.amount, " ", acquire.attempt, acquire.wait ? waits : tries,
       Millis(HeartbeatInterval(terms.lease, type.traits.longest_heartbeat)),
       terms.manual ? " 1 " : " 0 ", acquire.ticket, " ", Millis(claim),
       acquire.listen ? " 1 " : " 0 ", kChannelPrefix, SlotTag(subject), subject.identity.client});
  const bool counted = type.use == GrantUse::kPermit;
  const bool more = !type.extra_args.empty() || terms.args != nullptr;
  if (counted || IsExplicit(subject) || more) Put({subject.owner});
  if (counted) Put({terms.capacity});
  if (acquire.counted.counts > 0) Put({acquire.counted.counts, " ", acquire.counted.last});
  for (const std::string& arg : type.extra_args) {
    if (!type.redisson()) Put({arg});
  }
  if (terms.args == nullptr) return;
  for (const std::string& arg : *terms.args) Put({arg});
}

// `tombstone`: how long it lives, in ms.
void EncodedRequest::PutEnding(const ReleaseRequest& release, int64_t tombstone) {
  if (release.taken_until == 0) {
    return Put({release.last_used, " ", release.last_reserved, " ", tombstone});
  }
  Put({release.last_used, " ", release.last_reserved, " ", tombstone, " ", release.taken_until, " ",
       Millis(release.taken_for)});
}

void EncodedRequest::PutRedisson(const Subject& subject, uint32_t permits) {
  std::string_view of_class;
  if (!subject.type.extra_args.empty()) of_class = subject.type.extra_args.front();
  Put({subject.listens ? "1 " : "0 ", permits, " ", of_class});
}

void EncodedRequest::PutTombstones(const Subject& subject, absl::Span<const GrantId> grants) {
  for (const GrantId grant : grants) {
    if (subject.type.redisson()) {
      Put({Tombstone(subject, grant)});
      continue;
    }
    const auto [stem, gone, none] = subject.keys.Parts(subject.type.keys.gone);
    Put({stem, gone, subject.identity.client, ".", NumberOf(grant)});
  }
}

EncodedRequest::EncodedRequest(const Subject& subject, const Request& request) {
  if (PutNative(subject, request)) return;
  const LockType& type = subject.type;
  const LockScripts& scripts = type.scripts;
  const auto* const acquire = std::get_if<AcquireRequest>(&request.what);
  const auto* const renew = std::get_if<RenewRequest>(&request.what);
  const auto* const release = std::get_if<ReleaseRequest>(&request.what);
  const auto* const cancel = std::get_if<CancelRequest>(&request.what);
  const auto* const script = std::get_if<ScriptRequest>(&request.what);
  script_ = acquire != nullptr   ? &scripts.acquire
            : renew != nullptr   ? &scripts.renew
            : release != nullptr ? &scripts.release
            : cancel != nullptr  ? &scripts.cancel
                                 : script->script;
  // Most releases say only which grant ends.
  const bool more = release != nullptr &&
                    (type.redisson() || release->next || release->tombstone ||
                     release->taken_until != 0 || release->last_used != release->last_reserved ||
                     (type.use != GrantUse::kShared && IsExplicit(subject)));
  const bool quarantined = type.quarantined && renew == nullptr &&
                           (script == nullptr || script_ == &scripts.force_release);

  PutKeys(type, subject.keys);
  if (script != nullptr && !script->own_key.empty()) PutKey(subject.keys, script->own_key);
  const GrantId tombstones[] = {request.grant,
                                more && release->next ? release->next->grant : request.grant};
  const size_t few = acquire != nullptr || cancel != nullptr ? 1 : 0;
  PutTombstones(subject, absl::MakeConstSpan(tombstones, more ? 2 : few));
  for (const std::string& suffix : type.keys.extras) PutKey(subject.keys, suffix);
  for (const KeySet& other : type.others) PutKeys(type, other);
  if (quarantined) Put({PrimaryEpochKey(SlotTag(subject))});
  key_count_ = starts_.size();

  if (acquire != nullptr) {
    PutAcquire(subject, *acquire);
  } else if (script != nullptr) {
    for (const std::string& arg : script->args) Put({arg});
  } else {
    PutGrant(subject, request.grant);
  }
  if (renew != nullptr) Put({Millis(request.lease)});
  if (renew != nullptr && IsCacheable(request.grant)) {
    Put({kChannelPrefix, SlotTag(subject), subject.identity.client});
    renew->last_token > 0 ? Put({renew->last_token}) : Put({"-1"});
  }
  if (renew != nullptr && renew->draws_token) Put({"token"});
  const int64_t tombstone = request.leaves_tombstone() ? Millis(request.lease) : 0;
  if (more) PutEnding(*release, tombstone);
  if (more) Put({subject.owner});
  if (more && release->next) PutAcquire(subject, *release->next);
  if (cancel != nullptr) Put({tombstone});
  if (cancel != nullptr) Put({cancel->amount});
  if (type.redisson()) {
    PutRedisson(subject, acquire != nullptr ? acquire->amount : request.permits);
  }
  if (!quarantined) return;
  Put({subject.server_group->PrimaryEpoch(subject.keys.main())});
  Put({Millis(subject.quarantine)});
}

redis::ScriptCall EncodedRequest::call() {
  words_.clear();
  for (size_t i = 0; i < starts_.size(); ++i) {
    const size_t end = i + 1 < starts_.size() ? size_t{starts_[i + 1]} : text_.size();
    words_.push_back(text_.view().substr(starts_[i], end - starts_[i]));
  }
  const auto words = absl::MakeConstSpan(words_);
  return {.script = script_,
          .keys = words.subspan(0, key_count_),
          .args = words.subspan(key_count_),
          .native = native_};
}

// ---- Results and messages.

namespace {

constexpr uint64_t kLargestToken = 9'000'000'000'000'000;  // see lua/common/read_fence.lua

using base::ReadNumber;
using base::TakeNumber;
using base::TakeWord;
using redis::Reply;

bool ReadMillis(std::string_view text, absl::Duration& duration) {
  int64_t millis = 0;
  if (!ReadNumber(text, millis)) return false;
  duration = absl::Milliseconds(millis);
  return true;
}

// Takes the next word if it begins like a number.
template <class Number>
bool TakeAnyNumber(std::string_view& text, Number& number) {
  const char first = text.empty() ? ' ' : text.front();
  const bool any = ('0' <= first && first <= '9') || first == '-';
  return !any || TakeNumber(text, number);
}

bool ReadAcquire(std::string_view& text, AcquireResult& acquire) {
  const std::string_view word = TakeWord(text);
  if (word == "granted") {
    auto& granted = acquire.emplace<AcquireGranted>();
    return TakeNumber(text, granted.token) && ReadMillis(TakeWord(text), granted.lease) &&
           TakeNumber(text, granted.others) && TakeAnyNumber(text, granted.clock);
  }
  if (word == "queued") {
    auto& queued = acquire.emplace<AcquireQueued>();
    return ReadMillis(TakeWord(text), queued.retry_after) && TakeNumber(text, queued.position) &&
           TakeNumber(text, queued.ticket);
  }
  if (word == "busy") {
    int64_t millis = 0;
    static_cast<void>(TakeAnyNumber(text, millis));  // only a quorum needs it
    acquire = AcquireBusy{.retry_after = absl::Milliseconds(millis)};
    return true;
  }
  acquire = AcquireCancelled();
  return word == "gone";
}

// On the wire, a check after 1 ms means that the script is unfinished.
template <class ResultOrPart>
void AddCheck(absl::Duration after, ResultOrPart& to) {
  if (after == absl::Milliseconds(1)) {
    to.unfinished = true;
  } else {
    to.check_after = std::max(to.check_after, after);
  }
}

// Reads the end of a reply. Unknown words come from a later version, and are only for those who ask
// for them.
bool ReadNotes(std::string_view text, Result& result) {
  while (!text.empty()) {
    const std::string_view word = TakeWord(text);
    if (word == "look") {
      absl::Duration after;
      if (!ReadMillis(TakeWord(text), after)) return false;
      AddCheck(after, result);
    }
    if (word == "told") {
      LatchCounts told;
      if (!TakeNumber(text, told.counts) || !TakeNumber(text, told.last)) return false;
      auto* const acquire = std::get_if<AcquireResult>(&result.what);
      auto* const queued = acquire != nullptr ? std::get_if<AcquireQueued>(acquire) : nullptr;
      if (queued != nullptr) queued->counted = told;
    }
    result.unsubscribed |= word == "deaf";
    result.missed |= word == "missed";
  }
  return true;
}

// Reads the part of a reply before the notes.
bool ReadWords(const Request& request, std::string_view& text, Result& result) {
  const auto& what = request.what;
  if (std::holds_alternative<AcquireRequest>(what)) {
    return ReadAcquire(text, result.what.emplace<AcquireResult>());
  }
  if (std::holds_alternative<ScriptRequest>(what)) {
    result.what = ScriptText{std::string(std::exchange(text, {}))};
    return true;
  }
  const std::string_view word = TakeWord(text);
  if (std::holds_alternative<CancelRequest>(what)) {
    result.what = Cancelled{.was_held = word == "passed_on"};
    return word == "left" || word == "passed_on" || word == "unknown";
  }
  if (word == "not_held") {
    result.what = NotHeld();
    return true;
  }
  if (std::holds_alternative<RenewRequest>(what)) {
    auto& held = result.what.emplace<StillHeld>();
    if (word != "held" || text.empty()) return word == "held";
    return TakeNumber(text, held.others) && TakeAnyNumber(text, held.last_token);
  }
  auto& freed = result.what.emplace<Freed>();
  const bool acquire = !text.empty() && !text.starts_with("look ");
  return word == "released" && (!acquire || ReadAcquire(text, freed.next));
}

bool TakeHold(const Identity& identity, std::string_view& text, GrantId& grant) {
  std::string_view word = TakeWord(text);
  const bool cacheable = word.ends_with('k');
  const bool native = word.ends_with('n') || word.ends_with('w');  // `w`: a flagged value
  if (cacheable || native) word.remove_suffix(1);
  const size_t colon = identity.client.size();
  const bool good = word.size() > colon && word.substr(0, colon) == identity.client &&
                    word[colon] == ':' && ReadNumber(word.substr(colon + 1), grant);
  if (cacheable) grant |= kCacheable;
  if (native) grant |= kNative;
  return good;
}

// Reads a time in microseconds of the server's clock; other texts give the infinite past.
absl::Time ReadSince(std::string_view text) {
  int64_t micros = 0;
  return ReadNumber(text, micros) && micros > 0 ? absl::FromUnixMicros(micros)
                                                : absl::InfinitePast();
}

// When a waiter came, read from its ticket. The ticket is the time or, if the lock reorders its
// waiters, a number that is equal to the time modulo 10^15 us.
absl::Time ReadArrival(std::string_view ticket, absl::Time now) {
  constexpr int64_t kModulus = 1'000'000'000'000'000;
  // the server's clock may differ
  const int64_t latest = absl::ToUnixMicros(now + absl::Hours(24));
  int64_t micros = 0;
  if (!ReadNumber(ticket, micros) || micros <= 0) return absl::InfinitePast();
  const int64_t back = (latest - micros) % kModulus;
  return absl::FromUnixMicros(latest - (back < 0 ? back + kModulus : back));
}

bool ReadParty(const Reply& reply, bool holder, LockInfo::Party& party) {
  if (reply.elements.size() < 3) return false;
  party.hold = reply.elements[0].text;
  party.owner = reply.elements[1].text;
  if (reply.elements.size() > 3) party.permits = reply.elements[3].integer;
  if (!holder) {
    party.since = ReadArrival(reply.elements[2].text, absl::Now());
    return true;
  }
  if (reply.elements.size() > 4) party.since = ReadSince(reply.elements[4].text);
  party.remaining = absl::Milliseconds(reply.elements[2].integer);
  if (party.remaining < absl::ZeroDuration()) party.remaining = absl::InfiniteDuration();
  return true;
}

// Reads the reply to a native command. If the server refused it, the script follows, whose reply
// says why.
void ReadNative(const Request& request, const Reply& reply, Result& result) {
  const redis::ErrorCode code =
      reply.is_error() ? redis::ClassifyError(reply.text) : redis::ErrorCode::kOther;
  result.no_native = code == redis::ErrorCode::kUnknownCommand ||
                     (code == redis::ErrorCode::kNoPermission && !redis::DeniesKey(reply.text));
  if (request.acquire() == nullptr) {
    result.what = NotHeld();
    if (reply.integer == 1) result.what = Freed();
  } else if (reply.type == Reply::Type::kStatus) {
    result.what = AcquireResult(AcquireGranted{.lease = NativeClaim(request.acquire()->terms)});
  } else {
    result.what = AcquireResult(AcquireTaken());
  }
}

}  // namespace

Result ReadResult(const Request& request, const absl::StatusOr<Reply>& reply) {
  Result result;
  if (!reply.ok()) {
    result.what = Failed{.why = base::WithoutPayloads(reply.status()),
                         .may_have_executed = redis::MayHaveExecuted(reply.status()),
                         .not_sent = redis::NotSent(reply.status())};
    result.no_native = IsByNativeCommand(request) && !result.failed()->may_have_executed &&
                       !result.unreachable() && !absl::IsResourceExhausted(result.failed()->why);
    return result;
  }
  if (IsByNativeCommand(request)) {
    ReadNative(request, *reply, result);
    return result;
  }
  std::string_view text = reply->text;
  if (ReadWords(request, text, result) && ReadNotes(text, result)) return result;
  result = {};
  result.what = Failed{.why = absl::InternalError(absl::StrCat(
                           "a script's reply violates its contract: ", reply->DebugString())),
                       .may_have_executed = true};
  return result;
}

Part ReadPart(const Reply& reply) {
  Part part;
  if (reply.elements.size() < 2 || reply.elements[1].type != Reply::Type::kInteger) return part;
  AddCheck(absl::Milliseconds(reply.elements[1].integer), part);
  if (reply.elements[0].text.starts_with(part.next)) part.next = reply.elements[0].text;
  return part;
}

absl::StatusOr<LockInfo> ReadInspection(const Reply& reply) {
  LockInfo info;
  uint64_t token = 0;
  bool good = reply.elements.size() >= 5 && ReadNumber(reply.elements[1].text, token);
  for (const size_t list : {size_t{2}, size_t{4}}) {
    if (!good) break;
    for (const Reply& each : reply.elements[list].elements) {
      auto& parties = list == 2 ? info.holders : info.waiters;
      good = good && ReadParty(each, list == 2, parties.emplace_back());
    }
  }
  if (!good) {
    return absl::InternalError(
        absl::StrCat("the inspect script's reply violates its contract: ", reply.DebugString()));
  }
  info.kind = reply.elements[0].text;
  info.waiting = reply.elements[3].integer;
  info.last_token = FencingToken(token);
  info.holding = static_cast<int64_t>(info.holders.size());
  if (reply.elements.size() > 5) info.holding = reply.elements[5].integer;
  if (reply.elements.size() > 7) {
    info.capacity = reply.elements[6].integer;
    info.used = reply.elements[7].integer;
  }
  return info;
}

std::optional<Message> ReadMessage(const Identity& identity, std::string_view text) {
  using Kind = Message::Kind;
  Message message;
  const std::string_view word = TakeWord(text);
  if (!TakeHold(identity, text, message.news.grant)) return std::nullopt;
  if (word == "grant") {
    int64_t claim = 0;
    NewGrant& news = message.news;
    if (!TakeNumber(text, news.attempt) || !TakeNumber(text, news.token) ||
        !TakeNumber(text, claim) || !TakeNumber(text, news.others) || news.token > kLargestToken) {
      return std::nullopt;
    }
    news.lease = absl::Milliseconds(claim);
  } else {
    message.kind = word == "forced"  ? Kind::kForced
                   : word == "look"  ? Kind::kAskAgain
                   : word == "vote"  ? Kind::kVote
                   : word == "tried" ? Kind::kTried
                                     : Kind::kRecall;
    if (message.kind == Kind::kRecall && word != "wanted") return std::nullopt;
  }
  message.key = text;
  return message;
}

}  // namespace redlatch::internal
