#include "src/quorum/node_result.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/majority.h"
#include "src/base/words.h"
#include "src/lock/script_codec.h"

namespace redlatch::quorum {
namespace {

using base::Majority;
using Kind = NodeResult::Kind;

// How often to ask a foreign owner's node, which tells no client when the lock is free.
constexpr absl::Duration kForeignPoll = absl::Milliseconds(100);
// The heartbeat of a waiter that a release queued. A message tells it earlier when it is its turn.
constexpr absl::Duration kHeartbeatBehindRelease = absl::Milliseconds(200);

Kind KindOf(const Result& result) {
  if (const auto* const acquire = std::get_if<internal::AcquireResult>(&result.what)) {
    if (std::holds_alternative<internal::AcquireGranted>(*acquire)) return Kind::kYes;
    if (std::holds_alternative<internal::AcquireQueued>(*acquire)) return Kind::kQueued;
    const bool gone = std::holds_alternative<internal::AcquireCancelled>(*acquire);
    return gone ? Kind::kGone : Kind::kNo;
  }
  if (const auto* const cancelled = std::get_if<internal::Cancelled>(&result.what)) {
    return cancelled->was_held ? Kind::kYes : Kind::kNo;
  }
  return std::holds_alternative<internal::NotHeld>(result.what) ? Kind::kNo : Kind::kYes;
}

// The checks of handovers that any node asked for.
void AddChecks(NodeResults results, Result& result) {
  for (const NodeResult& each : results) {
    result.unfinished |= each.result.unfinished;
    result.check_after = std::max(result.check_after, each.result.check_after);
  }
}

// The grant id of the first holder in the reply of `inspect`; empty if there is none.
std::string HolderIn(const redis::Reply& reply) {
  const auto& holders = reply.elements[2].elements;
  return holders.empty() || holders[0].elements.empty() ? "" : holders[0].elements[0].text;
}

bool NamesHolder(const absl::StatusOr<redis::Reply>& reply) {
  return reply.ok() && reply->elements.size() >= 3 && reply->elements[2].is_array();
}

}  // namespace

absl::Duration NodeResult::wait() const {
  if (queued() != nullptr) return queued()->retry_after;
  const auto* const busy = std::get_if<internal::AcquireBusy>(&result.acquire());
  return busy == nullptr ? absl::ZeroDuration() : busy->retry_after;
}

NodeResult ReadNodeResult(const Request& request, const absl::StatusOr<redis::Reply>& reply) {
  std::string_view text = reply.ok() ? std::string_view(reply->text) : "";
  int64_t young_ms = 0;
  if (base::TakeWord(text) == "young" && base::TakeNumber(text, young_ms)) {
    const internal::AcquireBusy busy{.retry_after = absl::Milliseconds(young_ms)};
    return {.kind = Kind::kYoung, .result = {.what = internal::AcquireResult(busy)}};
  }
  NodeResult read{.result = internal::ReadResult(request, reply)};
  const bool failed = read.result.failed() != nullptr;
  read.kind = !failed ? KindOf(read.result) : reply.ok() ? Kind::kForeign : Kind::kFailed;
  return read;
}

NodeResult ReadRaised(const absl::StatusOr<redis::Reply>& reply) {
  NodeResult read = ReadAny(reply);
  if (reply.ok() && reply->text != "raised") read.kind = Kind::kNo;
  return read;
}

NodeResult ReadAny(const absl::StatusOr<redis::Reply>& reply) {
  NodeResult read{.kind = reply.ok() ? Kind::kYes : Kind::kFailed};
  if (!reply.ok()) read.result = internal::ReadResult({}, reply);
  return read;
}

size_t CountAnswered(NodeResults results) {
  return static_cast<size_t>(std::count_if(results.begin(), results.end(),
                                           [](const NodeResult& r) { return r.answered(); }));
}

size_t Count(NodeResults results, Kind kind) {
  return static_cast<size_t>(std::count_if(results.begin(), results.end(),
                                           [&](const NodeResult& r) { return r.kind == kind; }));
}

size_t CountInFlight(NodeResults results) { return Count(results, Kind::kInFlight); }

// ---- Decisions.

namespace {

uint64_t TokenOf(const NodeResult& result) {
  return result.granted() == nullptr ? 0 : result.granted()->token;
}

// Of nodes of which a majority granted.
Decision DecideToken(NodeResults results, size_t needed) {
  Decision decision{.kind = Decision::Kind::kRaise};
  for (const NodeResult& result : results) {
    if (result.kind != Kind::kYes) continue;
    const uint64_t token = TokenOf(result);
    const auto same = std::count_if(results.begin(), results.end(), [&](const NodeResult& other) {
      return other.kind == Kind::kYes && TokenOf(other) == token;
    });
    if (static_cast<size_t>(same) >= needed) {
      return {.kind = Decision::Kind::kYes, .token = token};
    }
    decision.token = std::max(decision.token, token);
  }
  return decision;
}

}  // namespace

Decision DecideAcquire(NodeResults results) {
  const size_t needed = Majority(results.size());
  const size_t yes = Count(results, Kind::kYes);
  const size_t in_flight = CountInFlight(results);
  if (yes >= needed) return DecideToken(results, needed);
  if (yes + in_flight >= needed) return {};
  if (CountAnswered(results) >= needed) return {.kind = Decision::Kind::kNo};
  if (CountAnswered(results) + in_flight >= needed) return {};
  return {.kind = Decision::Kind::kNoMajority};
}

Decision DecideHeld(NodeResults results) {
  const size_t needed = Majority(results.size());
  const size_t yes = Count(results, Kind::kYes);
  const size_t unknown = results.size() - CountAnswered(results) + Count(results, Kind::kYoung);
  if (yes >= needed) return {.kind = Decision::Kind::kYes};
  if (yes + unknown < needed) return {.kind = Decision::Kind::kNo};
  return {.kind = CountInFlight(results) > 0 ? Decision::Kind::kOpen : Decision::Kind::kNoMajority};
}

uint64_t EarliestTicket(NodeResults results, uint64_t ticket) {
  for (const NodeResult& result : results) {
    if (result.queued() == nullptr) continue;
    ticket = ticket == 0 ? result.queued()->ticket : std::min(ticket, result.queued()->ticket);
  }
  return ticket;
}

absl::Duration WaitForMajority(NodeResults results) {
  std::vector<absl::Duration> waits;
  for (const NodeResult& result : results) {
    if (!result.answered()) {
      waits.push_back(absl::InfiniteDuration());
    } else if (result.kind == Kind::kYes) {
      waits.push_back(absl::ZeroDuration());
    } else {
      waits.push_back(result.wait() < absl::ZeroDuration() ? kForeignPoll : result.wait());
    }
  }
  std::sort(waits.begin(), waits.end());
  const absl::Duration wait = waits[Majority(waits.size()) - 1];
  return wait == absl::InfiniteDuration() ? absl::ZeroDuration() : wait;
}

// ---- Results.

Result GrantedResult(NodeResults results, uint64_t token) {
  internal::AcquireGranted granted{.token = token, .lease = absl::InfiniteDuration()};
  for (const NodeResult& result : results) {
    if (result.granted() == nullptr) continue;
    granted.lease = std::min(granted.lease, result.granted()->lease);
    granted.claimed |= result.granted()->claimed;
    if (result.granted()->others > 0) granted.others = 1;
  }
  return {.what = internal::AcquireResult(granted)};
}

Result NotGrantedResult(NodeResults results, const internal::AcquireRequest& request,
                        absl::Duration wait) {
  Result result;
  AddChecks(results, result);
  auto& acquire = result.what.emplace<internal::AcquireResult>();
  if (Count(results, Kind::kGone) > 0) {
    acquire = internal::AcquireCancelled();
    return result;
  }
  if (!request.wait) {
    acquire = internal::AcquireBusy{.retry_after = wait};
    return result;
  }
  acquire = internal::AcquireQueued{.retry_after = wait,
                                    .ticket = EarliestTicket(results, request.ticket)};
  const auto unsubscribed =
      static_cast<size_t>(std::count_if(results.begin(), results.end(), [](const NodeResult& each) {
        return each.kind == Kind::kQueued && each.result.unsubscribed;
      }));
  // A client need not poll if the messages of a majority reach it.
  result.unsubscribed =
      unsubscribed > 0 && Count(results, Kind::kQueued) - unsubscribed < Majority(results.size());
  return result;
}

Result ReleasedResult(NodeResults results) {
  Result result;
  AddChecks(results, result);
  if (DecideHeld(results).kind == Decision::Kind::kNo) {
    result.what = internal::NotHeld();
    return result;
  }
  auto& freed = result.what.emplace<internal::Freed>();
  bool gone = false;
  bool queued = false;
  for (const NodeResult& each : results) {
    gone |= std::holds_alternative<internal::AcquireCancelled>(each.result.acquire());
    queued |= each.queued() != nullptr;
  }
  if (gone) {
    freed.next = internal::AcquireCancelled();
  } else if (queued) {
    freed.next = internal::AcquireQueued{.retry_after = kHeartbeatBehindRelease,
                                         .ticket = EarliestTicket(results, 0)};
  }
  return result;
}

Result CancelledResult(NodeResults results) {
  Result result{.what = internal::Cancelled()};
  AddChecks(results, result);
  return result;
}

namespace {

std::string WhyNot(const NodeResult& result, const std::string& server) {
  if (result.kind == Kind::kYoung) {
    return absl::StrCat(server, " started lately, and has no vote yet");
  }
  const absl::Status& why = result.result.failed()->why;
  return why.ok() ? absl::StrCat(server, " did not answer in time") : std::string(why.message());
}

}  // namespace

internal::Failed NoMajority(NodeResults results, absl::Span<const std::string> servers,
                            bool stands) {
  internal::Failed failed;
  const size_t needed = Majority(results.size());
  size_t answered = 0;
  size_t refused = 0;
  std::string why;
  absl::StatusCode lasting = absl::StatusCode::kUnavailable;
  for (size_t node = 0; node < results.size(); ++node) {
    const NodeResult& result = results[node];
    // If it was granted or queued, there is something to be taken back.
    failed.may_have_executed |=
        result.uncertain() || result.kind == Kind::kQueued || result.kind == Kind::kYes;
    if (result.answered() && !(stands && result.kind == Kind::kYoung)) {
      ++answered;
      continue;
    }
    absl::StrAppend(&why, why.empty() ? "" : "; ", WhyNot(result, servers[node]));
    if (result.kind == Kind::kFailed && !absl::IsUnavailable(result.result.failed()->why)) {
      ++refused;
      lasting = result.result.failed()->why.code();
    }
  }
  // Enough nodes may have answered, some of which do not have it.
  const bool parted = stands && answered >= needed;
  // The others may still answer for a grant that stands, and for as long as its lease.
  const bool lasts = stands ? results.size() - refused < needed : refused > 0;
  failed.why = absl::Status(
      lasts ? lasting : absl::StatusCode::kUnavailable,
      absl::StrCat(parted ? Count(results, Kind::kYes) : answered, " of ", results.size(),
                   " servers ", parted ? "said that they have it" : "answered", ", and ", needed,
                   " are needed: ", why));
  return failed;
}

// ---- Replies for people.

bool Agree(absl::Span<const absl::StatusOr<redis::Reply>> replies) {
  std::map<std::string, size_t> holders;
  for (const auto& reply : replies) {
    if (NamesHolder(reply) && ++holders[HolderIn(*reply)] >= Majority(replies.size())) return true;
  }
  return false;
}

absl::StatusOr<redis::Reply> ReplyForPeople(
    absl::Span<const absl::StatusOr<redis::Reply>> replies) {
  const redis::Reply* first = nullptr;
  const redis::Reply* telling = nullptr;
  std::map<std::string, size_t> holders;
  for (const auto& reply : replies) {
    if (!reply.ok()) continue;
    if (first == nullptr) first = &*reply;
    if (NamesHolder(reply)) {
      ++holders[HolderIn(*reply)];
      continue;
    }
    const auto& words = reply->elements;
    if (words.size() == 4 && telling == nullptr) telling = &*reply;     // it was released
    if (words.size() >= 2 && words[1].integer == 1) telling = &*reply;  // there is more to do
  }
  if (first == nullptr) return absl::UnavailableError("no server answered");
  if (holders.empty()) return telling == nullptr ? *first : *telling;
  std::string holder;  // of a majority
  for (const auto& [each, nodes] : holders) {
    if (nodes >= Majority(replies.size())) holder = each;
  }
  for (const auto& reply : replies) {
    if (NamesHolder(reply) && HolderIn(*reply) == holder) return *reply;
  }
  redis::Reply none = *first;
  none.elements[2].elements.clear();
  if (none.elements.size() > 5) none.elements[5].integer = 0;
  return none;
}

}  // namespace redlatch::quorum
