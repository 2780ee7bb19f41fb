// What the engine asks, as questions to all nodes, and what their votes come to.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lua/scripts.h"
#include "src/base/random.h"
#include "src/quorum/quorum.h"
#include "src/quorum/verdict.h"
#include "src/redis/wire/errors.h"

namespace redlatch::quorum {
namespace {

// In a round that failed, for those who have not answered: what they granted is given back.
constexpr absl::Duration kLinger = absl::Milliseconds(2);
constexpr absl::Duration kShortestSplit = absl::Milliseconds(2);
constexpr int kMostDoublings = 6;
constexpr size_t kTermsWord = 2;
constexpr size_t kNextBid = 3;  // in a release, the words of the next bid

enum class Op : uint8_t { kAcquire, kRenew, kRelease, kCancel, kOther };

Op OpOf(const LuaScript& script) {
  if (script.sha1 == lua::kQuorumAcquire.sha1) return Op::kAcquire;
  if (script.sha1 == lua::kQuorumRenew.sha1) return Op::kRenew;
  if (script.sha1 == lua::kQuorumRelease.sha1) return Op::kRelease;
  if (script.sha1 == lua::kQuorumCancel.sha1) return Op::kCancel;
  return Op::kOther;
}

int64_t Number(std::string_view text) {
  int64_t number = 0;
  return absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &number) ? number : 0;
}

}  // namespace

// A script that the engine wants to be run, on its way.
struct Quorum::Case {
  explicit Case(const redis::ScriptCall& plain)
      : call(plain), op(OpOf(*plain.script)), hold(plain.args.empty() ? "" : plain.args[0]) {}

  const redis::ScriptCall call;
  const Op op;
  const std::string hold;
  int64_t lease_ms = 0;
  Terms terms;                         // of kAcquire
  int64_t proposed = 0;                // of kAcquire
  std::optional<Ledger::Hold> ending;  // of kRelease and kCancel
  std::unique_ptr<Question> asked;
  std::unique_ptr<Question> raised;  // null: no need
  uint64_t raised_to = 0;            // the first token of the block
  base::Instant asked_at;
  bool granted = false;
  bool decided = false;
};

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

// What its run is, as far as this client knows, and the delay: a key more, and two words.
void Quorum::AddNodeWords(OwnCall& call, size_t node) const {
  redis::Deployment& at = nodes_[node]->at();
  const bool delays = options_.restart_delay > absl::ZeroDuration();
  call.args.push_back(delays ? at.run_id(call.keys.front()) : "");
  call.args.push_back(delay_ms_);
  if (delays) call.keys.push_back(options_.node_key(at.slot_tag(call.keys.front())));
}

OwnCall Quorum::CallFor(const Case& one, size_t node) const {
  OwnCall call(one.call);
  switch (one.op) {
    case Op::kAcquire:
      UseChannelOf(node, call.keys.front(), call.args[kTermsWord]);
      call.args.insert(call.args.end(), {"take", absl::StrCat(one.proposed)});
      AddNodeWords(call, node);
      break;
    case Op::kRenew:
      AddNodeWords(call, node);
      break;
    case Op::kRelease:
      if (call.args.size() > kNextBid + kTermsWord) {
        UseChannelOf(node, call.keys.front(), call.args[kNextBid + kTermsWord]);
      }
      break;
    case Op::kCancel:
    case Op::kOther:
      break;
  }
  return call;
}

namespace {

// Ends a hold at a node where it may yet come into being.
OwnCall CancelOf(const redis::ScriptCall& call, const std::string& hold,
                 const std::string& gone_key, int64_t gone_ms) {
  std::vector<std::string> keys(call.keys.begin(), call.keys.begin() + 4);
  keys.push_back(gone_key);
  keys.emplace_back(call.keys.back());
  return {lua::kQuorumCancel, std::move(keys), {hold, absl::StrCat(gone_ms), "1"}};
}

}  // namespace

// What is to be done about an answer, whenever it comes.
Question::Hear Quorum::HearFor(const Case& one, size_t node) {
  if (one.op == Op::kAcquire) {
    return [ledger = ledger_, hold = one.hold, node](const absl::StatusOr<redis::Reply>& answer) {
      if (redis::MayHaveExecuted(answer.status())) ledger->Uncertain(hold, node);
    };
  }
  if (!one.ending) return nullptr;
  auto cancel = std::make_shared<const OwnCall>(
      CancelOf(one.call, one.hold, one.ending->gone_key, one.ending->lease_ms));
  const base::Instant expires = one.asked_at + absl::Milliseconds(one.ending->lease_ms);
  Node& its = *nodes_[node];
  return [&its, cancel, expires](const absl::StatusOr<redis::Reply>& answer) {
    // Whoever asked may be gone, with what was to be sent once more.
    const bool unknown = answer.ok() && answer->is_error() &&
                         redis::ClassifyError(answer->text) == redis::ErrorCode::kNoScript;
    if (!unknown && !absl::IsUnavailable(answer.status())) return;
    its.Owe(
        cancel->keys.front(), [&] { return Encode(its, *cancel, /*by_text=*/true); }, expires);
  };
}

void Quorum::Ask(Round& round, Case& one) {
  one.asked = std::make_unique<Question>(
      nodes_.size(), one.call.keys.front(),
      [this, &one](size_t node) {
        const bool uncertain = one.ending && (one.ending->uncertain & Only(node)) != 0;
        if (uncertain && one.op == Op::kRelease) {
          return CancelOf(one.call, one.hold, one.ending->gone_key, one.ending->lease_ms);
        }
        return CallFor(one, node);
      },
      [this, &one](size_t node) { return HearFor(one, node); });
  round.Put(*one.asked);
}

bool Quorum::Decided(Round& round, Case& one) {
  if (one.decided) return true;
  const std::vector<Vote>& votes = one.asked->votes;
  if (one.op == Op::kOther || one.op == Op::kCancel) {
    return one.decided = Counted(votes) >= majority() || Open(votes) == 0;
  }
  if (one.raised != nullptr) {
    const Verdict verdict = Judge(one.raised->votes);
    one.granted = verdict.kind == Verdict::Kind::kYes;
    return one.decided = verdict.kind != Verdict::Kind::kOpen;
  }
  if (one.op != Op::kAcquire) {
    return one.decided = JudgeStanding(votes).kind != Verdict::Kind::kOpen;
  }
  const Verdict verdict = Judge(votes);
  if (verdict.kind == Verdict::Kind::kOpen) return false;
  if (verdict.kind != Verdict::Kind::kRaise) {
    one.granted = verdict.kind == Verdict::Kind::kYes;
    one.raised_to = verdict.token;
    return one.decided = true;
  }
  // Where it stands, or may yet stand by the time at which it is asked.
  NodeSet to = 0;
  for (size_t node = 0; node < votes.size(); ++node) {
    const Vote::Kind kind = votes[node].kind;
    if (kind == Vote::Kind::kYes || kind == Vote::Kind::kOpen) to |= Only(node);
  }
  one.raised_to = verdict.token;
  one.raised = std::make_unique<Question>(nodes_.size(), one.call.keys.front(), [&one](size_t) {
    const std::string last = absl::StrCat(one.raised_to + one.terms.block - 1);
    return OwnCall(lua::kQuorumRaise,
                   std::vector<std::string>(one.call.keys.begin(), one.call.keys.begin() + 6),
                   {one.hold, last, "0", "0"});
  });
  round.Put(*one.raised, to);
  return false;
}

// A round that has failed leaves nothing behind: whoever has granted, or may have, gives it back,
// and keeps the place in the queue.
void Quorum::GiveBack(Case& one) {
  const std::vector<Vote>& votes = one.asked->votes;
  uint64_t ticket = one.terms.ticket;
  for (const Vote& vote : votes) {
    if (vote.kind != Vote::Kind::kQueued) continue;
    ticket = ticket == 0 ? vote.ticket : std::min(ticket, vote.ticket);
  }
  const base::Instant expires = base::Now() + absl::Milliseconds(one.lease_ms);
  for (size_t node = 0; node < votes.size(); ++node) {
    if (votes[node].kind != Vote::Kind::kYes && !votes[node].uncertain()) continue;
    OwnCall call = CallFor(one, node);
    if (one.terms.wait) {
      call.args[call.args.size() - 4] = "queue";
      call.args[kTermsWord] = WithTicket(call.args[kTermsWord], ticket);
    } else {
      const int64_t gone_ms = votes[node].uncertain() ? one.lease_ms : 0;
      call = CancelOf(one.call, one.hold, std::string(one.call.keys[4]), gone_ms);
      call.keys.back() = one.call.keys[5];
    }
    nodes_[node]->Tell(std::string(one.call.keys.front()),
                       Encode(*nodes_[node], call, /*by_text=*/true), expires);
  }
}

absl::StatusOr<redis::Reply> Quorum::WhenGranted(Case& one, uint64_t token) {
  ledger_->Granted(one.hold, one.terms.attempt, token + one.terms.block - 1);
  return GrantedBy(one.asked->votes, token);
}

absl::StatusOr<redis::Reply> Quorum::WhenNotGranted(Case& one) {
  GiveBack(one);
  const std::vector<Vote>& votes = one.asked->votes;
  if (Counted(votes) < majority()) return WhyNoQuorum(votes, servers_);
  // If a majority is free, or will be, several were after it at the same time.
  const int64_t wait_ms = std::max<int64_t>(WaitFor(votes), 0);
  absl::Duration wait = absl::Milliseconds(wait_ms);
  const bool given_back = std::any_of(
      votes.begin(), votes.end(), [](const Vote& vote) { return vote.kind == Vote::Kind::kYes; });
  const int splits = given_back ? ledger_->Split(one.hold) : 0;
  wait += base::Jittered(kShortestSplit * (1 << std::min(splits, kMostDoublings)));
  return NotGranted(votes, one.terms, absl::ToInt64Milliseconds(wait));
}

// Nodes without a hold that a majority has are given it, so that it outlives the loss of others.
void Quorum::Heal(const Case& one) {
  const std::vector<Vote>& votes = one.asked->votes;
  ledger_->WhileItStands(one.hold, [&](const Ledger::Hold& hold) {
    for (size_t node = 0; node < votes.size(); ++node) {
      if (votes[node].kind != Vote::Kind::kNo) continue;
      std::vector<std::string> keys(one.call.keys.begin(), one.call.keys.begin() + 4);
      keys.push_back(hold.gone_key);
      keys.emplace_back(one.call.keys.back());
      const OwnCall heal(lua::kQuorumRaise, std::move(keys),
                         {one.hold, absl::StrCat(hold.last_token), absl::StrCat(one.lease_ms),
                          absl::StrCat(hold.attempt)});
      const redis::Command command = Encode(*nodes_[node], heal, /*by_text=*/true);
      nodes_[node]->at().Send(heal.keys.front(), command, nullptr).IgnoreError();
    }
  });
}

absl::StatusOr<redis::Reply> Quorum::ResultOf(Case& one) {
  const std::vector<Vote>& votes = one.asked->votes;
  if (one.op == Op::kAcquire) {
    return one.granted ? WhenGranted(one, one.raised_to) : WhenNotGranted(one);
  }
  if (one.op == Op::kOther || one.op == Op::kCancel) {
    if (Counted(votes) < majority()) return WhyNoQuorum(votes, servers_);
    if (one.op == Op::kCancel) return TextReply("unknown" + NotesOf(votes));
    return MostTelling(one.asked->answers);
  }
  const Verdict verdict = JudgeStanding(votes);
  const bool yes = verdict.kind == Verdict::Kind::kYes;
  if (!yes && verdict.kind != Verdict::Kind::kNo) return WhyNoQuorum(votes, servers_);
  if (one.op == Op::kRelease) {
    return yes ? ReleasedBy(votes) : TextReply("not_held" + NotesOf(votes));
  }
  if (yes) Heal(one);
  return TextReply(yes ? "held" : "not_held");
}

void Quorum::RunBatch(absl::Span<const redis::ScriptCall> calls, base::Instant deadline,
                      absl::Span<absl::StatusOr<redis::Reply>> results) {
  if (const absl::Status problem = Problem(); !problem.ok()) {
    return std::fill(results.begin(), results.end(), problem);
  }
  std::vector<std::unique_ptr<Case>> cases;
  Round round(nodes_);
  for (const redis::ScriptCall& call : calls) {
    cases.push_back(std::make_unique<Case>(call));
    Begin(*cases.back());
    Ask(round, *cases.back());
  }
  round.Await(
      [&] {
        bool all = true;
        for (const auto& one : cases) all = Decided(round, *one) && all;
        return all;
      },
      deadline);
  late_ += static_cast<uint64_t>(
      std::count_if(cases.begin(), cases.end(), [](const auto& one) { return !one->decided; }));
  // Where a round has failed, a moment shows who has granted.
  const auto settled = [](const std::unique_ptr<Case>& one) {
    const std::vector<Vote>& votes = one->asked->votes;
    return one->op != Op::kAcquire || one->granted || Open(votes) == 0;
  };
  if (!std::all_of(cases.begin(), cases.end(), settled)) {
    round.Await([&] { return std::all_of(cases.begin(), cases.end(), settled); },
                std::min(deadline, base::Now() + kLinger));
  }
  const base::Instant now = base::Now();
  for (size_t i = 0; i < cases.size(); ++i) {
    for (size_t node = 0; node < nodes_.size(); ++node) {
      const Vote& vote = cases[i]->asked->votes[node];
      if (vote.clock_us > 0) clock_.Note(vote.clock_us, cases[i]->asked_at, now);
      if (vote.kind == Vote::Kind::kQueued && cases[i]->terms.listen) {
        nodes_[node]->at().NoteHearing(calls[i].keys.front(), !vote.deaf, cases[i]->asked_at);
      }
    }
    results[i] = ResultOf(*cases[i]);
  }
}

absl::StatusOr<redis::Reply> Quorum::Run(const redis::ScriptCall& call, base::Instant deadline,
                                         redis::StillWanted) {
  absl::StatusOr<redis::Reply> result;
  RunBatch(absl::MakeConstSpan(&call, 1), deadline, absl::MakeSpan(&result, 1));
  return result;
}

}  // namespace redlatch::quorum
