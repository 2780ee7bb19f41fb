#include "src/quorum/verdict.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/majority.h"
#include "src/redis/wire/errors.h"

namespace redlatch::quorum {
namespace {

using base::Majority;
using Kind = Vote::Kind;

constexpr int64_t kForeignPollMs = 100;  // of an owner who tells nobody when he lets go

size_t Count(absl::Span<const Vote> votes, Kind kind) {
  return static_cast<size_t>(
      std::count_if(votes.begin(), votes.end(), [&](const Vote& v) { return v.kind == kind; }));
}

// Who holds it, as `inspect` says; empty: nobody.
std::string HolderOf(const redis::Reply& reply) {
  const auto& holders = reply.elements[2].elements;
  return holders.empty() || holders[0].elements.empty() ? "" : holders[0].elements[0].text;
}

}  // namespace

size_t Counted(absl::Span<const Vote> votes) {
  return static_cast<size_t>(
      std::count_if(votes.begin(), votes.end(), [](const Vote& vote) { return vote.counts(); }));
}

size_t Open(absl::Span<const Vote> votes) { return Count(votes, Kind::kOpen); }

Verdict Judge(absl::Span<const Vote> votes) {
  const size_t needed = Majority(votes.size());
  const size_t yes = Count(votes, Kind::kYes);
  const size_t open = Count(votes, Kind::kOpen);
  if (yes >= needed) {
    Verdict verdict{.kind = Verdict::Kind::kRaise};
    for (const Vote& vote : votes) {
      if (vote.kind != Kind::kYes) continue;
      const auto same = std::count_if(votes.begin(), votes.end(), [&](const Vote& other) {
        return other.kind == Kind::kYes && other.token == vote.token;
      });
      if (static_cast<size_t>(same) >= needed) {
        return {.kind = Verdict::Kind::kYes, .token = vote.token};
      }
      verdict.token = std::max(verdict.token, vote.token);
    }
    return verdict;
  }
  if (yes + open >= needed) return {};
  if (Counted(votes) >= needed) return {.kind = Verdict::Kind::kNo};
  if (Counted(votes) + open >= needed) return {};
  return {.kind = Verdict::Kind::kNoQuorum};
}

Verdict JudgeStanding(absl::Span<const Vote> votes) {
  const size_t needed = Majority(votes.size());
  const size_t yes = Count(votes, Kind::kYes);
  const size_t unknown = votes.size() - Counted(votes) + Count(votes, Kind::kYoung);
  if (yes >= needed) return {.kind = Verdict::Kind::kYes};
  if (yes + unknown < needed) return {.kind = Verdict::Kind::kNo};
  return {.kind = Open(votes) > 0 ? Verdict::Kind::kOpen : Verdict::Kind::kNoQuorum};
}

uint64_t EarliestTicket(absl::Span<const Vote> votes, uint64_t ticket) {
  for (const Vote& vote : votes) {
    if (vote.kind != Kind::kQueued && !vote.queued_behind) continue;
    ticket = ticket == 0 ? vote.ticket : std::min(ticket, vote.ticket);
  }
  return ticket;
}

int64_t WaitFor(absl::Span<const Vote> votes) {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> waits;
  for (const Vote& vote : votes) {
    if (!vote.counts()) {
      waits.push_back(kNever);
    } else if (vote.kind == Kind::kYes) {
      waits.push_back(0);
    } else {
      waits.push_back(vote.wait_ms < 0 ? kForeignPollMs : vote.wait_ms);
    }
  }
  std::sort(waits.begin(), waits.end());
  const int64_t wait = waits[Majority(votes.size()) - 1];
  return wait == kNever ? -1 : wait;
}

absl::Status WhyNoQuorum(absl::Span<const Vote> votes, absl::Span<const std::string> servers,
                         bool stands) {
  size_t answered = 0;
  size_t refused = 0;
  bool may_have_executed = false;
  std::string why;
  absl::Status lasting;
  for (size_t i = 0; i < votes.size(); ++i) {
    const Vote& vote = votes[i];
    // Where it was queued, or granted, there is something to be taken back.
    may_have_executed |= vote.uncertain() || vote.kind == Kind::kQueued || vote.kind == Kind::kYes;
    if (vote.counts() && !(stands && vote.kind == Kind::kYoung)) {
      ++answered;
      continue;
    }
    std::string text(vote.failure.message());
    if (vote.kind == Kind::kYoung) {
      text = absl::StrCat(servers[i], " started lately, and has no vote yet");
    } else if (vote.failure.ok()) {
      text = absl::StrCat(servers[i], " did not answer in time");
    }
    absl::StrAppend(&why, why.empty() ? "" : "; ", text);
    if (vote.kind == Kind::kFailed && !absl::IsUnavailable(vote.failure)) {
      ++refused;
      lasting = vote.failure;
    }
  }
  // Enough may have answered, of whom some do not have it.
  const bool parted = stands && answered >= Majority(votes.size());
  const std::string text =
      absl::StrCat(parted ? Count(votes, Kind::kYes) : answered, " of ", votes.size(), " servers ",
                   parted ? "said that they have it" : "answered", ", and ", Majority(votes.size()),
                   " are needed: ", why);
  // The others may yet answer for a hold that stands, and it for as long as its lease.
  const bool lasts = stands ? votes.size() - refused < Majority(votes.size()) : refused > 0;
  const absl::StatusCode code = lasts ? lasting.code() : absl::StatusCode::kUnavailable;
  absl::Status status(code, text);
  return may_have_executed ? redis::MarkMayHaveExecuted(std::move(status)) : status;
}

redis::Reply TextReply(std::string text) {
  redis::Reply reply;
  reply.type = redis::Reply::Type::kString;
  reply.text = std::move(text);
  return reply;
}

std::string NotesOf(absl::Span<const Vote> votes) {
  int64_t at_once = 0;
  int64_t later = 0;
  for (const Vote& vote : votes) {
    for (const int64_t look : {vote.look_ms, vote.look_later_ms}) {
      (look == 1 ? at_once : later) = std::max(look == 1 ? at_once : later, look);
    }
  }
  return absl::StrCat(at_once > 0 ? " look 1" : "", later > 0 ? absl::StrCat(" look ", later) : "");
}

absl::StatusOr<redis::Reply> GrantedBy(absl::Span<const Vote> votes, uint64_t token) {
  int64_t lease_ms = std::numeric_limits<int64_t>::max();
  bool others = false;
  for (const Vote& vote : votes) {
    if (vote.kind != Kind::kYes) continue;
    lease_ms = std::min(lease_ms, vote.lease_ms);
    others |= vote.others;
  }
  return TextReply(absl::StrCat("granted ", token, " ", lease_ms, others ? " 1" : " 0"));
}

redis::Reply NotGranted(absl::Span<const Vote> votes, const Terms& terms, int64_t wait_ms) {
  if (Count(votes, Kind::kGone) > 0) return TextReply("gone" + NotesOf(votes));
  if (!terms.wait) return TextReply(absl::StrCat("busy ", wait_ms, NotesOf(votes)));
  size_t deaf = 0;
  size_t queued = 0;
  for (const Vote& vote : votes) {
    if (vote.kind != Kind::kQueued) continue;
    ++queued;
    deaf += vote.deaf ? 1 : 0;
  }
  // Whoever is heard by a majority need not poll.
  const bool polls = deaf > 0 && queued - deaf < Majority(votes.size());
  return TextReply(absl::StrCat("queued ", wait_ms, " 0 ", EarliestTicket(votes, terms.ticket),
                                NotesOf(votes), polls ? " deaf" : ""));
}

redis::Reply ReleasedBy(absl::Span<const Vote> votes) {
  bool queued = false;
  bool gone = false;
  for (const Vote& vote : votes) {
    gone |= vote.gone_behind;
    queued |= vote.queued_behind;
  }
  std::string text = "released";
  if (gone) {
    text += " gone";
  } else if (queued) {
    // A message tells when it is its turn; if none comes, this heartbeat does.
    absl::StrAppend(&text, " queued 200 0 ", EarliestTicket(votes, 0));
  }
  return TextReply(text + NotesOf(votes));
}

bool Agree(absl::Span<const absl::StatusOr<redis::Reply>> answers) {
  std::map<std::string, size_t> holders;
  for (const auto& answer : answers) {
    if (!answer.ok()) continue;
    const auto& words = answer->elements;
    if (words.size() < 3 || !words[2].is_array()) return true;  // nobody asked for that
    if (++holders[HolderOf(*answer)] >= Majority(answers.size())) return true;
  }
  return false;
}

absl::StatusOr<redis::Reply> MostTelling(absl::Span<const absl::StatusOr<redis::Reply>> answers) {
  const redis::Reply* first = nullptr;
  const redis::Reply* telling = nullptr;
  std::map<std::string, size_t> holders;
  for (const auto& answer : answers) {
    if (!answer.ok()) continue;
    if (first == nullptr) first = &*answer;
    const auto& words = answer->elements;
    if (words.size() > 3 && words[2].is_array()) ++holders[HolderOf(*answer)];
    const bool released = words.size() == 4 && !words[2].is_array();
    if (released && telling == nullptr) telling = &*answer;
    if (words.size() >= 2 && words[1].integer == 1) telling = &*answer;  // there is more
  }
  if (first == nullptr) return absl::UnavailableError("no server answered");
  if (holders.empty()) return telling == nullptr ? *first : *telling;
  std::string holder;  // of a majority
  for (const auto& [each, nodes] : holders) {
    if (nodes >= Majority(answers.size())) holder = each;
  }
  for (const auto& answer : answers) {
    if (answer.ok() && HolderOf(*answer) == holder) return *answer;
  }
  redis::Reply none = *first;
  none.elements[2].elements.clear();
  if (none.elements.size() > 5) none.elements[5].integer = 0;
  return none;
}

}  // namespace redlatch::quorum
