#include <algorithm>
#include <limits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/base/words.h"
#include "src/engine/protocol/wire.h"
#include "src/redis/wire/errors.h"

namespace redlatch::engine {
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

bool ReadBid(std::string_view& text, BidAnswer& bid) {
  const std::string_view word = TakeWord(text);
  if (word == "granted") {
    auto& granted = bid.emplace<BidGranted>();
    return TakeNumber(text, granted.token) && ReadMillis(TakeWord(text), granted.lease) &&
           TakeNumber(text, granted.others);
  }
  if (word == "queued") {
    auto& queued = bid.emplace<BidQueued>();
    return ReadMillis(TakeWord(text), queued.retry_after) && TakeNumber(text, queued.position) &&
           TakeNumber(text, queued.ticket);
  }
  if (word == "busy") {
    bid = BidBusy();
    return true;
  }
  bid = BidGone();
  return word == "gone";
}

bool ReadTold(std::string_view& text, Told& told) {
  return TakeNumber(text, told.counts) && TakeNumber(text, told.last);
}

// What a reply ends with. Unknown words are a later version's, and told to those who ask for them.
bool ReadNotes(std::string_view text, Answer& answer) {
  while (!text.empty()) {
    const std::string_view word = TakeWord(text);
    if (word == "look") {
      absl::Duration& look = answer.look > absl::ZeroDuration() ? answer.look_later : answer.look;
      if (!ReadMillis(TakeWord(text), look)) return false;
    }
    if (word == "told") {
      Told told;
      if (!ReadTold(text, told)) return false;
      auto* const bid = std::get_if<BidAnswer>(&answer.what);
      auto* const queued = bid != nullptr ? std::get_if<BidQueued>(bid) : nullptr;
      if (queued != nullptr) queued->told = told;
    }
    answer.deaf |= word == "deaf";
    answer.missed |= word == "missed";
  }
  return true;
}

// What a script says, by what it is for; then come the notes.
bool ReadWords(const ToAcquire&, std::string_view& text, Answer& answer) {
  return ReadBid(text, answer.what.emplace<BidAnswer>());
}

bool ReadWords(const ToCancel&, std::string_view& text, Answer& answer) {
  const std::string_view word = TakeWord(text);
  answer.what = Cancelled();
  return word == "left" || word == "passed_on" || word == "unknown";
}

bool ReadWords(const ToRenew&, std::string_view& text, Answer& answer) {
  const std::string_view word = TakeWord(text);
  if (word == "not_held") {
    answer.what = NotHeld();
    return true;
  }
  auto& held = answer.what.emplace<StillHeld>();
  if (word != "held" || text.empty()) return word == "held";
  if (!TakeNumber(text, held.others)) return false;
  const bool more = !text.empty() && '0' <= text.front() && text.front() <= '9';
  return !more || TakeNumber(text, held.last_token);
}

bool ReadWords(const ToRelease&, std::string_view& text, Answer& answer) {
  const std::string_view word = TakeWord(text);
  if (word == "not_held") {
    answer.what = NotHeld();
    return true;
  }
  auto& freed = answer.what.emplace<Freed>();
  if (word != "released") return false;
  const bool bid = !text.empty() && !text.starts_with("look ");
  return !bid || ReadBid(text, freed.next);
}

bool TakeHold(const Identity& identity, std::string_view& text, GrantId& grant) {
  std::string_view word = TakeWord(text);
  const bool stays = word.ends_with('k');
  if (stays) word.remove_suffix(1);
  const size_t colon = identity.client.size();
  const bool good = word.size() > colon && word.substr(0, colon) == identity.client &&
                    word[colon] == ':' && ReadNumber(word.substr(colon + 1), grant);
  if (stays) grant |= kMayStay;
  return good;
}

// When that was, in microseconds of the server's clock; what is no such number tells nothing.
absl::Time ReadSince(std::string_view text) {
  int64_t micros = 0;
  return ReadNumber(text, micros) && micros > 0 ? absl::FromUnixMicros(micros)
                                                : absl::InfinitePast();
}

// When a waiter came, which its ticket tells: the time, or, where a lock of one's own puts some in
// front of others, a number that is the time modulo 10^15 us.
absl::Time ReadArrival(std::string_view ticket, absl::Time now) {
  constexpr int64_t kModulus = 1'000'000'000'000'000;
  const int64_t latest = absl::ToUnixMicros(now + absl::Hours(24));  // its clock is not ours
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

}  // namespace

Answer ReadAnswer(const Send& send, const absl::StatusOr<Reply>& reply) {
  Answer answer;
  if (!reply.ok()) {
    answer.what = Failed{.why = base::WithoutPayloads(reply.status()),
                         .may_have_executed = redis::MayHaveExecuted(reply.status()),
                         .not_sent = redis::NotSent(reply.status())};
    return answer;
  }
  std::string_view text = reply->text;
  const auto read = [&](const auto& what) { return ReadWords(what, text, answer); };
  if (std::visit(read, send.what) && ReadNotes(text, answer)) return answer;
  answer = {};
  answer.what = Failed{.why = absl::InternalError(absl::StrCat(
                           "a script's reply violates its contract: ", reply->DebugString())),
                       .may_have_executed = true};
  return answer;
}

Part ReadPart(const Reply& reply) {
  Part part;
  if (reply.elements.size() < 2 || reply.elements[1].type != Reply::Type::kInteger) return part;
  part.look = absl::Milliseconds(reply.elements[1].integer);
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
    news.claim = absl::Milliseconds(claim);
  } else {
    message.kind = word == "forced"  ? Kind::kForced
                   : word == "look"  ? Kind::kLook
                   : word == "tried" ? Kind::kTried
                                     : Kind::kWanted;
    if (message.kind == Kind::kWanted && word != "wanted") return std::nullopt;
  }
  message.key = text;
  return message;
}

}  // namespace redlatch::engine
