#include "src/quorum/quorum.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lua/scripts.h"
#include "src/base/majority.h"
#include "src/base/random.h"
#include "src/base/status.h"
#include "src/quorum/quorum_case.h"
#include "src/quorum/verdict.h"
#include "src/redis/link/scripts.h"
#include "src/redis/wire/errors.h"

namespace redlatch::quorum {
namespace {

constexpr absl::Duration kLastAnswers = absl::Milliseconds(100);

}  // namespace

Quorum::Quorum(Options options, Events events)
    : options_(std::move(options)),
      events_(std::move(events)),
      delay_ms_(absl::StrCat(absl::ToInt64Milliseconds(options_.restart_delay))) {
  for (size_t node = 0; node < options_.nodes; ++node) {
    Events its{.on_message = [this, node](std::string_view text) { OnMessage(node, text); },
               .on_reconnected =
                   [this] {
                     reconnected_ = true;
                     if (!stopped_) events_.on_reconnected();
                   },
               .on_subscribed = [](bool, std::string_view) {}};
    // Whatever is held is to stand there too, and whoever waits is to wait there.
    nodes_.push_back(std::make_unique<Node>(
        options_.make(node, std::move(its)),
        [this] {
          if (!stopped_) events_.on_reconnected();
        },
        [this] {
          const base::MutexLock lock(mu_);
          heard_.SignalAll();
        }));
    servers_.push_back(nodes_.back()->server());
    alike_ = alike_ && nodes_.back()->at().slot_tag("a").empty();
  }
}

// A majority is waited for when something is released. The others have a moment to answer, since
// what they must be told again they would not be told any more.
Quorum::~Quorum() {
  Stop();
  ReadAll(base::Now() + kLastAnswers, [this] {
    bool all = true;
    for (const auto& node : nodes_) all = node->TellRest() && all;
    return all;
  });
}

void Quorum::operator delete(Quorum* quorum, std::destroying_delete_t) {
  if (quorum->fork_guard_.InForkedChild()) {
    for (const auto& node : quorum->nodes_) node->CloseInForkedChild();
    return;
  }
  quorum->~Quorum();
  ::operator delete(quorum);
}

void Quorum::Stop() {
  stopped_ = true;
  for (const auto& node : nodes_) node->at().Stop();
  for (const auto& node : nodes_) node->Stop();
}

size_t Quorum::majority() const { return base::Majority(nodes_.size()); }

absl::Status Quorum::Problem() const {
  if (fork_guard_.InForkedChild()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the connections to ", options_.name,
                     " belong to the process that forked this one; connect again after fork()"));
  }
  return options_.problem.empty() ? absl::OkStatus() : absl::InvalidArgumentError(options_.problem);
}

// "look <hold> <name>": one node's word; the engine hears of it when a majority has said so. No
// node grants by message.
void Quorum::OnMessage(size_t node, std::string_view message) {
  constexpr std::string_view kLook = "look ";
  if (stopped_ || message.starts_with("grant ")) return;
  if (message.starts_with(kLook)) {
    const std::string_view rest = message.substr(kLook.size());
    if (!ledger_->Look(rest.substr(0, rest.find(' ')), node, majority())) return;
  }
  events_.on_message(message);
}

absl::Status Quorum::Connect(base::Instant deadline, std::vector<std::string>& warnings) {
  const absl::StatusOr<redis::Reply> pong = Call({}, redis::Command({"PING"}), deadline);
  for (const auto& node : nodes_) {
    for (std::string& warning : node->TakeWarnings()) warnings.push_back(std::move(warning));
  }
  if (!pong.ok()) return pong.status();
  return absl::OkStatus();
}

// Asks all in the same words, until a majority has answered.
Question Quorum::AskAll(std::string_view key, const OwnCall& call, base::Instant deadline) {
  Question question(nodes_.size(), key, /*same=*/true, [&](size_t) { return call; });
  Round round(nodes_);
  round.Put(question);
  round.Await([&] { return Counted(question.votes) >= majority() || Open(question.votes) == 0; },
              deadline);
  return question;
}

// What the first of a majority says.
absl::StatusOr<redis::Reply> Quorum::Call(std::string_view key, const redis::Command& command,
                                          base::Instant deadline) {
  if (absl::Status problem = Problem(); !problem.ok()) return problem;
  Question question = AskAll(key, OwnCall(command), deadline);
  if (Counted(question.votes) < majority()) return NoQuorum(question.votes, /*stands=*/false);
  for (absl::StatusOr<redis::Reply>& answer : question.answers) {
    if (answer.ok() && answer->type != redis::Reply::Type::kNil) return std::move(answer);
  }
  return redis::Reply();
}

std::vector<std::string> Quorum::Get(absl::Span<const std::string> keys, base::Instant deadline) {
  std::vector<std::string> texts(keys.size());
  if (!Problem().ok()) return texts;
  std::vector<std::string> command = {"MGET"};
  command.insert(command.end(), keys.begin(), keys.end());
  const Question question = AskAll({}, OwnCall(std::move(command)), deadline);
  for (const absl::StatusOr<redis::Reply>& answer : question.answers) {
    for (size_t i = 0; answer.ok() && i < answer->elements.size() && i < texts.size(); ++i) {
      if (texts[i].empty()) texts[i] = answer->elements[i].text;
    }
  }
  return texts;
}

absl::StatusOr<base::Acks> Quorum::RunAcked(absl::Span<const redis::ScriptCall>,
                                            const base::AcksWanted&, absl::Duration, base::Instant,
                                            absl::Span<absl::StatusOr<redis::Reply>> results) {
  const absl::Status refused =
      absl::InvalidArgumentError("a quorum has no replica acks; its servers are each other's");
  std::fill(results.begin(), results.end(), refused);
  return refused;
}

absl::Status Quorum::Send(std::string_view key, const redis::Command& command, Done done) {
  if (absl::Status problem = Problem(); !problem.ok()) return problem;
  absl::Status sent = absl::UnavailableError(absl::StrCat(options_.name, " is not connected"));
  for (const auto& node : nodes_) {
    if (node->at().Send(key, command, sent.ok() ? nullptr : done).ok()) sent = absl::OkStatus();
  }
  return sent;
}

bool Quorum::Drain(std::string_view key, base::Instant until) {
  bool all = true;
  for (const auto& node : nodes_) all = node->at().Drain(key, until) && all;
  return all;
}

bool Quorum::subscribed(std::string_view key) const {
  const auto hear = static_cast<size_t>(std::count_if(
      nodes_.begin(), nodes_.end(), [&](const auto& node) { return node->at().subscribed(key); }));
  return hear >= majority();
}

absl::Status Quorum::Subscribe(std::string_view key, base::Instant deadline,
                               const std::stop_token& stop) {
  if (absl::Status problem = Problem(); !problem.ok()) return problem;
  const std::stop_callback on_stop(stop, [this] {
    const base::MutexLock lock(mu_);
    heard_.SignalAll();
  });
  std::vector<std::shared_ptr<const Node::Listening>> attempts;
  for (const auto& node : nodes_) attempts.push_back(node->Listen(key));
  absl::Status why;
  const auto all_over = [&] {
    bool all = true;
    for (const auto& attempt : attempts) {
      all = all && attempt->over;
      const bool telling = attempt->over && !attempt->outcome.ok();
      if (telling && (why.ok() || absl::IsUnavailable(why))) why = base::Unshared(attempt->outcome);
    }
    return all;
  };
  const base::MutexLock lock(mu_);
  while (!subscribed(key) && !all_over() && base::Now() < deadline && !stop.stop_requested()) {
    heard_.WaitUntil(mu_, deadline);
  }
  if (subscribed(key)) return absl::OkStatus();
  if (!why.ok()) return why;
  return absl::UnavailableError(
      absl::StrCat("messages of too few of ", options_.name, " arrive (still trying)"));
}

bool Quorum::asks_if_subscribed(std::string_view key) const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [&](const auto& node) { return node->at().asks_if_subscribed(key); });
}

void Quorum::CheckSubscription(std::string_view key, base::Instant now,
                               std::optional<base::Instant> missed_since) {
  for (const auto& node : nodes_) node->at().CheckSubscription(key, now, missed_since);
}

redis::ServerGroup::Realigned Quorum::Realign() {
  for (const auto& node : nodes_) node->at().Realign();
  return {.reconnected = reconnected_.exchange(false)};
}

redis::ServerGroup::Stats Quorum::stats() const {
  Stats all{.late = late_};
  for (const auto& node : nodes_) {
    const Stats its = node->at().stats();
    all.connects += its.connects;
    all.breaks += its.breaks;
  }
  return all;
}

// ---- What the engine asks, as questions to all nodes.

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
  redis::ServerGroup& at = nodes_[node]->at();
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
    // The caller may have left, and with it the command that was to be repeated.
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

// ---- What the votes of all nodes come to, and what follows of that.

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
// Of a wait for the answers to what was posted.
constexpr absl::Duration kPostsTurn = absl::Milliseconds(1);

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
        nodes_[node]->at().NoteSubscribed(calls[i].keys.front(), !vote.deaf, cases[i]->asked_at);
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

// ---- Posted releases: sent to all nodes at once, their votes counted as they come.

// One release on its way. Lives until the last node has answered, or cannot any more.
class Quorum::Posted {
 public:
  Posted(Quorum& quorum, Question::Hear hear, redis::InFlight& in_flight)
      : quorum_(quorum), hear_(std::move(hear)), votes_(quorum.nodes_.size()), told_(&in_flight) {}

  // On any thread that reads; also while the nodes are being destroyed.
  void Answered(size_t node, Node& its, const absl::StatusOr<redis::Reply>& answer) {
    if (hear_) hear_(node, its, answer);
    // What is owed is sent now, with the text: no waiting caller will send that.
    if (answer.ok() && redis::ClassifyError(answer->text) == redis::ErrorCode::kNoScript) {
      its.SettleNow();
    }
    {
      const base::MutexLock lock(mu_);
      votes_[node] = VoteOf(answer, its);
      votes_[node].failure = base::Unshared(votes_[node].failure);  // it may end on another thread
    }
    TellIfDecided();
  }

  void NotSent(size_t node, Node& its, absl::Status why) {
    why = redis::MarkNotSent(std::move(why));
    if (hear_) hear_(node, its, why);
    const base::MutexLock lock(mu_);
    votes_[node].kind = Vote::Kind::kFailed;
    votes_[node].failure = std::move(why);
  }

  void TellIfDecided() {
    redis::InFlight* told = nullptr;
    {
      const base::MutexLock lock(mu_);
      if (!Decided() || told_ == nullptr) return;
      told = std::exchange(told_, nullptr);
      told->results.back() = Result();
    }
    std::exchange(told->done, nullptr)();  // the exchange may go with it
    --quorum_.posted_;
  }

  // Why it could be sent to no node.
  absl::Status Why() const {
    const base::MutexLock lock(mu_);
    return Result().status();
  }

 private:
  // What is to be said again, with its text or elsewhere, is no refusal.
  static Vote VoteOf(const absl::StatusOr<redis::Reply>& answer, const Node& its) {
    if (!answer.ok() || !answer->is_error()) return ReadVote(answer);
    const absl::Status why = redis::Unrepeated(answer, its.server()).status();
    if (!redis::NotSent(why)) return ReadVote(why);
    return ReadVote(redis::MarkNotSent(absl::UnavailableError(why.message())));
  }

  bool Decided() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return Counted(votes_) >= base::Majority(votes_.size()) || Open(votes_) == 0;
  }
  absl::StatusOr<redis::Reply> Result() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (Counted(votes_) >= base::Majority(votes_.size())) return WhenReleased(votes_);
    return WhyNoQuorum(votes_, quorum_.servers_, /*stands=*/true);
  }

  Quorum& quorum_;  // but not its nodes, which may be going
  const Question::Hear hear_;
  mutable base::Mutex mu_;
  std::vector<Vote> votes_ ABSL_GUARDED_BY(mu_);
  redis::InFlight* told_ ABSL_GUARDED_BY(mu_);  // null: it was
};

absl::Status Quorum::Post(const redis::ScriptCall& call, redis::InFlight& in_flight) noexcept {
  if (absl::Status problem = Problem(); !problem.ok()) return problem;
  Case one(call);
  Begin(one);
  const NodeSet uncertain = one.ending ? one.ending->uncertain : 0;
  const auto posted = std::make_shared<Posted>(*this, HearFor(one), in_flight);
  ++posted_;
  std::optional<redis::Command> words;  // of all
  bool sent_any = false;
  // An acquisition that follows asks the first node first: told last, it does both in one go.
  for (size_t node = nodes_.size(); node-- > 0;) {
    Node& its = *nodes_[node];
    if (!words || !alike_ || uncertain != 0) {
      words = Encode(its, CallFor(one, node), /*by_text=*/false);
    }
    absl::Status sent = its.Send(call.keys.front(), *words,
                                 [posted, node, &its](const absl::StatusOr<redis::Reply>& answer) {
                                   posted->Answered(node, its, answer);
                                 });
    sent_any = sent_any || sent.ok();
    if (!sent.ok()) posted->NotSent(node, its, std::move(sent));
  }
  if (!sent_any) {
    --posted_;
    return posted->Why();
  }
  posted->TellIfDecided();  // the last answer may have come before it was known who was not asked
  return absl::OkStatus();
}

bool Quorum::DrainAll(base::Instant until) {
  return ReadAll(until, [this] { return posted_ == 0; });
}

// All at the same time: a node that hangs does not delay what the others say.
bool Quorum::ReadAll(base::Instant until, absl::FunctionRef<bool()> enough) {
  for (;;) {
    const base::Instant now = base::Now();
    // Later than at once: those that stall are given up.
    const base::Instant at_most = std::min(now, until);
    for (const auto& node : nodes_) node->at().DrainAll(at_most);
    if (const bool all = enough(); all || until <= now) return all;
    absl::InlinedVector<pollfd, 8> fds;
    for (const auto& node : nodes_) {
      const redis::Transport::Polled polled = node->at().BeginPoll({});
      fds.push_back({.fd = polled.fd, .events = polled.events, .revents = 0});
    }
    // Of a cluster, another connection may be the one that brings the answer.
    base::Poll(fds.data(), fds.size(), std::min(until, now + kPostsTurn));
  }
}

// ---- What is sent after a round, so that no node keeps what is over, or lacks what stands.

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

// A round that has failed leaves nothing behind: each node that has granted, or may have, is told
// to take that back and to keep the place in the queue. If two have parts of the nodes, the one
// that came first gets those of the other; it lets the other go first now and then, for it may
// never get them.
void Quorum::GiveBack(Case& one, bool yields) {
  const std::vector<Vote>& votes = one.asked->votes;
  // If it was given up, the next request for it begins anew.
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
// are those that have not answered, as their answers are not waited for.
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
