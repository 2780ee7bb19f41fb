#include "src/redis/link/script_runner.h"

#include <algorithm>
#include <limits>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "src/base/mutex.h"
#include "src/base/parker.h"
#include "src/base/random.h"
#include "src/base/sha1.h"
#include "src/base/status.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {

AckedConnection::AckedConnection(const Url& url, Mark mark, std::optional<FirstScript> begin,
                                 std::function<std::optional<Peer>()> commands_peer)
    : url_(url),
      server_(url.DebugString()),
      mark_(std::move(mark)),
      begin_(std::move(begin)),
      commands_peer_(std::move(commands_peer)) {}

void AckedConnection::operator delete(AckedConnection* connection, std::destroying_delete_t) {
  if (connection->fork_guard_.InForkedChild()) {
    if (connection->connection_) connection->connection_->CloseInForkedChild();
    return;
  }
  connection->~AckedConnection();
  ::operator delete(connection);
}

// Keeps the connection only if it leads to the server that gets commands, and commands were not
// reconnected since it was made.
absl::Status AckedConnection::Connect(base::Instant deadline) {
  std::optional<Peer> peer = commands_peer_();
  const bool same =
      peer && peer_ && peer->target.address == peer_->target.address && peer->since == peer_->since;
  if (connection_ && (!peer || same)) return absl::OkStatus();
  connection_.reset();
  Endpoint endpoint;
  if (peer) endpoint = [&peer](base::Instant) { return std::vector<Target>{peer->target}; };
  auto opened = PlainConnection::Open(url_, deadline, std::move(endpoint));
  if (!opened.ok()) return opened.status();
  if (begin_) {
    auto reply = opened->Call(begin_->command, deadline);
    if (!reply.ok()) return reply.status();
    if (absl::Status begun = CheckBegun(*begin_, *reply, url_); !begun.ok()) return begun;
  }
  connection_ = *std::move(opened);
  peer_ = std::move(peer);
  return absl::OkStatus();
}

absl::StatusOr<base::Acks> AckedConnection::Run(absl::Span<const Command> commands,
                                                std::string_view key,
                                                const base::AcksWanted& wanted,
                                                absl::Duration ack_timeout, base::Instant deadline,
                                                absl::Span<absl::StatusOr<Reply>> replies) {
  const base::MutexLock lock(mu_);
  const auto fail = [&](absl::Status why) {
    std::fill(replies.begin(), replies.end(), why);
    return why;
  };
  if (absl::Status connected = Connect(deadline); !connected.ok()) {
    return fail(MarkNotSent(std::move(connected)));
  }
  std::vector<Command> all(commands.begin(), commands.end());
  all.push_back(mark_(key));
  const std::string millis =
      std::to_string(std::max<int64_t>(absl::ToInt64Milliseconds(ack_timeout), 1));
  const std::string replicas = std::to_string(wanted.replicas);
  all.push_back(wanted.fsync ? Command({"WAITAOF", "1", replicas, millis})
                             : Command({"WAIT", replicas, millis}));
  // It is kept only if all replies have been read, and its server seems to be the primary.
  bool keeps = false;
  const absl::Cleanup close = [&] {
    if (!keeps) connection_.reset();
  };
  absl::StatusOr<std::vector<Reply>> answers = connection_->CallAll(all, deadline);
  if (!answers.ok()) return fail(MarkMayHaveExecuted(answers.status()));
  std::move(answers->begin(), answers->end() - 2, replies.begin());
  const Reply& mark = (*answers)[commands.size()];
  keeps = !mark.is_error();
  return Read(mark, answers->back(), wanted.fsync);
}

absl::StatusOr<base::Acks> AckedConnection::Read(const Reply& mark, const Reply& answer,
                                                 bool fsync) const {
  if (mark.is_error()) return ErrorStatus(mark.text, server_);
  if (answer.is_error() && fsync && ClassifyError(answer.text) == ErrorCode::kUnknownCommand) {
    return absl::FailedPreconditionError(
        absl::StrCat(server_, " does not know WAITAOF; fsync needs Redis 7.2 or later, or Valkey"));
  }
  if (answer.is_error() && fsync && answer.text.find("appendonly") != std::string::npos) {
    return absl::FailedPreconditionError(absl::StrCat(
        server_, " keeps no append-only file, which fsync needs (CONFIG SET appendonly yes)"));
  }
  if (answer.is_error()) return ErrorStatus(answer.text, server_);
  if (!fsync) return base::Acks{.replicas = static_cast<int16_t>(answer.integer), .synced = false};
  if (answer.elements.size() != 2) {
    return absl::UnavailableError(
        absl::StrCat(server_, " answered ", answer.DebugString(), " to WAITAOF"));
  }
  return base::Acks{.replicas = static_cast<int16_t>(answer.elements[1].integer),
                    .synced = answer.elements[0].integer > 0};
}

namespace {

// The pause before a call that was refused for a reason that passes is sent again.
constexpr absl::Duration kFirstBackoff = absl::Milliseconds(2);
constexpr absl::Duration kLongestBackoff = absl::Milliseconds(100);
// One redirection leads to the owner, or two if the slot has just moved. After a third one, the
// call pauses.
constexpr int kRedirectsAtOnce = 3;
// In a batch for several servers: how long one that is not connected may delay the next one, and
// for how long calls are sent again.
constexpr absl::Duration kBriefly = absl::Milliseconds(50);

absl::Status NoTimeForText(std::string_view server) {
  return MarkNotSent(absl::UnavailableError(absl::StrCat(
      std::string(server), " does not know the script, and there was no time left to send it")));
}

}  // namespace

const LuaScript& ShardedScript(const LuaScript& script) {
  struct Sharded {
    std::string body, sha1;
    LuaScript script;
  };
  static auto* const mu = new base::Mutex();
  static auto* const known = new std::map<std::string, Sharded, std::less<>>();
  const base::MutexLock lock(*mu);
  if (const auto found = known->find(script.sha1); found != known->end()) {
    return found->second.script;
  }
  Sharded made;
  made.body = absl::StrReplaceAll(absl::string_view(script.body.data(), script.body.size()),
                                  {{"'PUBLISH'", "'SPUBLISH'"}, {"'NUMSUB'", "'SHARDNUMSUB'"}});
  made.sha1 = base::Sha1Hex(made.body);
  Sharded& its = known->emplace(script.sha1, std::move(made)).first->second;
  its.script = {.body = its.body, .sha1 = its.sha1};
  return its.script;
}

absl::StatusOr<Reply> ResultOfPost(absl::StatusOr<Reply> answer, std::string_view server) noexcept
    try {
  if (!answer.ok() || !answer->is_error()) return answer;
  const ErrorCode code = ClassifyError(answer->text);
  if (code == ErrorCode::kNoScript) return NoTimeForText(server);
  absl::Status refused = ErrorStatus(answer->text, server);
  const bool elsewhere =
      RedirectOf(refused) || code == ErrorCode::kTryAgain || code == ErrorCode::kClusterDown;
  return elsewhere ? MarkNotSent(std::move(refused)) : refused;
} catch (const std::bad_alloc&) {
  return base::NoMemory();  // it was refused in any case
}

// ---- What is known of one server.

bool ScriptServer::Knows(const LuaScript& script) {
  if (known_over_.load(std::memory_order_relaxed) != commands_->made()) return false;
  return std::any_of(known_.begin(), known_.end(),
                     [&](const auto& each) { return each.load() == script.sha1.data(); });
}

void ScriptServer::Learns(const LuaScript& script) {
  const uint64_t made = commands_->made();
  if (known_over_.exchange(made) != made) {
    for (auto& each : known_) each.store(nullptr);
  }
  for (auto& each : known_) {
    const char* none = nullptr;
    if (each.compare_exchange_strong(none, script.sha1.data())) return;
  }
}

// ---- One batch of calls.

class ScriptRunner::Batch {
 public:
  struct Acked {
    const base::AcksWanted& wanted;
    absl::Duration ack_timeout;
    absl::StatusOr<base::Acks> acks =
        base::Acks{.replicas = std::numeric_limits<int16_t>::max(), .synced = true};
  };

  Batch(const ScriptRunner& runner, absl::Span<const ScriptCall> calls, base::Instant deadline,
        absl::Span<absl::StatusOr<Reply>> results, StillWanted still_wanted, Acked* acked = nullptr)
      : router_(runner.router_),
        runner_(runner),
        calls_(calls),
        deadline_(deadline),
        results_(results),
        still_wanted_(still_wanted),
        acked_(acked) {
    for (size_t i = 0; i < calls.size(); ++i) unfinished_.push_back({.index = i});
  }

  void Run() {
    while (!unfinished_.empty()) {
      Group();
      for (ServerCalls& batch : servers_) Encode(batch);
      // All servers get their calls before any reply is waited for. Until all replies have come,
      // nothing may throw.
      const bool together = servers_.size() > 1 && acked_ == nullptr;
      for (ServerCalls& batch : servers_) {
        batch.posted =
            together && batch.server->commands().Post(batch.commands, batch.in_flight).ok();
      }
      for (ServerCalls& batch : servers_) {
        if (batch.posted) batch.server->commands().Finish(batch.in_flight, deadline_);
      }
      for (ServerCalls& batch : servers_) {
        if (!batch.posted) {
          RunNow(batch, together ? std::min(deadline_, base::Now() + kBriefly) : deadline_);
        }
        Judge(batch);
      }
      Pause();
    }
  }

  // The same for a batch of one call, which the single server has answered with `reply`.
  void RunAfter(absl::StatusOr<Reply> reply) {
    ServerCalls& batch = servers_.emplace_back();
    batch.server = runner_.server_;
    batch.calls = std::exchange(unfinished_, {});
    batch.replies.push_back(std::move(reply));
    Judge(batch);
    Pause();
    Run();
  }

 private:
  // A call that has no final result yet.
  struct Unfinished {
    size_t index;
    base::Instant due = base::Instant();  // it is not sent before
    ScriptServerPtr ask_at = nullptr;     // the server that gets it after ASKING
    int redirects = 0;
    bool by_text = false;
  };
  // The unfinished calls that go to one server together.
  struct ServerCalls {
    ScriptServerPtr server;
    absl::InlinedVector<Unfinished, 1> calls;
    absl::InlinedVector<Command, 1> commands;
    absl::InlinedVector<absl::StatusOr<Reply>, 1> replies;
    InFlight in_flight;
    bool posted = false;
  };
  enum class Again : uint8_t { kNo, kNow, kLater };

  // Groups the calls that are due by server, in the order of their first calls.
  void Group() {
    servers_.clear();
    const base::Instant now = base::Now();
    for (Unfinished& call : std::exchange(unfinished_, {})) {
      if (now < call.due) {
        unfinished_.push_back(std::move(call));
        continue;
      }
      absl::StatusOr<ScriptServerPtr> server = ServerOf(call);
      if (!server.ok()) {
        results_[call.index] = server.status();
        Settle(std::move(call), Again::kLater);
        continue;
      }
      auto its = std::find_if(servers_.begin(), servers_.end(),
                              [&](const ServerCalls& each) { return each.server == *server; });
      if (its == servers_.end()) {
        its = servers_.emplace(its);
        its->server = *std::move(server);
      }
      its->calls.push_back(std::move(call));
    }
  }

  absl::StatusOr<ScriptServerPtr> ServerOf(const Unfinished& call) {
    if (router_ == nullptr) return runner_.server_;
    if (call.ask_at != nullptr) return call.ask_at;
    // In a batch, the other calls do not wait for this one's owner.
    return router_->OwnerOf(calls_[call.index].key(),
                            calls_.size() == 1 ? deadline_ : base::Instant());
  }

  void Encode(ServerCalls& batch) const {
    for (const Unfinished& call : batch.calls) {
      if (call.ask_at != nullptr) batch.commands.push_back(Command({"ASKING"}));
      batch.commands.push_back(runner_.Encode(calls_[call.index], call.by_text, *batch.server));
    }
    batch.replies.assign(batch.commands.size(), Reply());
    batch.in_flight.results = absl::MakeSpan(batch.replies);
    batch.in_flight.parker.Arm();
  }

  void RunNow(ServerCalls& batch, base::Instant until) {
    const auto replies = absl::MakeSpan(batch.replies);
    if (acked_ == nullptr) {
      return batch.server->commands().CallBatch(batch.commands, until, replies);
    }
    const absl::StatusOr<base::Acks> acks =
        batch.server->acked_->Run(batch.commands, calls_[batch.calls.front().index].key(),
                                  acked_->wanted, acked_->ack_timeout, until, replies);
    // The connection's mark lies in the first key's slot. If that slot moves, no call's acks are
    // known.
    if (router_ != nullptr && RedirectOf(acks.status())) {
      std::fill(replies.begin(), replies.end(), acks.status());
    } else if (!acks.ok()) {
      acked_->acks = acks.status();
    } else if (acked_->acks.ok()) {
      acked_->acks->replicas = std::min(acked_->acks->replicas, acks->replicas);
      acked_->acks->synced = acked_->acks->synced && acks->synced;
    }
  }

  void Pause() const {
    base::Instant due = base::Instant::Infinite();
    for (const Unfinished& call : unfinished_) due = std::min(due, call.due);
    if (!unfinished_.empty() && base::Now() < due) base::Parker().ParkUntil(due);
  }

  void Judge(ServerCalls& batch) {
    later_.reset();
    size_t at = 0;
    for (Unfinished& call : batch.calls) {
      const bool asked = std::exchange(call.ask_at, nullptr) != nullptr;
      if (asked) ++at;
      absl::StatusOr<Reply>& reply = batch.replies[at++];
      if (reply.ok() && !reply->is_error()) {
        results_[call.index] = std::move(reply);
        continue;
      }
      const Again again = AfterFailure(call, *batch.server, std::move(reply), asked);
      Settle(std::move(call), again);
    }
  }

  // Sets the call's result, which it keeps if it is not sent again.
  Again AfterFailure(Unfinished& call, const ScriptServer& server, absl::StatusOr<Reply> reply,
                     bool asked) {
    absl::StatusOr<Reply>& result = results_[call.index];
    const std::string& name = server.commands().server();
    result = reply.ok() ? ErrorStatus(reply->text, name) : reply.status();
    const std::optional<Redirect> redirect =
        router_ == nullptr ? std::nullopt : RedirectOf(result.status());
    if (redirect) return AfterRedirect(call, *redirect, server);
    if (!reply.ok()) return AfterNoReply(call, server, asked);
    const ErrorCode code = ClassifyError(reply->text);
    if (calls_[call.index].script == nullptr) {
      result = std::move(reply);  // a command's error reply is its result
      return Again::kNo;
    }
    if (code == ErrorCode::kNoScript && !call.by_text) {
      result = NoTimeForText(name);
      call.by_text = true;
      return Again::kNow;
    }
    if (!IsTransient(code)) return Again::kNo;
    if (router_ == nullptr) return Again::kLater;
    router_->Refresh(base::Instant());
    return IsOwner(call, server) ? Again::kLater : Again::kNow;
  }

  Again AfterRedirect(Unfinished& call, const Redirect& redirect, const ScriptServer& server) {
    absl::StatusOr<Reply>& result = results_[call.index];
    result = absl::UnavailableError(absl::StrCat(
        "its slot ", redirect.slot, " is on the move, for longer than this could wait"));
    if (Limit() <= base::Now() || !still_wanted_()) return Again::kNo;
    ScriptServerPtr next = router_->Follow(redirect, server, MayWaitUntil());
    if (next == nullptr) {
      result = absl::UnavailableError(absl::StrCat(
          "its slot ", redirect.slot, " is said to be at ",
          HostAndPort{.host = redirect.host, .port = redirect.port}.text(), ", which ",
          runner_.name_,
          " does not name (to learn of a node without slots, its user needs +cluster|shards)"));
      return Again::kLater;
    }
    if (redirect.once) call.ask_at = std::move(next);
    return ++call.redirects % kRedirectsAtOnce == 0 ? Again::kLater : Again::kNow;
  }

  // The call was not sent, or its reply is lost.
  Again AfterNoReply(const Unfinished& call, const ScriptServer& server, bool asked) {
    if (router_ == nullptr) return Again::kNo;
    const absl::Status& status = results_[call.index].status();
    if (absl::IsUnavailable(status)) router_->Refresh(base::Instant());
    if (acked_ != nullptr && !RefusedForNow(status)) return Again::kNo;
    const bool elsewhere = !IsOwner(call, server);
    const bool not_sent =
        NotSent(status) && (absl::IsUnavailable(status) || absl::IsNotFound(status));
    if (!not_sent && !(RefusedForNow(status) && (asked || elsewhere))) return Again::kNo;
    if (elsewhere) return Again::kNow;
    return not_sent && router_->Refresh(MayWaitUntil()) ? Again::kNow : Again::kLater;
  }

  bool IsOwner(const Unfinished& call, const ScriptServer& server) const {
    return router_->IsOwnerOf(calls_[call.index].key(), &server);
  }

  // The call keeps the result that it has, or is unfinished again.
  void Settle(Unfinished call, Again again) {
    if (again == Again::kNo) return;
    const base::Instant now = base::Now();
    const base::Instant limit = call.by_text ? deadline_ : Limit();
    if (again == Again::kLater) {
      if (!later_) later_ = now + backoff_.Next();
      call.due = *later_;
    }
    if (limit <= std::max(now, call.due) || !still_wanted_()) return;
    unfinished_.push_back(std::move(call));
  }

  // Returns until when a call may be sent again. The servers of a batch do not wait for each other
  // for long.
  base::Instant Limit() {
    if (acked_ == nullptr && (router_ == nullptr || calls_.size() == 1)) return deadline_;
    if (!limit_) limit_ = std::min(deadline_, base::Now() + kBriefly);
    return *limit_;
  }
  base::Instant MayWaitUntil() { return calls_.size() == 1 ? Limit() : base::Instant(); }

  ScriptRouter* const router_;
  const ScriptRunner& runner_;
  const absl::Span<const ScriptCall> calls_;
  const base::Instant deadline_;
  const absl::Span<absl::StatusOr<Reply>> results_;
  const StillWanted still_wanted_;
  Acked* const acked_;
  absl::InlinedVector<Unfinished, 1> unfinished_;
  std::list<ServerCalls> servers_;  // they do not move, since replies come to them
  base::Backoff backoff_{kFirstBackoff, kLongestBackoff};
  std::optional<base::Instant> later_;  // when the calls that one reply has delayed are due
  std::optional<base::Instant> limit_;
};

// ---- The runner.

Command ScriptRunner::Encode(const ScriptCall& call, bool by_text,
                             const ScriptServer& server) const {
  if (call.command != nullptr) return *call.command;
  if (call.native == Native::kSetIfNone) {
    return Command({"SET", call.key(), call.args[0], "NX", "PX", call.args[1]});
  }
  if (call.native == Native::kDeleteIfEqual) {
    const ConditionalDelete known = server.commands().conditional_delete();
    if (known == ConditionalDelete::kDelifeq) {
      return Command({"DELIFEQ", call.key(), call.args[0]});
    }
    if (known == ConditionalDelete::kDelex) {
      return Command({"DELEX", call.key(), "IFEQ", call.args[0]});
    }
  }
  const LuaScript& script = router_ == nullptr ? *call.script : ShardedScript(*call.script);
  absl::InlinedVector<std::string_view, 24> words;
  const std::string key_count = std::to_string(call.keys.size());
  words.push_back(by_text ? "EVAL" : "EVALSHA");
  words.push_back(by_text ? script.body : script.sha1);
  words.push_back(key_count);
  words.insert(words.end(), call.keys.begin(), call.keys.end());
  words.insert(words.end(), call.args.begin(), call.args.end());
  return Command(words);
}

// One call for the only server needs no batch, unless that answers with an error.
void ScriptRunner::Run(absl::Span<const ScriptCall> calls, base::Instant deadline,
                       absl::Span<absl::StatusOr<Reply>> results, StillWanted still_wanted) const {
  if (router_ != nullptr || calls.size() != 1) {
    return Batch(*this, calls, deadline, results, still_wanted).Run();
  }
  const Command command = Encode(calls[0], /*by_text=*/false, *server_);
  server_->commands().CallBatch(absl::MakeConstSpan(&command, 1), deadline, results);
  if (!results[0].ok() || !results[0]->is_error()) return;
  Batch(*this, calls, deadline, results, still_wanted).RunAfter(std::move(results[0]));
}

absl::StatusOr<base::Acks> ScriptRunner::RunAcked(absl::Span<const ScriptCall> calls,
                                                  const base::AcksWanted& wanted,
                                                  absl::Duration ack_timeout,
                                                  base::Instant deadline,
                                                  absl::Span<absl::StatusOr<Reply>> results) const {
  Batch::Acked acked{.wanted = wanted, .ack_timeout = ack_timeout};
  Batch(*this, calls, deadline, results, AlwaysWanted, &acked).Run();
  return acked.acks;
}

absl::Status ScriptRunner::Post(const ScriptCall& call, InFlight& in_flight) const {
  ScriptServerPtr server = server_;
  if (router_ != nullptr) {
    auto owner = router_->OwnerOf(call.key(), base::Instant());
    if (!owner.ok()) return absl::UnavailableError(owner.status().message());
    server = *std::move(owner);
  }
  const bool known = call.script == nullptr || server->Knows(*call.script);
  const Command command = Encode(call, /*by_text=*/!known, *server);
  absl::Status sent = server->commands().Post(absl::MakeConstSpan(&command, 1), in_flight);
  if (sent.ok() && !known) server->Learns(*call.script);
  return sent;
}

}  // namespace redlatch::redis
