#include "redlatch/count_down_latch.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lua/scripts.h"
#include "redlatch/status.h"
#include "src/api/outcomes.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/error_address.h"
#include "src/base/mutex.h"
#include "src/base/status.h"
#include "src/base/utf8.h"
#include "src/lock/client_core.h"
#include "src/lock/kinds.h"
#include "src/lock/lock_handle.h"
#include "src/lock/state/script_operation.h"
#include "src/lock/state/timing.h"
#include "src/lock/users_code.h"

namespace redlatch {
namespace {

namespace kinds = internal::kinds;
using internal::AnswerTimeout;
using internal::EventDriver;
using internal::kAnswerGrace;

constexpr int64_t kMostArrivals = 1'000'000'000'000'000;  // Lua counts exactly that far
constexpr absl::Duration kShortestTtl = absl::Seconds(1);
constexpr absl::Duration kLongestTtl = absl::Hours(24 * 365);
// The thread that opens a latch tells the waiters itself for that long, as its process may end
// then.
constexpr absl::Duration kTelling = absl::Milliseconds(500);

internal::LockType LatchType() {
  return {.scripts = {.acquire = lua::kLatchAcquire, .cancel = lua::kLatchCancel},
          .traits = {.kind = kinds::kLatch},
          .use = internal::GrantUse::kLatch,
          .noun = "latch",
          .busy = "it has not opened",
          .keys = internal::KeyNames(kinds::kLatch, {std::string(kinds::kCountedSuffix)})};
}

// Returns true if more waiters remain than the script has told that the latch is open.
bool HasMoreToTell(const absl::StatusOr<std::string>& reply) {
  return reply.ok() && absl::EndsWith(*reply, " look 1");
}

}  // namespace

// What a latch object does. A call that is in progress keeps it.
class CountDownLatch::Body : public std::enable_shared_from_this<CountDownLatch::Body> {
 public:
  Body(std::shared_ptr<internal::ClientCore> core, std::string_view name, int64_t count,
       LatchOptions options)
      : core_(std::move(core)), name_(name), total_(count), ttl_(options.ttl) {}

  // The object is being destroyed: its calls that wait end.
  void Close() {
    if (core_->in_forked_child()) return;
    gone_ = true;
    core_->StopAll(name_, this);
  }

  const std::string& name() const { return name_; }

  absl::Status Wait(const LatchWaitOptions& options);
  void WaitAsync(const LatchWaitOptions& options, WaitCallback callback);
  // Returns how many counts are still to come after it.
  absl::StatusOr<int64_t> CountDown(int64_t n, std::string_view id);
  absl::StatusOr<int64_t> Count();

 private:
  // The latch as this object has found it at its first use.
  struct Latch {
    std::shared_ptr<internal::LockHandle> handle;
    std::string name;  // of this incarnation, for scripts
  };
  using Script = internal::ScriptOperation::Call;
  // What is told in the end. It exists before a wait begins, so that nothing needs memory then.
  struct Told {
    WaitCallback callback;
    absl::Status status = {};
  };
  using ToldPtr = std::shared_ptr<Told>;

  absl::StatusOr<std::shared_ptr<internal::LockHandle>> Nameless() const;
  Script Creation(base::Instant until) const;
  Script Counting(const Latch& latch, base::Instant until) const;
  Latch Known() const;
  absl::StatusOr<Latch> Learn(const absl::StatusOr<std::string>& created);
  absl::StatusOr<Latch> Find(base::Instant until, const std::stop_token& stop = {});
  void Remember(const Latch& latch, const std::string& id, int64_t n, const std::string& reply,
                uint64_t sent_in);
  void WaitAt(const absl::StatusOr<Latch>& latch, const LatchWaitOptions& options,
              base::Instant began, ToldPtr told);
  static EventDriver::Completion Telling(ToldPtr told, absl::Status status);
  void Tell(ToldPtr told, absl::Status status);
  internal::AcquireCall CallOf(const LatchWaitOptions& options, base::Instant began) const;
  absl::Status OutcomeOf(const absl::StatusOr<int64_t>& count) const;
  absl::Status Check() const;
  absl::Status About(absl::StatusCode code, std::string_view what) const {
    return base::WithAddress(
        absl::Status(code, absl::StrCat("latch ", base::Quoted(name_), ": ", std::string(what))));
  }
  absl::Duration WaitersLease() const { return std::min(ttl_, absl::Seconds(30)); }
  // Until when a call without an end of its own tries to reach a server.
  base::Instant GiveUpBy() const {
    return base::Now() + core_->options().unreachable_after + kAnswerGrace;
  }
  // Until when a wait may ask the server for the latch, or for its count.
  base::Instant AsksUntil(absl::Duration wait, base::Instant began) const {
    if (wait == absl::InfiniteDuration()) return GiveUpBy();
    return began + std::max(wait, absl::ZeroDuration()) +
           AnswerTimeout(wait, core_->command_timeout());
  }

  const std::shared_ptr<internal::ClientCore> core_;
  const std::string name_;
  const int64_t total_;
  const absl::Duration ttl_;
  base::Atomic<bool> gone_{false};
  mutable base::Mutex mu_;
  Latch latch_ ABSL_GUARDED_BY(mu_);  // without a handle before the first use
};

absl::Status CountDownLatch::Body::Check() const {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  if (total_ < 0 || kMostArrivals < total_) {
    return About(
        absl::StatusCode::kInvalidArgument,
        absl::StrCat("a count of ", total_, " is not possible; it must be 0 to ", kMostArrivals));
  }
  if (ttl_ < kShortestTtl || kLongestTtl < ttl_) {
    return About(absl::StatusCode::kInvalidArgument,
                 absl::StrCat("a ttl of ", absl::FormatDuration(ttl_),
                              " is not possible; it must be 1s to one year"));
  }
  return absl::OkStatus();
}

// For scripts before the latch is known.
absl::StatusOr<std::shared_ptr<internal::LockHandle>> CountDownLatch::Body::Nameless() const {
  return internal::LockHandle::Attach(core_, name_, core_->FreshId(), LatchType());
}

// A new incarnation in each attempt: if the latch has vanished, a late attempt must not bring back
// the one that another attempt made.
auto CountDownLatch::Body::Creation(base::Instant until) const -> Script {
  return {.script = &lua::kLatchCreate,
          .args =
              [core = core_, total = absl::StrCat(total_),
               ttl = absl::StrCat(absl::ToInt64Milliseconds(ttl_))](int) {
                return std::vector<std::string>{total, ttl, core->FreshId()};
              },
          .until = until,
          .command_timeout = core_->command_timeout()};
}

auto CountDownLatch::Body::Counting(const Latch& latch, base::Instant until) const -> Script {
  return {.script = &lua::kLatchCount,
          .args = [name = latch.name](int) { return std::vector<std::string>{name}; },
          .until = until,
          .command_timeout = core_->command_timeout()};
}

auto CountDownLatch::Body::Known() const -> Latch {
  const base::MutexLock lock(mu_);
  return latch_;
}

auto CountDownLatch::Body::Learn(const absl::StatusOr<std::string>& created)
    -> absl::StatusOr<Latch> {
  if (!created.ok()) return created.status();
  Latch found{.name = absl::StrCat("latch:", absl::ToInt64Milliseconds(ttl_), ":",
                                   created->substr(0, created->find(' ')))};
  auto handle = internal::LockHandle::Attach(core_, name_, found.name, LatchType());
  if (!handle.ok()) return handle.status();
  found.handle = *std::move(handle);
  const base::MutexLock lock(mu_);
  if (latch_.handle == nullptr) latch_ = std::move(found);
  return latch_;
}

auto CountDownLatch::Body::Find(base::Instant until, const std::stop_token& stop)
    -> absl::StatusOr<Latch> {
  if (absl::Status bad = Check(); !bad.ok()) return bad;
  if (Latch known = Known(); known.handle != nullptr) return known;
  const auto nameless = Nameless();
  if (!nameless.ok()) return nameless.status();
  return Learn((*nameless)->RunUntilAnswered(Creation(until), stop, &gone_));
}

absl::Status CountDownLatch::Body::Wait(const LatchWaitOptions& options) {
  const base::Instant began = base::Now();
  const base::Instant until = AsksUntil(options.wait, began);
  const absl::StatusOr<Latch> latch = Find(until, options.stop);
  if (!latch.ok()) return latch.status();
  if (options.wait > absl::ZeroDuration()) {
    return latch->handle->Acquire(CallOf(options, began)).status();
  }
  return OutcomeOf(
      ReadCount(latch->handle->RunUntilAnswered(Counting(*latch, until), options.stop, &gone_)));
}

absl::Status CountDownLatch::Body::OutcomeOf(const absl::StatusOr<int64_t>& count) const {
  if (!count.ok() || *count == 0) return count.status();
  return About(absl::StatusCode::kDeadlineExceeded,
               absl::StrCat("it has not opened; its count is still ", *count));
}

internal::AcquireCall CountDownLatch::Body::CallOf(const LatchWaitOptions& options,
                                                   base::Instant began) const {
  static const auto* const lock_options =
      new std::shared_ptr<const LockOptions>(std::make_shared<const LockOptions>());
  return {
      // A heartbeat in every third of it keeps the latch alive.
      .terms = {.lease = WaitersLease()},
      .wait = options.wait,
      .since = began,
      .stop = options.stop,
      .options = *lock_options,
      .object = this,
      .gone = &gone_,
  };
}

absl::StatusOr<int64_t> CountDownLatch::Body::CountDown(int64_t n, std::string_view id) {
  if (n < 0 || kMostArrivals < n) {
    return About(absl::StatusCode::kInvalidArgument,
                 absl::StrCat("cannot count down by ", n, "; it is 0 to ", kMostArrivals));
  }
  const base::Instant until = GiveUpBy();
  const absl::StatusOr<Latch> latch = Find(until);
  if (!latch.ok()) return latch.status();
  const std::string its_id = id.empty() ? core_->FreshId() : "user:" + std::string(id);
  const uint64_t sent_in = core_->counts().era();
  bool repeated = false;
  const auto count_down = [&] {
    return latch->handle->RunUntilAnswered(
        {.script = &lua::kLatchCountDown,
         .args =
             [&](int attempt) {
               std::vector<std::string> args = {latch->name, its_id, absl::StrCat(n)};
               // An earlier attempt may have counted, and a waiter may have been told so, before
               // the server was lost. So this one counts among the first, and no count seems to be
               // missing.
               repeated = repeated || attempt > 0;
               if (repeated) args.emplace_back("0");
               return args;
             },
         .until = until,
         .command_timeout = core_->command_timeout()});
  };
  absl::StatusOr<std::string> reply = count_down();
  absl::StatusOr<int64_t> count = ReadCount(reply);
  if (count.ok() && n > 0) Remember(*latch, its_id, n, *reply, sent_in);
  const base::Instant tell_until = base::Now() + kTelling;
  while (HasMoreToTell(reply) && base::Now() <= tell_until) reply = count_down();
  if (count.ok() && (!reply.ok() || HasMoreToTell(reply))) latch->handle->GoOn();
  return count;
}

// Keeps the count, so that it can be repeated if a server has not received it.
void CountDownLatch::Body::Remember(const Latch& latch, const std::string& id, int64_t n,
                                    const std::string& reply, uint64_t sent_in) {
  const std::vector<std::string> words = absl::StrSplit(reply, absl::MaxSplits(' ', 2));
  uint64_t when = 0;
  if (words.size() < 2 || !absl::SimpleAtoi(words[1], &when)) return;
  const internal::Entry& entry = latch.handle->entry();
  core_->counts().Add(
      {.latch = entry, .id = id, .n = n, .when = when}, sent_in,
      internal::HeartbeatInterval(WaitersLease(), entry.type->traits.longest_heartbeat));
}

absl::StatusOr<int64_t> CountDownLatch::Body::Count() {
  const base::Instant until = GiveUpBy();
  const absl::StatusOr<Latch> latch = Find(until);
  if (!latch.ok()) return latch.status();
  return ReadCount(latch->handle->RunUntilAnswered(Counting(*latch, until), {}, &gone_));
}

// ---- Waiting at a latch without a thread.

auto CountDownLatch::Body::Telling(ToldPtr told, absl::Status status) -> EventDriver::Completion {
  told->status = std::move(status);
  return [told = std::move(told)] { std::move(told->callback)(std::move(told->status)); };
}

void CountDownLatch::Body::Tell(ToldPtr told, absl::Status status) {
  core_->event_driver().Complete(Telling(std::move(told), std::move(status)));
}

// The first use of a latch looks it up at the server. The tasks keep this alive until they are
// answered or the object is destroyed.
void CountDownLatch::Body::WaitAsync(const LatchWaitOptions& options, WaitCallback callback) {
  const base::Instant began = base::Now();
  const auto told = std::make_shared<Told>(Told{std::move(callback)});
  absl::Status bad = Check();
  if (bad.ok() && !core_->event_driver().Ready()) bad = base::NoThread();
  if (!bad.ok()) return Tell(told, std::move(bad));
  if (Latch known = Known(); known.handle != nullptr) {
    return WaitAt(known, options, began, told);
  }
  const auto nameless = Nameless();
  if (!nameless.ok()) return Tell(told, nameless.status());
  (*nameless)->RunUntilAnsweredAsync(
      Creation(AsksUntil(options.wait, began)), this, options.stop,
      [self = shared_from_this(), nameless = *nameless, options, began,
       told](const absl::StatusOr<std::string>& created) {
        base::WithMemory([&] { self->WaitAt(self->Learn(created), options, began, told); });
      });
  if (gone_) core_->event_driver().StopObject(this);
}

void CountDownLatch::Body::WaitAt(const absl::StatusOr<Latch>& latch,
                                  const LatchWaitOptions& options, base::Instant began,
                                  ToldPtr told) {
  if (!latch.ok()) return Tell(std::move(told), latch.status());
  if (options.wait > absl::ZeroDuration()) {
    // The wait keeps neither the object nor the client alive.
    latch->handle->AcquireAsync(
        CallOf(options, began),
        [told = std::move(told)](const absl::StatusOr<internal::OwnedHold>& open) {
          return Telling(told, open.status());
        });
  } else {
    latch->handle->RunUntilAnsweredAsync(
        Counting(*latch, AsksUntil(options.wait, began)), this, options.stop,
        [self = shared_from_this(), handle = latch->handle,
         told = std::move(told)](const absl::StatusOr<std::string>& counted) {
          base::WithMemory([&] { self->Tell(told, self->OutcomeOf(ReadCount(counted))); });
        });
  }
  if (gone_) core_->event_driver().StopObject(this);  // it was destroyed meanwhile
}

CountDownLatch::CountDownLatch(const Client& client, std::string_view name, int64_t count,
                               LatchOptions options)
    : body_(std::make_shared<Body>(client.core(), name, count, options)) {}

CountDownLatch::~CountDownLatch() { body_->Close(); }

const std::string& CountDownLatch::name() const { return body_->name(); }

void CountDownLatch::count_down(std::ptrdiff_t n) { ThrowIfFailed(CountDown(n)); }
void CountDownLatch::wait() { ThrowIfFailed(Wait()); }
bool CountDownLatch::WaitFor(absl::Duration wait) { return ThrowUnlessBusy(Wait({.wait = wait})); }

void CountDownLatch::arrive_and_wait(std::ptrdiff_t n) {
  const std::shared_ptr<Body> body = body_;
  const absl::StatusOr<int64_t> left = body->CountDown(n, {});
  ThrowIfFailed(left.status());
  if (*left > 0) ThrowIfFailed(body->Wait({}));
}

absl::Status CountDownLatch::Wait(const LatchWaitOptions& options) {
  return std::shared_ptr<Body>(body_)->Wait(options);
}

absl::Status CountDownLatch::CountDown(int64_t n, std::string_view id) {
  return std::shared_ptr<Body>(body_)->CountDown(n, id).status();
}

absl::StatusOr<int64_t> CountDownLatch::Count() { return std::shared_ptr<Body>(body_)->Count(); }

void CountDownLatch::WaitAsync(const LatchWaitOptions& options, WaitCallback callback) {
  body_->WaitAsync(options, internal::NotNull(std::move(callback)));
}

}  // namespace redlatch
