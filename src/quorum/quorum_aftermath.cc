// What is sent after a round, so that no node keeps what is over, or lacks what stands.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lua/scripts.h"
#include "src/quorum/quorum_case.h"
#include "src/quorum/verdict.h"
#include "src/redis/wire/errors.h"

namespace redlatch::quorum {
namespace {

// As the scripts' client_of() has it.
bool IsHold(std::string_view text) {
  constexpr size_t kClient = 32;
  const auto is_hex = [](char c) { return ('0' <= c && c <= '9') || ('a' <= c && c <= 'f'); };
  const auto is_digit = [](char c) { return '0' <= c && c <= '9'; };
  if (text.size() < kClient + 2 || text[kClient] != ':') return false;
  const std::string_view number = text.substr(kClient + 1);
  return std::all_of(text.begin(), text.begin() + kClient, is_hex) &&
         std::all_of(number.begin(), number.end(), is_digit);
}

}  // namespace

// A round that has failed leaves nothing behind: whoever has granted, or may have, gives it back,
// and keeps the place in the queue. If two have parts of the nodes, the one that came first gets
// those of the other; it lets the other go first now and then, for it may never get them.
void Quorum::GiveBack(Case& one, bool yields) {
  const std::vector<Vote>& votes = one.asked->votes;
  // Where it was given up, whoever asks for it begins anew.
  const bool gone = std::any_of(votes.begin(), votes.end(),
                                [](const Vote& vote) { return vote.kind == Vote::Kind::kGone; });
  const bool waits = one.terms.wait && !gone;
  const uint64_t ticket = EarliestTicket(votes, one.terms.ticket);
  const base::Instant expires = base::Now() + absl::Milliseconds(one.lease_ms);
  for (size_t node = 0; node < votes.size(); ++node) {
    const bool queued = gone && votes[node].kind == Vote::Kind::kQueued;
    if (votes[node].kind != Vote::Kind::kYes && !votes[node].uncertain() && !queued) continue;
    OwnCall call = CallFor(one, node, yields ? "yield" : "queue");
    if (waits) {
      call.args[kTermsWord] = WithTicket(call.args[kTermsWord], ticket);
    } else {
      const int64_t gone_ms = votes[node].uncertain() ? one.lease_ms : 0;
      call = CancelOf(one.call, one.call.keys[5], one.hold, std::string(one.call.keys[4]), gone_ms,
                      absl::StrCat(one.terms.attempt));
    }
    nodes_[node]->Tell(std::string(one.call.keys.front()),
                       Encode(*nodes_[node], call, /*by_text=*/true), expires);
  }
}

// Nodes without a hold that a majority has are given it, so that it outlives the loss of others; so
// are those that have not answered, for nobody asks what they say.
void Quorum::Heal(const Case& one) {
  const std::vector<Vote>& votes = one.asked->votes;
  ledger_->Renewed(one.hold, one.asked_at + absl::Milliseconds(one.lease_ms));
  ledger_->WhileItStands(one.hold, [&](const Ledger::Hold& hold) {
    for (size_t node = 0; node < votes.size(); ++node) {
      if (votes[node].kind != Vote::Kind::kNo && votes[node].kind != Vote::Kind::kOpen) continue;
      std::vector<std::string> keys(one.call.keys.begin(), one.call.keys.begin() + 4);
      keys.push_back(hold.gone_key);
      keys.emplace_back(one.call.keys.back());
      const OwnCall heal(lua::kQuorumRaise, std::move(keys),
                         {one.hold, absl::StrCat(hold.last_token), absl::StrCat(hold.lease_ms),
                          absl::StrCat(hold.attempt)});
      const redis::Command command = Encode(*nodes_[node], heal, /*by_text=*/true);
      nodes_[node]
          ->at()
          .Send(
              heal.keys.front(), command,
              [ledger = ledger_, its = one.hold, node](const absl::StatusOr<redis::Reply>& answer) {
                if (redis::MayHaveExecuted(answer.status())) ledger->Uncertain(its, node);
              })
          .IgnoreError();
    }
  });
}

// Where it has not come yet, or is not known to have ended, or may be healed: for as long as its
// client may believe that it has it.
void Quorum::EndForced(const Case& one) {
  std::map<std::string, int64_t> ended;
  for (const auto& answer : one.asked->answers) {
    // 'released', look_ms, hold, left_ms
    if (!answer.ok() || answer->elements.size() < 4) continue;
    const std::string& hold = answer->elements[2].text;
    if (!IsHold(hold)) continue;  // a foreign one
    ended[hold] = std::max(ended[hold], answer->elements[3].integer);
  }
  const std::string_view key = one.call.keys.front();
  for (const auto& [hold, left_ms] : ended) {
    const base::Instant expires = base::Now() + absl::Milliseconds(left_ms);
    for (size_t node = 0; node < nodes_.size(); ++node) {
      const OwnCall cancel =
          CancelOf(one.call, one.call.keys.back(), hold, options_.gone_key(key, hold),
                   std::max<int64_t>(left_ms, 1), /*attempt=*/"", ChannelsAt(node, one));
      nodes_[node]->Tell(std::string(key), Encode(*nodes_[node], cancel, /*by_text=*/true),
                         expires);
    }
  }
}

}  // namespace redlatch::quorum
