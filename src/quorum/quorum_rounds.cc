// What the votes of all nodes come to, and what follows of that.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lua/scripts.h"
#include "src/base/random.h"
#include "src/quorum/quorum_case.h"
#include "src/quorum/verdict.h"

namespace redlatch::quorum {
namespace {

// In a round that failed, for those who have not answered: what they granted is given back.
constexpr absl::Duration kLinger = absl::Milliseconds(2);
// What people ask may depend on those who answer last.
constexpr absl::Duration kAgreeFor = absl::Milliseconds(50);
constexpr absl::Duration kShortestSplit = absl::Milliseconds(2);
constexpr int kMostDoublings = 6;
// How long a round in which a majority has answered, but not granted, waits for the others: so many
// times what that majority took, at least so long, and twice as long after each round that failed
// so.
constexpr int kPatience = 4;
constexpr absl::Duration kShortestPatience = absl::Milliseconds(2);
constexpr int kMostDoublingsOfPatience = 10;
constexpr absl::Duration kLongestPatience = absl::Milliseconds(500);
// Of a renewal, which is repeated: others wait behind it.
constexpr absl::Duration kPatienceOfRenewals = absl::Milliseconds(50);
// Of the rounds in a row that failed so, one in so many lets others go first.
constexpr int kYieldsEach = 4;

}  // namespace

// Others may be waiting for what has been granted: it is given back if those who would decide it
// hang.
bool Quorum::HasWaited(Case& one) {
  if (Counted(one.asked->votes) < majority()) return false;
  const base::Instant now = base::Now();
  if (one.patience == base::Instant::Infinite()) {
    // A majority that is asked to raise has answered just before.
    absl::Duration least = one.op == Op::kRenew ? kPatienceOfRenewals : kShortestPatience;
    if (one.raised != nullptr) least = kLongestPatience;
    const absl::Duration patience = std::max(least, kPatience * (now - one.asked_at));
    const int splits = std::min(ledger_->splits(one.hold), kMostDoublingsOfPatience);
    one.patience = now + std::max(patience, std::min(kLongestPatience, patience * (1 << splits)));
  }
  return one.patience <= now;
}

bool Quorum::Decided(Round& round, Case& one) {
  if (one.decided) return true;
  const std::vector<Vote>& votes = one.asked->votes;
  if (one.op != Op::kAcquire && one.op != Op::kRenew) {
    const bool agree =
        one.op != Op::kOther || Agree(one.asked->answers) || one.asked_at + kAgreeFor < base::Now();
    return one.decided = (Counted(votes) >= majority() && agree) || Open(votes) == 0;
  }
  if (one.raised != nullptr) {
    const Verdict verdict = Judge(one.raised->votes);
    one.granted = verdict.kind == Verdict::Kind::kYes;
    return one.decided = verdict.kind != Verdict::Kind::kOpen || HasWaited(one);
  }
  if (one.op != Op::kAcquire) {
    return one.decided = JudgeStanding(votes).kind != Verdict::Kind::kOpen || HasWaited(one);
  }
  const Verdict verdict = Judge(votes);
  if (verdict.kind == Verdict::Kind::kOpen) return one.decided = HasWaited(one);
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
  one.patience = base::Instant::Infinite();
  one.raised_to = verdict.token;
  one.raised =
      std::make_unique<Question>(nodes_.size(), one.call.keys.front(), alike_, [&one](size_t) {
        const std::string last = absl::StrCat(one.raised_to + one.terms.block - 1);
        return OwnCall(lua::kQuorumRaise,
                       std::vector<std::string>(one.call.keys.begin(), one.call.keys.begin() + 6),
                       {one.hold, last, "0", "0"});
      });
  round.Put(*one.raised, to);
  return false;
}

// A node that could not be asked says why, though it was still hoped for.
absl::Status Quorum::NoQuorum(std::vector<Vote> votes, bool stands) const {
  for (size_t node = 0; node < votes.size(); ++node) {
    if (votes[node].kind == Vote::Kind::kOpen) votes[node].failure = nodes_[node]->failure();
  }
  return WhyNoQuorum(votes, servers_, stands);
}

absl::StatusOr<redis::Reply> Quorum::WhenGranted(Case& one, uint64_t token) {
  ledger_->Granted(one.hold, one.terms.attempt, token + one.terms.block - 1,
                   one.asked_at + absl::Milliseconds(one.lease_ms));
  return GrantedBy(one.asked->votes, token);
}

absl::StatusOr<redis::Reply> Quorum::WhenNotGranted(Case& one) {
  const std::vector<Vote>& votes = one.asked->votes;
  NodeSet given_back = 0;
  NodeSet unknown = 0;
  for (size_t node = 0; node < votes.size(); ++node) {
    if (votes[node].kind == Vote::Kind::kYes) given_back |= Only(node);
    if (votes[node].uncertain()) unknown |= Only(node);
  }
  if (Counted(votes) < majority()) {
    GiveBack(one, /*yields=*/true);
    return NoQuorum(votes, /*stands=*/false);
  }
  const int splits = given_back != 0 ? ledger_->Split(one.hold) : 0;
  GiveBack(one, (splits + 1) % kYieldsEach == 0);
  // If a majority is free, or will be, several were after it at the same time.
  const int64_t wait_ms = std::max<int64_t>(WaitFor(votes), 0);
  absl::Duration wait = absl::Milliseconds(wait_ms);
  // So may be those that have not answered: they will not say it when they give it back.
  const NodeSet free = given_back != 0 ? given_back | unknown : 0;
  if (ledger_->GivenBack(one.hold, free, majority())) wait = absl::ZeroDuration();
  wait += base::Jittered(kShortestSplit * (1 << std::min(splits, kMostDoublings)));
  // A try is over, and what it may have left is owed.
  if (!one.terms.wait) ledger_->End(one.hold);
  return NotGranted(votes, one.terms, absl::ToInt64Milliseconds(wait));
}

// None of a majority has it any more, and the others are told.
absl::StatusOr<redis::Reply> Quorum::WhenReleased(absl::Span<const Vote> votes) {
  const bool none_had_it = JudgeStanding(votes).kind == Verdict::Kind::kNo;
  return none_had_it ? TextReply("not_held" + NotesOf(votes)) : ReleasedBy(votes);
}

absl::StatusOr<redis::Reply> Quorum::ResultOf(Case& one) {
  const std::vector<Vote>& votes = one.asked->votes;
  if (one.op == Op::kForce) EndForced(one);
  if (one.op == Op::kAcquire) {
    return one.granted ? WhenGranted(one, one.raised_to) : WhenNotGranted(one);
  }
  if (one.op != Op::kRenew && Counted(votes) < majority()) {
    return NoQuorum(votes, /*stands=*/one.op == Op::kRelease || one.op == Op::kCancel);
  }
  if (one.op == Op::kForce || one.op == Op::kOther) return MostTelling(one.asked->answers);
  if (one.op == Op::kCancel) return TextReply("unknown" + NotesOf(votes));
  if (one.op == Op::kRelease) return WhenReleased(votes);
  const Verdict::Kind verdict = JudgeStanding(votes).kind;
  const bool yes = verdict == Verdict::Kind::kYes;
  const bool no = verdict == Verdict::Kind::kNo;
  if (!yes && !no) {
    ledger_->Split(one.hold);  // it is given longer the next time
    return NoQuorum(votes, /*stands=*/true);
  }
  if (yes) Heal(one);
  return TextReply(yes ? "held" : "not_held");
}

void Quorum::AwaitAll(Round& round, absl::Span<const std::unique_ptr<Case>> cases,
                      base::Instant deadline) {
  // Those whose own time is over are not waited for.
  const auto all_decided = [&] {
    bool all = true;
    const base::Instant now = base::Now();
    for (const auto& one : cases) all = (one->call.until <= now || Decided(round, *one)) && all;
    return all;
  };
  const auto patience = [&] {
    base::Instant first = deadline;
    const base::Instant now = base::Now();
    for (const auto& one : cases) {
      if (one->decided || one->call.until <= now) continue;
      first = std::min({first, one->patience, one->call.until});
    }
    return first;
  };
  while (!all_decided() && base::Now() < deadline) {
    const base::Instant until = patience();
    round.Await([&] { return all_decided() || patience() < until; }, until);
  }
}

void Quorum::RunBatch(absl::Span<const redis::ScriptCall> calls, base::Instant deadline,
                      absl::Span<absl::StatusOr<redis::Reply>> results) noexcept {
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
  AwaitAll(round, cases, deadline);
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
    std::vector<int64_t> clocks;
    for (const Vote& vote : cases[i]->asked->votes) {
      if (vote.clock_us > 0) clocks.push_back(vote.clock_us);
    }
    const bool of_majority = clocks.size() >= majority();
    clock_.Note(std::move(clocks), of_majority, now);
    for (size_t node = 0; node < nodes_.size(); ++node) {
      const Vote& vote = cases[i]->asked->votes[node];
      if (vote.kind == Vote::Kind::kQueued && cases[i]->terms.listen) {
        nodes_[node]->at().NoteHearing(calls[i].keys.front(), !vote.deaf, cases[i]->asked_at);
      }
    }
    results[i] = ResultOf(*cases[i]);
  }
}

absl::StatusOr<redis::Reply> Quorum::Run(const redis::ScriptCall& call, base::Instant deadline,
                                         redis::StillWanted) noexcept {
  absl::StatusOr<redis::Reply> result;
  RunBatch(absl::MakeConstSpan(&call, 1), deadline, absl::MakeSpan(&result, 1));
  return result;
}

}  // namespace redlatch::quorum
