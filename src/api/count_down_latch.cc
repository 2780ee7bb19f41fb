#include "redlatch/count_down_latch.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lua/scripts.h"
#include "redlatch/status.h"
#include "src/api/outcomes.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/parker.h"
#include "src/base/random.h"
#include "src/base/status.h"
#include "src/lock/client_core.h"
#include "src/lock/kinds.h"
#include "src/lock/lock_handle.h"
#include "src/lock/repeated_script.h"
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
constexpr absl::Duration kFirstBackoff = absl::Milliseconds(10);
constexpr absl::Duration kLongestBackoff = absl::Milliseconds(500);
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

absl::StatusOr<int64_t> ReadCount(const absl::StatusOr<redis::Reply>& reply) {
  if (!reply.ok()) return reply.status();
  int64_t count = 0;
  if (absl::SimpleAtoi(reply->text.substr(0, reply->text.find(' ')), &count)) return count;
  return absl::InternalError("a script's reply is not a count: " + reply->DebugString());
}

// True if more waiters remain than the script has told that the latch is open.
bool HasMoreToTell(const absl::StatusOr<redis::Reply>& reply) {
  return reply.ok() && absl::EndsWith(reply->text, " look 1");
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
  void WaitAsync(const LatchWaitOptions& options, WaitCallback told);
  // Returns how many counts are still to come after it.
  absl::StatusOr<int64_t> CountDown(int64_t n, std::string_view id);
  absl::StatusOr<int64_t> Count(base::Instant answered_by, const std::stop_token& stop = {});

 private:
  // The latch as this object has found it at its first use.
  struct Latch {
    std::shared_ptr<internal::LockHandle> handle;
    std::string name;  // of this incarnation, for scripts
  };
  using Attempt = std::function<absl::StatusOr<redis::Reply>()>;

  // A call of WaitAsync(), and how it uses the answer to a script.
  struct AsyncWait {
    LatchWaitOptions options;
    base::Instant began;
    base::Instant end;  // of its first use, and of a check
    WaitCallback told;
  };
  using Next = void (Body::*)(AsyncWait wait, const redis::Reply& reply);

  absl::StatusOr<std::shared_ptr<internal::LockHandle>> Nameless() const;
  std::vector<std::string> CreationArgs() const;
  absl::StatusOr<Latch> Learn(const redis::Reply& created);
  absl::StatusOr<Latch> Find(base::Instant answered_by, base::Instant give_up_by,
                             const std::stop_token& stop);
  absl::StatusOr<redis::Reply> Persist(base::Instant deadline, const std::stop_token& stop,
                                       const Attempt& attempt);
  void Remember(const Latch& latch, const std::string& id, int64_t n, const redis::Reply& reply,
                uint64_t sent_in);
  void AwaitAt(const Latch& latch, AsyncWait wait);
  void AfterCreation(AsyncWait wait, const redis::Reply& created);
  void AfterCount(AsyncWait wait, const redis::Reply& counted);
  void AskAsync(const std::shared_ptr<internal::LockHandle>& handle, AsyncWait wait,
                const LuaScript& script, std::function<std::vector<std::string>()> args, Next next);
  void Tell(AsyncWait wait, absl::Status status);
  internal::AcquireCall CallOf(const LatchWaitOptions& options, base::Instant began) const;
  absl::Status WhenLookedAt(int64_t count) const;
  absl::Status Check() const;
  absl::Status About(absl::StatusCode code, std::string_view what) const {
    return absl::Status(
        code, absl::StrCat("latch \"", absl::CHexEscape(name_), "\": ", std::string(what)));
  }
  absl::Duration WaitersLease() const { return std::min(ttl_, absl::Seconds(30)); }
  base::Instant GiveUpBy() const { return base::Now() + core_->options().unreachable_after; }

  const std::shared_ptr<internal::ClientCore> core_;
  const std::string name_;
  const int64_t total_;
  const absl::Duration ttl_;
  std::atomic<bool> gone_{false};
  base::Mutex mu_;
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

// Repeats the attempt as long as the server cannot be reached. Each attempt has its own timeout, so
// `deadline` does not cut the last one short.
absl::StatusOr<redis::Reply> CountDownLatch::Body::Persist(base::Instant deadline,
                                                           const std::stop_token& stop,
                                                           const Attempt& attempt) {
  base::Backoff backoff(kFirstBackoff, kLongestBackoff);
  while (true) {
    absl::StatusOr<redis::Reply> reply = attempt();
    if (!absl::IsUnavailable(reply.status())) return reply;
    if (stop.stop_requested() || gone_) {
      return About(absl::StatusCode::kCancelled, "the wait was stopped");
    }
    const base::Instant next = base::Now() + backoff.Next();
    if (deadline <= next) return reply;
    base::Parker parker;
    parker.Arm();
    const std::stop_callback on_stop(stop, [&parker] { parker.Set(1); });
    parker.ParkUntil(next);
  }
}

// For scripts before the latch is known.
absl::StatusOr<std::shared_ptr<internal::LockHandle>> CountDownLatch::Body::Nameless() const {
  return internal::LockHandle::Attach(core_, name_, core_->FreshId(), LatchType());
}

// A new incarnation each time: if the latch has vanished, a late attempt must not bring back the
// one that another attempt made.
std::vector<std::string> CountDownLatch::Body::CreationArgs() const {
  return {absl::StrCat(total_), absl::StrCat(absl::ToInt64Milliseconds(ttl_)), core_->FreshId()};
}

absl::StatusOr<CountDownLatch::Body::Latch> CountDownLatch::Body::Learn(
    const redis::Reply& created) {
  const std::string incarnation = created.text.substr(0, created.text.find(' '));
  Latch found{.name = absl::StrCat("latch:", absl::ToInt64Milliseconds(ttl_), ":", incarnation)};
  auto handle = internal::LockHandle::Attach(core_, name_, found.name, LatchType());
  if (!handle.ok()) return handle.status();
  found.handle = *std::move(handle);
  const base::MutexLock lock(mu_);
  if (latch_.handle == nullptr) latch_ = std::move(found);
  return latch_;
}

absl::StatusOr<CountDownLatch::Body::Latch> CountDownLatch::Body::Find(
    base::Instant answered_by, base::Instant give_up_by, const std::stop_token& stop) {
  if (absl::Status bad = Check(); !bad.ok()) return bad;
  {
    const base::MutexLock lock(mu_);
    if (latch_.handle != nullptr) return latch_;
  }
  const auto nameless = Nameless();
  if (!nameless.ok()) return nameless.status();
  const auto made = Persist(std::min(answered_by, give_up_by), stop, [&] {
    return (*nameless)->Run(lua::kLatchCreate, CreationArgs(),
                            std::min(answered_by, give_up_by + kAnswerGrace));
  });
  if (!made.ok()) return made.status();
  return Learn(*made);
}

absl::Status CountDownLatch::Body::Wait(const LatchWaitOptions& options) {
  const base::Instant began = base::Now();
  const base::Instant answered_by = began +
                                    std::max<absl::Duration>(options.wait, absl::ZeroDuration()) +
                                    AnswerTimeout(options.wait, core_->command_timeout());
  if (options.wait <= absl::ZeroDuration()) {
    const absl::StatusOr<int64_t> count = Count(answered_by, options.stop);
    return count.ok() ? WhenLookedAt(*count) : count.status();
  }
  // A wait with an end of its own is not given up before.
  const base::Instant give_up_by =
      options.wait < absl::InfiniteDuration() ? answered_by : GiveUpBy();
  const absl::StatusOr<Latch> latch = Find(answered_by, give_up_by, options.stop);
  if (!latch.ok()) return latch.status();
  return latch->handle->Acquire(CallOf(options, began)).status();
}

absl::Status CountDownLatch::Body::WhenLookedAt(int64_t count) const {
  return count == 0 ? absl::OkStatus()
                    : About(absl::StatusCode::kDeadlineExceeded,
                            absl::StrCat("it has not opened; its count is still ", count));
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
  const base::Instant give_up_by = GiveUpBy();
  const absl::StatusOr<Latch> latch = Find(base::Instant::Infinite(), give_up_by, {});
  if (!latch.ok()) return latch.status();
  std::vector<std::string> args = {
      latch->name, id.empty() ? core_->FreshId() : "user:" + std::string(id), absl::StrCat(n)};
  const auto count_down = [&] {
    auto reply = latch->handle->Run(lua::kLatchCountDown, args, give_up_by + kAnswerGrace);
    // It may have counted, and a waiter may have been told so, when the server was lost: then it
    // counts among the first, so that nothing is thought to be missing.
    if (absl::IsUnavailable(reply.status()) && args.size() == 3) args.emplace_back("0");
    return reply;
  };
  const uint64_t sent_in = core_->counts().era();
  auto reply = Persist(give_up_by, {}, count_down);
  absl::StatusOr<int64_t> count = ReadCount(reply);
  if (count.ok() && n > 0) Remember(*latch, args[1], n, *reply, sent_in);
  const base::Instant tell_until = base::Now() + kTelling;
  while (HasMoreToTell(reply)) {
    if (tell_until < base::Now()) {
      latch->handle->GoOn();
      break;
    }
    reply = count_down();
  }
  if (count.ok() && !reply.ok()) latch->handle->GoOn();
  return count;
}

void CountDownLatch::Body::AfterCount(AsyncWait wait, const redis::Reply& counted) {
  const absl::StatusOr<int64_t> count = ReadCount(counted);
  Tell(std::move(wait), count.ok() ? WhenLookedAt(*count) : count.status());
}

// Keeps the count, so that it can be repeated if a server has not received it.
void CountDownLatch::Body::Remember(const Latch& latch, const std::string& id, int64_t n,
                                    const redis::Reply& reply, uint64_t sent_in) {
  static const auto* const type = new internal::LockType(LatchType());
  const std::vector<std::string> words = absl::StrSplit(reply.text, absl::MaxSplits(' ', 2));
  uint64_t when = 0;
  if (words.size() < 2 || !absl::SimpleAtoi(words[1], &when)) return;
  const absl::Duration pace =
      internal::HeartbeatInterval(WaitersLease(), type->traits.longest_heartbeat);
  core_->counts().Add({.name = name_,
                       .latch = latch.name,
                       .id = id,
                       .n = n,
                       .when = when,
                       .type = type,
                       .script = &lua::kLatchCountDown},
                      sent_in, pace);
}

absl::StatusOr<int64_t> CountDownLatch::Body::Count(base::Instant answered_by,
                                                    const std::stop_token& stop) {
  const base::Instant give_up_by = answered_by.is_infinite() ? GiveUpBy() : answered_by;
  const absl::StatusOr<Latch> latch = Find(answered_by, give_up_by, stop);
  if (!latch.ok()) return latch.status();
  return ReadCount(Persist(std::min(answered_by, give_up_by), stop, [&] {
    return latch->handle->Run(lua::kLatchCount, {latch->name},
                              std::min(answered_by, give_up_by + kAnswerGrace));
  }));
}

// ---- Waiting at a latch without a thread.

namespace {

EventDriver::Completion Telling(CountDownLatch::WaitCallback told, absl::Status status) {
  return [told = std::move(told), status = std::move(status)]() mutable {
    std::move(told)(std::move(status));
  };
}

}  // namespace

void CountDownLatch::Body::Tell(AsyncWait wait, absl::Status status) {
  core_->event_driver().Complete(Telling(std::move(wait.told), std::move(status)));
}

// The first use of a latch looks it up at the server.
void CountDownLatch::Body::WaitAsync(const LatchWaitOptions& options, WaitCallback told) {
  AsyncWait wait{.options = options, .began = base::Now(), .end = {}, .told = std::move(told)};
  absl::Status bad = Check();
  if (bad.ok() && !core_->event_driver().Ready()) bad = base::NoThread();
  if (!bad.ok()) return Tell(std::move(wait), std::move(bad));
  wait.end = options.wait == absl::InfiniteDuration()
                 ? GiveUpBy()
                 : wait.began + std::max<absl::Duration>(options.wait, absl::ZeroDuration()) +
                       internal::AnswerTimeout(options.wait, core_->command_timeout());
  std::optional<Latch> known;
  {
    const base::MutexLock lock(mu_);
    if (latch_.handle != nullptr) known = latch_;
  }
  if (known) return AwaitAt(*known, std::move(wait));
  const auto nameless = Nameless();
  if (!nameless.ok()) return Tell(std::move(wait), nameless.status());
  AskAsync(
      *nameless, std::move(wait), lua::kLatchCreate, [this] { return CreationArgs(); },
      &Body::AfterCreation);
}

void CountDownLatch::Body::AfterCreation(AsyncWait wait, const redis::Reply& created) {
  const absl::StatusOr<Latch> latch = Learn(created);
  if (!latch.ok()) return Tell(std::move(wait), latch.status());
  AwaitAt(*latch, std::move(wait));
}

void CountDownLatch::Body::AwaitAt(const Latch& latch, AsyncWait wait) {
  if (wait.options.wait <= absl::ZeroDuration()) {
    return AskAsync(
        latch.handle, std::move(wait), lua::kLatchCount,
        [name = latch.name] { return std::vector<std::string>{name}; }, &Body::AfterCount);
  }
  latch.handle->AcquireAsync(
      CallOf(wait.options, wait.began),
      [told = std::move(wait.told)](const absl::StatusOr<internal::OwnedHold>& open) mutable {
        return Telling(std::move(told), open.status());
      });
  if (gone_) core_->event_driver().StopObject(this);  // it went while the latch was looked for
}

// The task keeps this alive until it is answered or the object is destroyed.
void CountDownLatch::Body::AskAsync(const std::shared_ptr<internal::LockHandle>& handle,
                                    AsyncWait wait, const LuaScript& script,
                                    std::function<std::vector<std::string>()> args, Next next) {
  internal::RepeatedScript::Call call{.object = this,
                                      .stop = wait.options.stop,
                                      .until = wait.end,
                                      .attempt = nullptr,
                                      .then = nullptr};
  call.attempt = [handle, &script, args = std::move(args),
                  until = wait.end](internal::EventTask& task) {
    return handle->RunInBatch(task, script, args(), until);
  };
  call.then = [self = shared_from_this(), handle, wait = std::move(wait),
               next](absl::StatusOr<redis::Reply> reply) mutable {
    if (!reply.ok()) return self->Tell(std::move(wait), handle->About(reply.status()));
    (*self.*next)(std::move(wait), *reply);
  };
  EventDriver& driver = core_->event_driver();
  driver.Begin(std::make_unique<internal::RepeatedScript>(driver, std::move(call)));
  if (gone_) driver.StopObject(this);
}

CountDownLatch::CountDownLatch(const Client& client, std::string_view name, int64_t count,
                               LatchOptions options)
    : body_(std::make_shared<Body>(client.core(), name, count, options)) {}

CountDownLatch::~CountDownLatch() { body_->Close(); }

const std::string& CountDownLatch::name() const { return body_->name(); }

void CountDownLatch::count_down(std::ptrdiff_t n) {
  if (absl::Status status = CountDown(n); !status.ok()) Throw(status);
}

void CountDownLatch::wait() {
  if (absl::Status status = Wait(); !status.ok()) Throw(status);
}

bool CountDownLatch::WaitFor(absl::Duration wait) {
  const absl::Status status = Wait({.wait = wait});
  if (!status.ok() && !IsBusy(status)) Throw(status);
  return status.ok();
}

void CountDownLatch::arrive_and_wait(std::ptrdiff_t n) {
  const std::shared_ptr<Body> body = body_;
  const absl::StatusOr<int64_t> left = body->CountDown(n, {});
  if (!left.ok()) Throw(left.status());
  if (*left == 0) return;
  if (absl::Status status = body->Wait({}); !status.ok()) Throw(status);
}

absl::Status CountDownLatch::Wait(const LatchWaitOptions& options) {
  return std::shared_ptr<Body>(body_)->Wait(options);
}

absl::Status CountDownLatch::CountDown(int64_t n, std::string_view id) {
  return std::shared_ptr<Body>(body_)->CountDown(n, id).status();
}

absl::StatusOr<int64_t> CountDownLatch::Count() {
  return std::shared_ptr<Body>(body_)->Count(base::Instant::Infinite());
}

void CountDownLatch::WaitAsync(const LatchWaitOptions& options, WaitCallback callback) {
  body_->WaitAsync(options, internal::NotNull(std::move(callback)));
}

}  // namespace redlatch
