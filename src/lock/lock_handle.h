#ifndef REDLATCH_SRC_LOCK_LOCK_HANDLE_H_
#define REDLATCH_SRC_LOCK_LOCK_HANDLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "redlatch/fencing_token.h"
#include "redlatch/lock_info.h"
#include "redlatch/lock_options.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "src/lock/client_core.h"
#include "src/lock/entry.h"
#include "src/lock/event_driver.h"
#include "src/lock/script_codec.h"
#include "src/lock/state/acquire_operation.h"
#include "src/lock/state/hold_state.h"
#include "src/lock/state/lock_state.h"
#include "src/lock/state/release_operation.h"
#include "src/lock/state/request.h"
#include "src/lock/state/script_operation.h"
#include "src/lock/state/waiter.h"

namespace redlatch::internal {

inline constexpr int kWaitersListed = 50;

// Adds the name of the lock and its server to the status. If memory is lacking, only the code is
// kept.
absl::Status About(ClientCore& core, const Entry& entry, absl::StatusCode code,
                   absl::string_view message, absl::string_view more = "") noexcept;
inline absl::Status About(ClientCore& core, const Entry& entry, const absl::Status& status) {
  return About(core, entry, status.code(), status.message());
}

// The error of a lock that cannot stay taken after its release.
absl::Status CannotStayTaken();

// The outcome of a release as a status.
absl::Status StatusOf(ClientCore& core, const Entry& entry, const Released& released) noexcept;

// A number that no other thread of this process has, or ever had; and one that no thread will have.
uint64_t ThreadNumber();
uint64_t NextThreadNumber();

class LockHandle;

// A hold, and the handle through which it is released.
struct OwnedHold {
  std::shared_ptr<LockHandle> handle;
  HoldRef held;
};

// The way of a lock object or a lease to its lock state. A handle keeps the lock state alive, but
// has no hold. Calls run their scripts on the calling thread. In a forked child, calls are refused
// or do nothing. The handle of a latch only acquires and runs scripts. Thread-safe.
class LockHandle : public HoldOwner {
 public:
  // REQUIRES: the caller refers to the entry.
  LockHandle(std::shared_ptr<ClientCore> core, Entry& entry)
      : core_(std::move(core)), entry_(entry) {
    LockTable::Refer(entry_);
  }
  // `owner` is the owner as the server knows it; empty for the client's threads.
  static absl::StatusOr<std::shared_ptr<LockHandle>> Attach(std::shared_ptr<ClientCore> core,
                                                            std::string_view name,
                                                            const std::string& owner,
                                                            const LockType& type);
  ~LockHandle() override;
  LockHandle& operator=(const LockHandle&) = delete;

  absl::Status Refusal() const override { return core_->Refusal(); }
  // Returns an error if a lock may not have this lease. Until the client has connected, a server
  // with a quarantine may allow less than this accepts.
  absl::Status CheckLease(absl::Duration lease) const;
  // Returns an error if the call asks for something impossible.
  absl::Status CheckTerms(const AcquireCall& call) const;

  // Enters the calling thread's hold once more. Returns nothing if it has none that it may enter.
  // Never blocks.
  std::optional<HoldRef> Reenter(Face face, bool manual);
  // Enters the calling thread's hold once more, or takes a cached grant. Returns false if the
  // caller must use Acquire(). Never blocks.
  bool LockAgain(const std::shared_ptr<const LockOptions>& options);
  // Returns a hold of 0 for a latch, and for a reader that may not join these readers. In the
  // latter case, `met` receives the silence that the wait has met so far.
  absl::StatusOr<HoldRef> Acquire(const AcquireCall& call, Silence* met = nullptr);
  absl::Status Release(uint64_t hold, FencingToken token) noexcept override;
  void ReleaseQuietly(uint64_t hold, FencingToken token) noexcept override;
  // The same without a thread; see operation_task.h. `elsewhere` returns the handle for a reader
  // that may not join these readers.
  using Elsewhere = std::function<absl::StatusOr<std::shared_ptr<LockHandle>>(const Entry& left)>;
  using Finish = absl::AnyInvocable<EventDriver::Completion(absl::StatusOr<OwnedHold>) &&>;
  void AcquireAsync(AcquireCall call, Finish finish, Elsewhere elsewhere = nullptr,
                    EventDriver::Whose whose = EventDriver::Whose::kUsers);
  void ReleaseAsync(uint64_t hold, FencingToken token, Then then) noexcept override;
  void Tell(absl::AnyInvocable<void() &&> completion) override {
    core_->event_driver().Complete(std::move(completion));
  }
  // Releases holds of several lock states of one core.
  static void ReleaseAll(absl::Span<const OwnedHold> holds) noexcept;
  // How a driver starts an acquire operation, and its outcome.
  static AcquireOperation::Environment EnvironmentOf(const ClientCore& core, uint64_t thread,
                                                     Waker& waker);
  absl::StatusOr<HoldRef> Outcome(AcquireOperation& operation, absl::Duration wait) const;
  static absl::Status Failure(const Entry& entry, const Waiter& waiter, absl::Duration wait);
  void Unlock() noexcept;
  // The same as Unlock(), if the grant is then cached. Returns false if the caller must use
  // Unlock(). Never blocks.
  bool LeaveCachedNow();
  absl::Status Extend(uint64_t hold, absl::Duration lease) override;
  absl::Status StayTaken(uint64_t hold, absl::Duration at_least) override;
  // Reports that the calling thread tried to end a hold that it does not have.
  void Misuse(std::string_view what);
  // Gives back the grant, if it is cached.
  void GiveBackCached();
  // Notes whether other clients have tried to get the other handle's grant.
  void CopyTriesFrom(const LockHandle& other);

  // Registers a lock object.
  void AddObject() { ++entry_.objects; }
  // Unregisters a lock object. Its waiting calls end, including those of an Owner. With the last
  // object, holds by lock() end.
  void RemoveObject(const void* object);
  // Ends all holds by lock().
  void ReleaseStd();

  HoldRef OfThisThread() const;
  // The same, as the user sees it.
  HoldRef Current() const { return See(/*pins=*/false); }
  // The same; if it was acquired natively and has no token, none is drawn.
  HoldRef CurrentWithoutToken() const { return See(/*pins=*/false, /*draws=*/false); }
  // The same; the calling thread, which may have the lock, is about to read.
  HoldRef Pin() const { return See(/*pins=*/true); }
  // Returns true if a thread has the lock, may take it from the cache, or must still unlock a lost
  // hold.
  bool in_use() const {
    const base::MutexLock lock(entry_.mu);
    return entry_.state.in_use();
  }

  const Entry& entry() const { return entry_; }
  // Returns true if nothing is held or awaited, and cleanups are in flight.
  bool reusable() const {
    const base::MutexLock lock(entry_.mu);
    return entry_.state.reusable();
  }
  // Returns true if the client caches the grant.
  bool caches() const {
    const base::MutexLock lock(entry_.mu);
    return entry_.state.cached_until() != base::Instant();
  }

  // Runs a script that is not part of a hold, once, within the command timeout or until the
  // deadline.
  absl::StatusOr<redis::Reply> Run(const LuaScript& script, absl::Span<const std::string> args,
                                   base::Instant deadline = base::Instant::Infinite(),
                                   std::string_view own_key = {});
  // Runs a script until a server has answered, and returns the text of the reply. `gone`: set when
  // the lock object is destroyed.
  absl::StatusOr<std::string> RunUntilAnswered(ScriptOperation::Call call,
                                               const std::stop_token& stop = {},
                                               const base::Atomic<bool>* gone = nullptr);
  // The same without a thread; see ScriptTask. EventDriver::StopObject() ends it.
  void RunUntilAnsweredAsync(ScriptOperation::Call call, const void* object, std::stop_token stop,
                             absl::AnyInvocable<void(absl::StatusOr<std::string>) &&> then);
  absl::StatusOr<LockInfo> Inspect(int most_waiters = kWaitersListed);
  absl::Status ForceRelease();
  // Runs a script repeatedly until all of its work is done; each call continues the last one.
  absl::Status RunAll(const LuaScript& script, std::string arg, std::string_view own_key = {});
  // Lets the background continue a script of this lock if it is unfinished, and check its handover.
  void GoOn(const Part& part = {.unfinished = true});
  // Adds the name of the lock and its server to the status.
  absl::Status About(const absl::Status& status) const;

 protected:
  LockHandle(const LockHandle& other) : LockHandle(other.core_, other.entry_) {}

 private:
  absl::Status CheckStaysTaken(absl::Duration at_least) const;
  // `usable`: the lease without the grace.
  absl::Status CheckGrace(absl::Duration usable, absl::Duration grace) const;
  // Runs a renewal of the hold. `confirmed` runs if the server has executed it.
  absl::Status RunRenewal(uint64_t hold, const Request& request,
                          absl::FunctionRef<void(LockState&)> confirmed);
  HoldRef See(bool pins, bool draws = true) const;
  HoldRef DrawToken(HoldRef held) const;
  absl::Status EndRelease(const ReleaseOperation& operation) const;
  // The call that has released the lock returns.
  void NoteLeft() noexcept;
  void EndQuietly(const ReleaseOperation::Call& call, bool leaves) noexcept;
  void Leave(ReleaseOperation operation, Operation::Action action, Then then) noexcept;
  void Begin(std::unique_ptr<EventTask>&& task);

  const std::shared_ptr<ClientCore> core_;
  Entry& entry_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_LOCK_HANDLE_H_
