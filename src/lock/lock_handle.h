#ifndef REDLATCH_SRC_LOCK_LOCK_HANDLE_H_
#define REDLATCH_SRC_LOCK_LOCK_HANDLE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "redlatch/fencing_token.h"
#include "redlatch/lock_info.h"
#include "redlatch/lock_options.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "src/lock/async_script.h"
#include "src/lock/client_core.h"
#include "src/lock/entry.h"
#include "src/lock/event_driver.h"
#include "src/lock/state/acquire_operation.h"
#include "src/lock/state/hold_owner.h"
#include "src/lock/state/hold_ref.h"
#include "src/lock/state/release_operation.h"

namespace redlatch::internal {

inline constexpr int kWaitersListed = 50;

// A number that no other thread of this process has, or ever had; and one that none will have.
uint64_t ThreadNumber();
uint64_t NextThreadNumber();

// What one acquisition wants beside its lock.
struct Want {
  Face face = Face::kStatus;
  Terms terms;
  absl::Duration wait = absl::InfiniteDuration();
  std::optional<base::Instant> since;  // when the wait began; else it begins now
  Silence silence;                     // what the wait has met so far
  std::stop_token stop;
  std::shared_ptr<const LockOptions> options;
  const void* object = nullptr;             // the lock object
  const std::atomic<bool>* gone = nullptr;  // whether that is gone; null: there is none
  FencingToken write_token;                 // as a Waiter's
  GrantId write_grant = 0;                  // of a reader: the one that its thread has beside it
};

class LockHandle;

// A hold, and the session through which it is released.
struct OwnedHold {
  std::shared_ptr<LockHandle> handle;
  HoldRef held;
};

// The runtime: a lock object's or a lease's way to its machine. It keeps the machine, and nothing
// held. Calls run their scripts on the calling thread. Thread-safe; refuses, or does nothing, in a
// forked child. A latch's holds nothing: it acquires, runs scripts, and goes on with them.
class LockHandle final : public HoldOwner {
  class Key {
    friend class LockHandle;
    Key() = default;
  };

 public:
  // For Attach() and To(): a session and what counts its references are one piece of memory, since
  // each lock and each lease has one.
  LockHandle(Key, std::shared_ptr<ClientCore> core, Entry& entry)
      : core_(std::move(core)), entry_(entry) {}
  // `owner`: as the server is to know it; empty: the client's threads.
  static absl::StatusOr<std::shared_ptr<LockHandle>> Attach(std::shared_ptr<ClientCore> core,
                                                            std::string_view name,
                                                            const std::string& owner,
                                                            const LockType& type);
  ~LockHandle() override;
  LockHandle(const LockHandle&) = delete;
  LockHandle& operator=(const LockHandle&) = delete;

  absl::Status Refusal() const override { return core_->Refusal(); }
  // Whether a lock may have this lease. Until the client has connected, a server that has a
  // quarantine may allow less.
  absl::Status CheckLease(absl::Duration lease) const;

  // What the calling thread has already, once more; nothing where it has nothing that it may.
  // Cheap.
  std::optional<HoldRef> Reenter(Face face, bool manual);
  // lock() of what the calling thread has already, or of what the client has and no thread. False:
  // Acquire() it. Cheap.
  bool LockAgain(const std::shared_ptr<const LockOptions>& options);
  // A hold of 0: these are readers whom this one may not join, and `met` takes what the wait has
  // met so far; or nothing is held here.
  //
  absl::StatusOr<HoldRef> Acquire(const Want& want, Silence* met = nullptr);
  absl::Status Release(uint64_t hold, FencingToken token) noexcept override;
  void ReleaseQuietly(uint64_t hold, FencingToken token) noexcept override;
  // The same without a thread; see AsyncAcquisition and AsyncRelease. `elsewhere`: to whom a reader
  // goes that may not join these.
  using Elsewhere = std::function<absl::StatusOr<std::shared_ptr<LockHandle>>(const Entry& left)>;
  using Finish = absl::AnyInvocable<EventDriver::Completion(absl::StatusOr<OwnedHold>) &&>;
  void AcquireAsync(Want want, Finish finish, Elsewhere elsewhere = nullptr,
                    EventDriver::Whose whose = EventDriver::Whose::kUsers) noexcept;
  void ReleaseAsync(uint64_t hold, FencingToken token, Then then) noexcept override;
  void Tell(absl::AnyInvocable<void() &&> completion) override {
    core_->async().Complete(std::move(completion));
  }
  // Another way to that machine.
  static std::shared_ptr<LockHandle> To(std::shared_ptr<ClientCore> core, Entry& entry);
  // Several holds at several machines of one core.
  static void ReleaseAll(absl::Span<const OwnedHold> holds) noexcept;
  // For the drivers of an acquisition: how to begin it, and its outcome.
  static AcquireOperation::Call CallOf(ClientCore& core, const Want& want, uint64_t thread,
                                       Waker& waker);
  absl::StatusOr<HoldRef> Outcome(AcquireOperation& operation, absl::Duration wait) const;
  static absl::Status Failure(const Entry& entry, const Waiter& waiter, absl::Duration wait);
  void Unlock() noexcept;
  // The same of what the client then keeps. False: it is to be unlocked. Cheap.
  bool LeaveCachedNow();
  absl::Status Extend(uint64_t hold, absl::Duration lease) override;
  // The calling thread ends what it does not have: nothing happens, but that it is told.
  void Misuse(std::string_view what);
  // The calling thread, which may have the lock, comes to read.
  HoldRef Pin();

  // What the client has and no thread goes back.
  void GiveBackCached();
  // It follows that grant, which other clients may have tried to get.
  void CopyTriesFrom(const LockHandle& other);

  // A lock object comes.
  void AddObject() { ++entry_.objects; }
  // It goes: its calls that wait end, also those of an Owner; with the last object, what was taken
  // by lock().
  void RemoveObject(const void* object);
  // What was taken by lock() ends.
  void ReleaseStd();

  HoldRef OfThisThread() const;
  // The same, to be shown to the user.
  HoldRef Current() const;
  // Some thread has it, or may take it again, or is still to unlock what it lost.
  bool in_use() const;

  const Entry& entry() const { return entry_; }
  bool reusable() const;  // nothing is held here or awaited, and what is owed is on its way

  // A script that is no part of anybody's hold, once, within the command timeout or until the
  // deadline.
  absl::StatusOr<redis::Reply> Run(const LuaScript& script, absl::Span<const std::string> args,
                                   base::Instant deadline = base::Instant::Infinite(),
                                   std::string_view own_key = {});
  // The same without a thread that waits: the answer is the letter's second.
  AsyncReplyPtr RunInBatch(AsyncTask& task, const LuaScript& script,
                           absl::Span<const std::string> args, base::Instant deadline);
  absl::StatusOr<LockInfo> Inspect(int most_waiters = kWaitersListed);
  absl::Status ForceRelease();
  // A script whose work may take several calls: each goes on where the last one stopped.
  absl::Status RunAll(const LuaScript& script, std::string arg, std::string_view own_key = {});
  // Another script of this lock has to be gone on with, in the background: see Answer::look.
  void GoOn();
  // The status, with the name of the lock and its server.
  absl::Status About(const absl::Status& status) const;

 private:
  absl::Status CheckAcks(const LockOptions& options) const;
  absl::Status CheckCaching(const LockOptions& options) const;
  absl::Status Check(const Want& want) const;
  absl::Status EndRelease(const ReleaseOperation& operation) const;
  void EndQuietly(const ReleaseOperation::Call& call, bool leaves) noexcept;
  void Leave(ReleaseOperation operation, Operation::Action action, Then then) noexcept;

  const std::shared_ptr<ClientCore> core_;
  Entry& entry_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_LOCK_HANDLE_H_
