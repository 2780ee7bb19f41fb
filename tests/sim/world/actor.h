#ifndef REDLATCH_TESTS_SIM_WORLD_ACTOR_H_
#define REDLATCH_TESTS_SIM_WORLD_ACTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/election.h"
#include "redlatch/lease.h"
#include "redlatch/multi_lock.h"
#include "redlatch/observer.h"
#include "redlatch/red_lock.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "redlatch/stats.h"
#include "tests/sim/os/kernel.h"
#include "tests/sim/world/oracle.h"
#include "tests/sim/world/plan.h"

namespace redlatch::sim {

// One client process: it uses redlatch like a program, and tells the oracle what it gets.
class Actor {
 public:
  // `urls`: of the process's two clients. `probes_at`: the kernel time from which no fault may have
  // any effect left.
  Actor(Kernel& kernel, Oracle& oracle, const Plan& plan, size_t number,
        std::vector<std::string> urls, int64_t probes_at);

  // Runs in a new process. After the end of another, it continues with the operations that no
  // thread had started.
  void Start();
  // How a process ends: by SIGKILL; by _exit(), right after an operation; or by exit(), which
  // another of its threads calls.
  enum class Ending : uint8_t { kKilled, kQuickExit, kExit };
  // `dies` is called just before its threads stop.
  void End(Ending how, std::function<void()> dies);
  void Die();
  bool ends() const { return dies_ != nullptr; }

  Process* process() const { return process_; }
  bool done() const { return done_; }
  const Kernel& kernel() const { return kernel_; }
  std::string Progress() const;  // where each thread is, for the failure report

  uint64_t failures() const { return failures_; }
  // How many calls it made, and of how many the result was judged.
  uint64_t calls() const { return calls_; }
  uint64_t judged_calls() const { return judged_calls_; }
  // Until then, a fault may make its calls fail.
  void ExcuseCalls(int64_t until) { calls_excused_until_ = std::max(calls_excused_until_, until); }
  // The same, and its holds may be lost.
  void ExcuseCallsAndLosses(int64_t until) {
    ExcuseCalls(until);
    losses_excused_until_ = std::max(losses_excused_until_, until);
  }

 private:
  struct Observer;  // of an election
  struct Objects;   // the locks of this process
  class Latch;

  void Main();
  void Use(const ClientOptions& options);
  void Exit();
  void Run(Objects& objects, size_t thread);
  // The oracle's number of that thread in this life of the process.
  uint64_t OwnerOf(size_t thread) const;
  void Probe(Objects& objects);
  void Do(Objects& objects, const Operation& operation, uint64_t owner);
  void Administer(Objects& objects, const Operation& operation);
  void CheckStats(const LockStats& all);
  absl::Status CheckCount(Latch& latch, const SharedObject& object);
  void DoLatch(Objects& objects, const Operation& operation);
  void DoStd(Objects& objects, const Operation& operation, uint64_t owner);
  void DoElection(Objects& objects, const Operation& operation, uint64_t owner);
  void RunTerm(Objects& objects, const Operation& operation, uint64_t owner);
  absl::Status AskForLeader(Election& election, const SharedObject& object);
  void Observe(Objects& objects, const Operation& operation);
  absl::Status ProbeElection(Election& election, const SharedObject& object,
                             const AcquireOptions& options);
  bool WorkAsReader(RedisLockBase& lock, const Operation& writes, uint64_t owner,
                    const std::vector<uint64_t>& ids);
  void DoLease(Objects& objects, const Operation& operation, uint64_t owner);
  void DoPermit(Objects& objects, const Operation& operation, uint64_t owner);
  void DoStdPermit(Objects& objects, Operation operation, uint64_t owner);
  void CheckMisuse(Objects& objects, const Operation& operation, const redlatch::Hold& hold);
  auto Expects(std::string what, int64_t within = kNever) const {
    return
        [this, what = std::move(what), within] { return oracle_.Expects(process_, what, within); };
  }
  int64_t LongestRelease(const Operation& operation, int releases) const;
  void JudgeLeaving(const Operation& operation, int64_t began, int releases);
  void Work(const Operation& operation, const std::function<bool()>& valid,
            const std::stop_token& lost);
  // Works under a lease, a permit or a leadership, and then ends it as the operation says.
  template <class Held>
  void WorkAndLeave(const Operation& operation, const std::vector<uint64_t>& ids, Held& held);
  // No fault affects what has happened since then.
  bool IsCalm(int64_t since) const { return since >= calls_excused_until_; }
  void Judge(const absl::Status& status, const Operation& operation, int64_t asked);
  bool ExpectsFree(const absl::Status& status, const Operation& operation, int64_t asked) const;
  std::vector<std::string> Names(const Operation& operation) const;
  // Null if the operation is not on a multi-lock.
  std::unique_ptr<MultiLock> MultiOf(Objects& objects, const Operation& operation) const;
  std::stop_token WantedOf(const Operation& operation, const redlatch::Hold& hold) const;
  int64_t LeavesAt(const Operation& operation) const;
  Oracle::Request RequestOf(const Operation& operation, uint64_t owner) const;
  Oracle::Hold HeldBy(const Operation& operation, const redlatch::Hold& hold) const;
  RedisLockBase& LockOf(Objects& objects, const Operation& operation) const;
  bool HasSharedOwner(const Operation& operation) const {
    const Kind kind = ObjectOf(operation).kind;
    return operation.owner && operation.interface >= Operation::Interface::kAcquire &&
           !operation.shared && (kind == Kind::kReentrant || kind == Kind::kReadWrite);
  }
  AcquireOptions OptionsOf(const Operation& operation, std::stop_token stop) const;
  const SharedObject& ObjectOf(const Operation& operation) const {
    return plan_.objects[static_cast<size_t>(operation.object)];
  }

  Kernel& kernel_;
  Oracle& oracle_;
  const Plan& plan_;
  const int64_t start_ = kernel_.now();
  const size_t number_;
  const std::vector<std::string> urls_;
  const int64_t probes_at_;
  Process* process_ = nullptr;
  int lives_ = 0;
  int campaigns_ = 0;
  bool done_ = false;
  std::vector<std::weak_ptr<internal::ClientCore>> cores_;  // of the process's clients
  bool quick_exit_ = false;
  std::function<void()> dies_;
  uint64_t failures_ = 0;
  uint64_t calls_ = 0;
  uint64_t judged_calls_ = 0;
  int64_t calls_excused_until_ = 0;
  int64_t losses_excused_until_ = 0;
  std::vector<size_t> next_;  // per thread: the next operation
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_WORLD_ACTOR_H_
