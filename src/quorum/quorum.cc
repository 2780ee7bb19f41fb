#include "src/quorum/quorum.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/majority.h"
#include "src/base/status.h"
#include "src/quorum/verdict.h"
#include "src/redis/wire/errors.h"

namespace redlatch::quorum {

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
               .on_hearing = [](bool, std::string_view) {}};
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

Quorum::~Quorum() { Stop(); }

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

bool Quorum::listening(std::string_view key) const {
  const auto hear = static_cast<size_t>(std::count_if(
      nodes_.begin(), nodes_.end(), [&](const auto& node) { return node->at().listening(key); }));
  return hear >= majority();
}

absl::Status Quorum::Listen(std::string_view key, base::Instant deadline,
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
  while (!listening(key) && !all_over() && base::Now() < deadline && !stop.stop_requested()) {
    heard_.WaitUntil(mu_, deadline);
  }
  if (listening(key)) return absl::OkStatus();
  if (!why.ok()) return why;
  return absl::UnavailableError(
      absl::StrCat("messages of too few of ", options_.name, " arrive (still trying)"));
}

bool Quorum::wants_to_know(std::string_view key) const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [&](const auto& node) { return node->at().wants_to_know(key); });
}

void Quorum::Doubt(std::string_view key, base::Instant now,
                   std::optional<base::Instant> missed_since) {
  for (const auto& node : nodes_) node->at().Doubt(key, now, missed_since);
}

redis::Deployment::Realigned Quorum::Realign() {
  for (const auto& node : nodes_) node->at().Realign();
  return {.reconnected = reconnected_.exchange(false)};
}

redis::Deployment::Stats Quorum::stats() const {
  Stats all{.late = late_};
  for (const auto& node : nodes_) {
    const Stats its = node->at().stats();
    all.connects += its.connects;
    all.breaks += its.breaks;
  }
  return all;
}

}  // namespace redlatch::quorum
