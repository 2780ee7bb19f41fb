#include "redlatch/election.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lua/scripts.h"
#include "src/api/lock_body.h"
#include "src/base/atomic.h"
#include "src/base/error_address.h"
#include "src/base/random.h"
#include "src/lock/client_core.h"
#include "src/lock/kinds.h"
#include "src/lock/lock_handle.h"
#include "src/lock/observations.h"
#include "src/lock/state/timing.h"

namespace redlatch {

// The parts of a term that Proclaim() needs. They stay in place when a Leadership is moved.
struct Leadership::Term {
  std::shared_ptr<internal::ClientCore> core;
  std::shared_ptr<internal::LockHandle> handle;
  base::Atomic<uint64_t> revision{1};
};

namespace {

namespace kinds = internal::kinds;
using TermPtr = std::shared_ptr<Leadership::Term>;

constexpr size_t kLongestValue = 4096;
constexpr absl::Duration kFirstPause = absl::Milliseconds(200);
constexpr absl::Duration kLongestPause = absl::Seconds(10);

absl::Status CheckValue(std::string_view value) {
  if (value.size() <= kLongestValue) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a candidate's value of ", value.size(),
                                                 " bytes is too long; it can have ", kLongestValue,
                                                 " at most"));
}

// Returns a call of the script, which is repeated until a server answers.
internal::ScriptOperation::Call CallOf(const internal::ClientCore& core, const LuaScript& script,
                                       std::vector<std::string> args) {
  return {.script = &script,
          .args = [args = std::move(args)](int) { return args; },
          .until = base::Now() + core.options().unreachable_after + internal::kAnswerGrace,
          .command_timeout = core.command_timeout()};
}

absl::StatusOr<Leadership> LeadershipOf(absl::StatusOr<Lease> lease, TermPtr term) {
  if (!lease.ok()) return lease.status();
  return Leadership(*std::move(lease), std::move(term));
}

// Returns early if a stop is requested.
void Pause(absl::Duration length, const std::stop_token& stop) {
  std::mutex mu;
  std::condition_variable_any never;
  std::unique_lock<std::mutex> lock(mu);
  never.wait_for(lock, stop, absl::ToChronoNanoseconds(length), [] { return false; });
}

}  // namespace

// ---- Leadership.

absl::Status Leadership::Proclaim(std::string_view value) {
  if (term_ == nullptr) {
    return base::WithAddress(absl::FailedPreconditionError("an empty Leadership has no value"));
  }
  if (absl::Status refused = term_->core->Refusal(); !refused.ok()) return refused;
  if (absl::Status bad = CheckValue(value); !bad.ok()) return term_->handle->About(bad);
  const absl::Status over = absl::AbortedError("the term is over");
  if (!valid()) return term_->handle->About(over);
  const absl::StatusOr<std::string> reply = term_->handle->RunUntilAnswered(
      CallOf(*term_->core, lua::kElectionProclaim,
             {absl::StrCat(epoch().value()), absl::StrCat(++term_->revision), std::string(value)}),
      lost());
  if (absl::IsCancelled(reply.status())) return term_->handle->About(over);
  if (!reply.ok()) return reply.status();
  return *reply == "held" ? absl::OkStatus() : term_->handle->About(over);
}

// ---- Observation.

Observation::Observation(std::shared_ptr<internal::ClientCore> core,
                         std::shared_ptr<internal::LeaderListener> listener)
    : core_(std::move(core)), listener_(std::move(listener)) {}

Observation& Observation::operator=(Observation&& other) noexcept {
  if (this == &other) return *this;
  End();
  core_ = std::move(other.core_);
  listener_ = std::move(other.listener_);
  return *this;
}

Observation::~Observation() { End(); }

// A forked child leaves the listener alone, since its mutex may be locked; the client's own
// reference keeps it.
void Observation::End() {
  if (listener_ != nullptr && !core_->in_forked_child()) {
    core_->observations().Remove(*listener_);
    listener_->End();
  }
  listener_.reset();
  core_.reset();
}

// ---- Election.

Election::Election(const Client& client, std::string_view name, LockOptions options)
    : RedisLockBase(client, name, (options.turn = absl::ZeroDuration(), std::move(options)),
                    &kinds::kElectionKeys) {}

LockScripts Election::Scripts() const { return lua::kElectionScripts; }

// A candidate's value is the name of its Owner. So the value is in the queue with its candidate,
// and the script that makes the candidate the leader knows it.
LockTraits Election::Traits() const { return {.kind = kinds::kElection, .owners = true}; }

std::vector<std::string> Election::ExtraKeys() const {
  return {std::string(kinds::kLeaderSuffix), std::string(kinds::kObserversSuffix)};
}

// A call that waits keeps the body, even if the election is destroyed.
auto Election::KeepBody() const -> std::shared_ptr<LockBody> {
  return std::static_pointer_cast<LockBody>(BodyOf(*this));
}

absl::StatusOr<TermPtr> Election::NewTerm(std::string_view value) const {
  const std::shared_ptr<LockBody> body = KeepBody();
  auto handle = body->HandleFor(/*reads=*/false, {});
  if (!handle.ok()) return handle.status();
  if (absl::Status bad = CheckValue(value); !bad.ok()) return (*handle)->About(bad);
  auto term = std::make_shared<Leadership::Term>();
  term->core = body->core();
  term->handle = *std::move(handle);
  return term;
}

absl::StatusOr<Leadership> Election::Campaign(std::string_view value,
                                              const AcquireOptions& options) {
  const absl::StatusOr<TermPtr> term = NewTerm(value);
  if (!term.ok()) return term.status();
  return LeadershipOf(AcquireAs(Owner(value), options), *term);
}

void Election::CampaignAsync(std::string_view value, const AcquireOptions& options,
                             CampaignCallback callback) {
  callback = internal::NotNull(std::move(callback));
  absl::StatusOr<TermPtr> term = NewTerm(value);
  if (!term.ok()) {
    return KeepBody()->core()->event_driver().Complete(
        [told = std::move(callback), why = term.status()]() mutable {
          std::move(told)(std::move(why));
        });
  }
  AcquireAsyncAs(
      Owner(value), options,
      [told = std::move(callback), term = *std::move(term)](absl::StatusOr<Lease> lease) mutable {
        std::move(told)(LeadershipOf(std::move(lease), std::move(term)));
      });
}

absl::StatusOr<std::optional<Leader>> Election::LeaderAt(LockBody& body) {
  const auto handle = body.HandleFor(/*reads=*/false, {});
  if (!handle.ok()) return handle.status();
  const absl::StatusOr<std::string> text =
      (*handle)->RunUntilAnswered(CallOf(*body.core(), lua::kElectionLeader, {}));
  if (!text.ok()) return text.status();
  const auto reply = internal::ReadLeaderReply(*text);
  if (reply) return internal::LeaderOf(reply->news);
  return (*handle)->About(absl::InternalError("a script's reply violates its contract: " + *text));
}

absl::StatusOr<std::optional<Leader>> Election::Leader() const { return LeaderAt(*KeepBody()); }

absl::StatusOr<Observation> Election::Observe(LeaderCallback callback) const {
  const std::shared_ptr<LockBody> body = KeepBody();
  // If the server cannot be asked, this says why.
  if (const auto leader = LeaderAt(*body); !leader.ok()) return leader.status();
  const auto handle = body->HandleFor(/*reads=*/false, {});
  if (!handle.ok()) return handle.status();
  const absl::Duration heartbeat = internal::HeartbeatInterval(
      body->options().lease, (*handle)->entry().type->traits.longest_heartbeat);
  if (!callback) callback = [](const auto&) {};
  auto listener = std::make_shared<internal::LeaderListener>(std::move(callback));
  absl::Status added = body->core()->observations().Add((*handle)->entry(), heartbeat, listener);
  if (!added.ok()) return (*handle)->About(added);
  return Observation(body->core(), std::move(listener));
}

// ---- RunElected().

absl::Status RunElected(Election& election, ElectedWork work, const std::stop_token& stop,
                        std::string_view value) {
  base::Backoff backoff(kFirstPause, kLongestPause);
  while (!stop.stop_requested()) {
    absl::StatusOr<Leadership> leads = election.Campaign(value, {.stop = stop});
    absl::Status status = leads.status();
    if (!leads.ok()) {
      if (stop.stop_requested()) break;
      if (absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) ||
          absl::IsPermissionDenied(status) || absl::IsCancelled(status)) {
        return status;
      }
    } else {
      // If the stop comes together with the term, the work does not begin.
      if (!stop.stop_requested()) {
        std::stop_source ends;
        const auto end = [&] { ends.request_stop(); };
        const std::stop_callback on_stop(stop, end);
        const std::stop_callback on_loss(leads->lost(), end);
        status = work(ends.get_token(), leads->epoch());
      }
      // An unconfirmed resignation is repeated in the background.
      leads->Resign().IgnoreError();
    }
    if (status.ok()) {
      backoff.Reset();
    } else {
      Pause(backoff.Next(), stop);
    }
  }
  return absl::OkStatus();
}

}  // namespace redlatch
