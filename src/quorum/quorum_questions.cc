// What the engine asks, as questions to all nodes.
#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lua/scripts.h"
#include "src/quorum/quorum_case.h"
#include "src/redis/wire/errors.h"

namespace redlatch::quorum {
namespace {

int64_t Number(std::string_view text) {
  int64_t number = 0;
  return absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &number) ? number : 0;
}

}  // namespace

Op OpOf(const LuaScript& script) {
  if (script.sha1 == lua::kQuorumAcquire.sha1) return Op::kAcquire;
  if (script.sha1 == lua::kQuorumRenew.sha1) return Op::kRenew;
  if (script.sha1 == lua::kQuorumRelease.sha1) return Op::kRelease;
  if (script.sha1 == lua::kQuorumCancel.sha1) return Op::kCancel;
  if (script.sha1 == lua::kQuorumForceRelease.sha1) return Op::kForce;
  return Op::kOther;
}

OwnCall CancelOf(const redis::ScriptCall& call, std::string_view turn_key, const std::string& hold,
                 const std::string& gone_key, int64_t gone_ms, const std::string& attempt,
                 const std::string& channels) {
  std::vector<std::string> keys(call.keys.begin(), call.keys.begin() + 4);
  keys.push_back(gone_key);
  keys.emplace_back(turn_key);
  std::vector<std::string> args = {hold, absl::StrCat(gone_ms), "1"};
  if (!attempt.empty() || !channels.empty()) args.push_back(attempt);
  if (!channels.empty()) args.push_back(channels);
  return {lua::kQuorumCancel, std::move(keys), std::move(args)};
}

void Quorum::Begin(Case& one) {
  one.asked_at = base::Now();
  switch (one.op) {
    case Op::kAcquire:
      one.lease_ms = Number(one.call.args[1]);
      one.terms = ReadTerms(one.call.args[kTermsWord]);
      one.proposed = clock_.Propose(one.asked_at);
      ledger_->Begin(one.hold, one.call.keys[4], one.lease_ms, one.asked_at);
      break;
    case Op::kRenew:
      one.lease_ms = Number(one.call.args[1]);
      ledger_->Renewing(one.hold, one.lease_ms, one.asked_at);
      break;
    case Op::kRelease:
      if (one.call.args.size() > kNextBid + kTermsWord) {  // the bid that follows
        ledger_->Begin(one.call.args[kNextBid], one.call.keys[5],
                       Number(one.call.args[kNextBid + 1]), one.asked_at);
      }
      one.ending = ledger_->End(one.hold);
      break;
    case Op::kCancel:
      one.ending = ledger_->End(one.hold);
      break;
    case Op::kForce:
    case Op::kOther:
      break;
  }
}

// The word by which a node knows where to publish, with the tag of its own, if it is a cluster.
void Quorum::UseChannelOf(size_t node, std::string_view key, std::string& terms) const {
  const std::string tag = nodes_[node]->at().slot_tag(key);
  const size_t last = terms.rfind(' ');
  if (!tag.empty() && last != std::string::npos) {
    terms.replace(last + 1, std::string::npos, options_.channel(tag));
  }
}

// What all clients' channels at the node begin with.
std::string Quorum::ChannelsAt(size_t node, const Case& force) const {
  return absl::StrCat(std::string(force.call.args[0]),
                      nodes_[node]->at().slot_tag(force.call.keys.front()));
}

// If there is a restart delay, a key more, and the words that go with it: how long it is, and what
// the node's run is, as far as this client knows.
std::string Quorum::AddDelay(OwnCall& call, size_t node) const {
  if (options_.restart_delay <= absl::ZeroDuration()) return {};
  redis::Deployment& at = nodes_[node]->at();
  const std::string run_id = at.run_id(call.keys.front());
  call.keys.push_back(options_.node_key(at.slot_tag(call.keys.front())));
  return absl::StrCat(delay_ms_, " ", run_id);
}

OwnCall Quorum::CallFor(const Case& one, size_t node, std::string_view mode) const {
  // Where it may yet come into being, too.
  if (one.ending && (one.ending->uncertain & Only(node)) != 0) {
    return CancelOf(one.call, one.call.keys.back(), one.hold, one.ending->gone_key,
                    one.ending->lease_ms);
  }
  OwnCall call(one.call);
  std::string delay;
  switch (one.op) {
    case Op::kAcquire:
      UseChannelOf(node, call.keys.front(), call.args[kTermsWord]);
      delay = AddDelay(call, node);
      call.args.push_back(absl::StrCat(one.proposed));
      if (!delay.empty() || mode != kTake)
        absl::StrAppend(&call.args.back(), " ", std::string(mode));
      if (!delay.empty()) absl::StrAppend(&call.args.back(), " ", delay);
      break;
    case Op::kRenew:
      delay = AddDelay(call, node);
      if (!delay.empty()) call.args.push_back(std::move(delay));
      break;
    case Op::kRelease:
      if (call.args.size() > kNextBid + kTermsWord) {
        UseChannelOf(node, call.keys.front(), call.args[kNextBid + kTermsWord]);
      }
      break;
    case Op::kForce:
      call.args[0] = ChannelsAt(node, one);
      break;
    case Op::kCancel:
    case Op::kOther:
      break;
  }
  return call;
}

// What is to be done about an answer, whenever it comes.
Question::Hear Quorum::HearFor(const Case& one) {
  if (one.op == Op::kAcquire) {
    return [ledger = ledger_, hold = one.hold](size_t node, Node&,
                                               const absl::StatusOr<redis::Reply>& answer) {
      if (redis::MayHaveExecuted(answer.status())) ledger->Uncertain(hold, node);
    };
  }
  if (!one.ending) return nullptr;
  OwnCall cancel = CancelOf(one.call, one.call.keys.back(), one.hold, one.ending->gone_key,
                            one.ending->lease_ms);
  const base::Instant expires = one.asked_at + absl::Milliseconds(one.ending->lease_ms);
  return [cancel = std::move(cancel), expires](size_t, Node& its,
                                               const absl::StatusOr<redis::Reply>& answer) {
    // Whoever asked may be gone, with what was to be sent once more.
    if (IsToBeRepeated(answer)) {
      its.Owe(
          cancel.keys.front(), [&] { return Encode(its, cancel, /*by_text=*/true); }, expires,
          answer);
    }
  };
}

void Quorum::Ask(Round& round, Case& one) {
  one.asked = std::make_unique<Question>(
      nodes_.size(), one.call.keys.front(), alike_ && (!one.ending || one.ending->uncertain == 0),
      [this, &one](size_t node) { return CallFor(one, node); }, HearFor(one));
  round.Put(*one.asked);
}

}  // namespace redlatch::quorum
