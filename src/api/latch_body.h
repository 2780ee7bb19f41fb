#ifndef REDLATCH_SRC_API_LATCH_BODY_H_
#define REDLATCH_SRC_API_LATCH_BODY_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "redlatch/count_down_latch.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/lock/client_core.h"
#include "src/lock/lock_handle.h"

namespace redlatch {

// What a latch object is; a call that is under way keeps it.
class CountDownLatch::LatchBody : public std::enable_shared_from_this<CountDownLatch::LatchBody> {
 public:
  LatchBody(std::shared_ptr<internal::ClientCore> core, std::string_view name, int64_t count,
            LatchOptions options)
      : core_(std::move(core)), name_(name), total_(count), ttl_(options.ttl) {}

  // The object goes: its calls that wait end.
  void Close() {
    if (core_->in_forked_child()) return;
    gone_ = true;
    core_->StopAll(name_, this);
  }

  const std::string& name() const { return name_; }

  absl::Status Wait(const LatchWaitOptions& options);
  void WaitAsync(const LatchWaitOptions& options, WaitCallback told);
  // How many are still to arrive, then.
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
    base::Instant end;  // of its first use, and of a look
    WaitCallback told;
  };
  using Next = void (LatchBody::*)(AsyncWait wait, const redis::Reply& reply);

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
  internal::Want WantOf(const LatchWaitOptions& options, base::Instant began) const;
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
  Latch latch_ ABSL_GUARDED_BY(mu_);  // without a session before the first use
};

}  // namespace redlatch

#endif  // REDLATCH_SRC_API_LATCH_BODY_H_
