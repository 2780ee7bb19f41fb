#include "tests/sim/world/actor.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "docs/code/06-a-lock-of-your-own/priority_lock.h"
#include "redlatch/redisson/count_down_latch.h"
#include "redlatch/redisson/fair_lock.h"
#include "redlatch/redisson/fenced_lock.h"
#include "redlatch/redisson/lock.h"
#include "redlatch/redisson/permit_expirable_semaphore.h"
#include "redlatch/redisson/read_write_lock.h"
#include "redlatch/redisson/semaphore.h"
#include "src/api/lock_body.h"
#include "src/api/outcomes.h"
#include "src/base/clock.h"
#include "src/lock/client_core.h"
#include "tests/sim/trace.h"
#include "tests/support/acquire_as.h"

namespace redlatch::sim {
namespace {

// A call may take this much longer than its timeout.
constexpr int64_t kLateness = 50 * kMilli;

void SleepMicros(int64_t micros) {
  if (micros > 0) absl::SleepFor(absl::Microseconds(micros));
}

// Calls may have to find another server.
bool MovesServer(Group group) { return group == Group::kSentinel || group == Group::kCluster; }

bool Tries(const Operation& operation) {
  return operation.interface == Operation::Interface::kTryLock ||
         operation.interface == Operation::Interface::kTryAcquire;
}

// Registers a request for all names of an operation, from its construction until Done().
class Asking {
 public:
  Asking(Kernel& kernel, Oracle& oracle, Oracle::Request request)
      : oracle_(oracle), request_(std::move(request)), since_(kernel.now()) {
    for (const std::string& each : request_.names) largest_.push_back(oracle_.LargestToken(each));
    id_ = oracle_.Asked(request_);
    welcome_ = oracle_.IsWelcome(id_);
  }
  ~Asking() { Done(); }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

  void Done() {
    if (std::exchange(asks_, false)) oracle_.StoppedAsking(id_);
  }
  int64_t since() const { return since_; }
  // The lock was said to be busy, and no fault explains that.
  void WasBusy() const {
    if (!welcome_ || !oracle_.IsWelcome(id_)) return;
    oracle_.Violated(absl::StrCat("P3: ", request_.process->name, " is told that ",
                                  request_.names.front(), " is busy, and nothing keeps it out"));
  }
  // The oracle's numbers of the grants. `hold` gets each name's token.
  std::vector<uint64_t> Granted(Oracle::Hold hold, const redlatch::Hold* tokens) {
    std::vector<uint64_t> ids;
    hold.process = request_.process;
    hold.mode = request_.mode;
    hold.owner = request_.owner;
    hold.permits = request_.permits;
    hold.capacity = request_.capacity;
    hold.asked = since_;
    for (size_t i = 0; i < request_.names.size(); ++i) {
      hold.name = request_.names[i];
      if (tokens != nullptr) {
        hold.token =
            (hold.name.front() == '{' ? tokens->fencing_token(hold.name) : tokens->fencing_token())
                .value();
      }
      ids.push_back(oracle_.Granted(hold, largest_[i]));
    }
    Done();
    return ids;
  }

 private:
  Oracle& oracle_;
  const Oracle::Request request_;
  const int64_t since_;
  uint64_t id_ = 0;
  bool welcome_ = false;
  std::vector<uint64_t> largest_;
  bool asks_ = true;
};

// Writes to the trace what redlatch would write to stderr.
class Quiet final : public Observer {
 public:
  explicit Quiet(bool needs_tokens) : needs_tokens_(needs_tokens) {}
  bool needs_tokens() const override { return needs_tokens_; }

 private:
  void OnLost(const LostLease& lost) override {
    Trace::Say("lost: ", lost.lock, ": ", lost.reason);
  }
  void OnMisuse(std::string_view lock, std::string_view what) override {
    Trace::Say("misuse of ", std::string(lock), ": ", std::string(what));
  }
  void OnReleaseFailed(std::string_view lock, FencingToken, absl::Duration,
                       const absl::Status& why) override {
    Trace::Say("not released: ", std::string(lock), ": ", why.ToString());
  }
  const bool needs_tokens_;
};

// Begins to expect a callback, and returns what the callback must call.
using Expecter = std::function<std::function<void()>()>;

// The result of a call, or of the same call with a callback.
template <class Result, class Call, class AsyncCall>
Result Await(bool asynchronous, const Expecter& expect, Call call, AsyncCall async_call) {
  if (!asynchronous) return call();
  struct Told {
    std::mutex mu;
    std::condition_variable changed;
    std::optional<Result> result;
  };
  const auto told = std::make_shared<Told>();
  async_call([told, ran = expect()](Result result) {
    ran();
    const std::lock_guard<std::mutex> lock(told->mu);
    told->result = std::move(result);
    told->changed.notify_one();
  });
  std::unique_lock<std::mutex> lock(told->mu);
  told->changed.wait(lock, [&] { return told->result.has_value(); });
  return *std::move(told->result);
}

// Requests the stop of an operation after its delay, if it has one.
class Stopper {
 public:
  explicit Stopper(const Operation& operation) {
    if (operation.stop_ms < 0) return;
    thread_ = std::thread([this, after = operation.stop_ms] {
      SleepMicros(after * 1000);
      source_.request_stop();
    });
  }
  ~Stopper() {
    if (thread_.joinable()) thread_.join();
  }
  std::stop_token token() { return thread_.joinable() ? source_.get_token() : std::stop_token(); }

 private:
  std::stop_source source_;
  std::thread thread_;
};

Oracle::Mode ModeOf(const Operation& operation) {
  return operation.shared ? Oracle::Mode::kShared : Oracle::Mode::kExclusive;
}

// Ends a lease or a permit as the operation says. Returns how many releases that took: the
// destructor repeats a failed one.
template <class Held>
int Leave(const Operation& operation, Held held, const Expecter& expect) {
  switch (operation.leave) {
    case Operation::Leave::kRelease:
      return held.Release().ok() ? 1 : 2;
    case Operation::Leave::kDestroy:
      return 1;
    case Operation::Leave::kReleaseAsync:
      held.ReleaseAsync([ran = expect()](const absl::Status&) { ran(); });
  }
  return 1;
}

// The calling thread's hold of a lock of one name. No token is drawn for it.
struct Untold : RedisLockBase {
  static redlatch::Hold Of(const RedisLockBase& lock) {
    const auto handle = static_cast<LockBody&>(*BodyOf(lock)).HandleFor(/*reads=*/false, {});
    return handle.ok() ? HoldOf((*handle)->CurrentWithoutToken()) : redlatch::Hold();
  }
};

std::optional<Duration> TurnOf(const SharedObject& object) {
  if (!object.turn_ms) return std::nullopt;
  return absl::Milliseconds(*object.turn_ms);
}

template <class Lock>
std::unique_ptr<RedisLockBase> Made(const Client& client, const std::string& name,
                                    const LockOptions& options) {
  return std::make_unique<Lock>(client, name, options);
}

std::unique_ptr<RedisLockBase> MadeReentrant(const Client& client, const SharedObject& object,
                                             const LockOptions& options) {
  switch (object.redisson) {
    case Redisson::kLock:
      return Made<redisson::Lock>(client, object.name, options);
    case Redisson::kFencedLock:
      return Made<redisson::FencedLock>(client, object.name, options);
    case Redisson::kFairLock:
      return Made<redisson::FairLock>(client, object.name, options);
    default:
      return Made<ReentrantLock>(client, object.name, options);
  }
}

template <class Its, class... Args>
std::shared_ptr<Semaphore> MadeSemaphore(Args&&... args) {
  const auto made = std::make_shared<Its>(std::forward<Args>(args)...);
  // The base of Redisson's is private. The plan calls only what they make public.
  return {made, (Semaphore*)made.get()};  // NOLINT(google-readability-casting)
}

std::unique_ptr<RedisLockBase> MadeRedLock(const Client& client, const std::string& name,
                                           const LockOptions& options) {
  return std::make_unique<RedLock>(
      client, name,
      RedLockOptions{.lease = options.lease, .turn = options.turn, .on_lost = options.on_lost});
}

}  // namespace

// An observer of an election, which tells the oracle what it sees.
struct Actor::Observer {
  Observer(Oracle& its_oracle, Process* process, const std::string& name)
      : oracle(its_oracle), id(oracle.Observes(process, name)) {}
  ~Observer() {
    observation = Observation();
    oracle.ObservesNoMore(id);
  }
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  Oracle& oracle;
  const uint64_t id;
  Observation observation;
};

// A latch of either class.
class Actor::Latch {
 public:
  Latch(const Client& client, const SharedObject& object) {
    if (object.redisson != Redisson::kNo) {
      redissons_ = std::make_unique<redisson::CountDownLatch>(client, object.name);
    } else {
      own_ = std::make_unique<CountDownLatch>(client, object.name, object.capacity,
                                              LatchOptions{.ttl = absl::Minutes(10)});
    }
  }

  absl::Status CountDown(const std::string& id) {
    return own_ != nullptr ? own_->CountDown(1, id) : redissons_->CountDown(1);
  }
  absl::StatusOr<int64_t> Count() { return own_ != nullptr ? own_->Count() : redissons_->Count(); }
  absl::Status Wait(const LatchWaitOptions& options) {
    return own_ != nullptr ? own_->Wait(options) : redissons_->Wait(options);
  }
  void WaitAsync(const LatchWaitOptions& options, CountDownLatch::WaitCallback told) {
    own_ != nullptr ? own_->WaitAsync(options, std::move(told))
                    : redissons_->WaitAsync(options, std::move(told));
  }

 private:
  std::unique_ptr<CountDownLatch> own_;
  std::unique_ptr<redisson::CountDownLatch> redissons_;
};

struct Actor::Objects {
  // `another` is used only if locks of two clients are taken together.
  Objects(const Client& its_client, const Client& another, const Plan& plan,
          const std::function<void(const LostLease&)>& on_lost,
          const std::function<void(const WantedLease&)>& on_wanted)
      : client(its_client) {
    const bool quorum = plan.group == Group::kQuorum;
    for (const SharedObject& each : plan.objects) {
      const LockOptions options{.lease = absl::Milliseconds(each.lease_ms),
                                .turn = TurnOf(each),
                                .cache_for = absl::Milliseconds(each.keep_ms),
                                .acks = {.replicas = each.replica_acks, .fsync = each.fsync},
                                .stop_margin = absl::Milliseconds(each.stop_margin_ms),
                                .at_most = each.at_most_ms == 0
                                               ? absl::InfiniteDuration()
                                               : absl::Milliseconds(each.at_most_ms),
                                .grace = absl::Milliseconds(each.grace_ms),
                                .on_lost = on_lost,
                                .on_wanted = each.tells ? on_wanted : nullptr};
      locks.emplace_back();
      semaphores.emplace_back();
      latches.emplace_back();
      parts.emplace_back();
      observers.emplace_back();
      switch (each.kind) {
        case Kind::kSimple:
          locks.back() = quorum     ? MadeRedLock(client, each.name, options)
                         : each.own ? Made<PriorityLock>(client, each.name, options)
                                    : Made<SimpleLock>(client, each.name, options);
          break;
        case Kind::kElection:
          locks.back() = Made<Election>(client, each.name, options);
          break;
        case Kind::kReentrant:
          locks.back() = MadeReentrant(client, each, options);
          break;
        case Kind::kReadWrite:
          if (each.redisson != Redisson::kNo) {
            locks.back() = Made<redisson::ReadWriteLock>(client, each.name, options);
            break;
          }
          locks.back() = std::make_unique<ReentrantReadWriteLock>(
              client, each.name, options,
              each.phase_fair ? ReentrantReadWriteLock::Policy::kPhaseFair
                              : ReentrantReadWriteLock::Policy::kWriterFirst);
          break;
        case Kind::kSemaphore: {
          const SemaphoreOptions its = {.lease = options.lease, .turn = options.turn};
          semaphores.back() =
              each.redisson == Redisson::kSemaphore
                  ? MadeSemaphore<redisson::Semaphore>(client, each.name, its)
              : each.redisson == Redisson::kExpirableSemaphore
                  ? MadeSemaphore<redisson::PermitExpirableSemaphore>(client, each.name, its)
                  : MadeSemaphore<Semaphore>(client, each.name, each.capacity, its);
          break;
        }
        case Kind::kLatch:
          latches.back() = std::make_unique<Latch>(client, each);
          break;
        case Kind::kMulti:
          // If the locks are apart, each operation has its own lock.
          for (int i = 0; each.apart > 0 && i < kPartsOfMulti; ++i) {
            const Client& its = each.apart > 1 && i == 1 ? another : client;
            const std::string name = each.Names()[static_cast<size_t>(i)];
            parts.back().push_back(quorum ? MadeRedLock(its, name, options)
                                          : Made<ReentrantLock>(its, name, options));
          }
      }
    }
  }

  Client client;
  std::vector<std::unique_ptr<RedisLockBase>> locks;
  std::vector<std::shared_ptr<Semaphore>> semaphores;
  std::vector<std::unique_ptr<Latch>> latches;
  std::vector<std::vector<std::unique_ptr<RedisLockBase>>> parts;
  std::vector<std::unique_ptr<Observer>> observers;  // of elections
  std::atomic<bool> observes = false;                // a thread begins to observe
};

Actor::Actor(Kernel& kernel, Oracle& oracle, const Plan& plan, size_t number,
             std::vector<std::string> urls, int64_t probes_at)
    : kernel_(kernel),
      oracle_(oracle),
      plan_(plan),
      number_(number),
      urls_(std::move(urls)),
      probes_at_(probes_at) {
  next_.resize(plan.clients[number].threads.size());
}

void Actor::Start() {
  process_ = kernel_.NewProcess(absl::StrCat("client ", number_, lives_ > 0 ? "'" : ""));
  process_->clock.speed = plan_.clients[number_].clock_speed;
  process_->clock.offset = static_cast<int64_t>(number_ + 1) * 1000 * kSecond;
  ++lives_;
  quick_exit_ = false;
  dies_ = nullptr;
  cores_.clear();
  kernel_.Spawn(process_, [this] { Main(); });
}

void Actor::End(Ending how, std::function<void()> dies) {
  dies_ = std::move(dies);
  quick_exit_ = how == Ending::kQuickExit;
  if (how == Ending::kKilled) Die();
  if (how == Ending::kExit) kernel_.Spawn(process_, [this] { Exit(); });
}

void Actor::Die() {
  if (done_ || process_->dead) return;
  dies_();
  oracle_.Died(process_);
  kernel_.Kill(process_);
}

// What the library has registered with atexit(), for this process alone.
void Actor::Exit() {
  constexpr int64_t kLongest = 150 * kMilli;
  const int64_t began = kernel_.now();
  const base::Instant until = base::Now() + absl::Nanoseconds(kLongest);
  for (const auto& each : std::vector(cores_)) {
    if (const auto core = each.lock()) core->GiveBackAtExit(until);
  }
  if (kernel_.now() - began > kLongest + kLateness && process_->stopped_until < began) {
    oracle_.Violated(absl::StrCat("exit() of ", process_->name, " took ",
                                  (kernel_.now() - began) / kMilli, " ms"));
  }
  if (done_) return;
  Die();
  kernel_.Block(kNever);
}

void Actor::Main() {
  ClientOptions options;
  options.connect = ConnectPolicy::kLazy;
  options.observer = std::make_shared<Quiet>(/*needs_tokens=*/plan_.seed % 5 == 0);
  if (plan_.prefixed) options.key_prefix = kKeyPrefix;
  Use(options);
  oracle_.Ended(process_);
  done_ = true;
}

void Actor::Use(const ClientOptions& options) {
  auto client = Client::Connect(urls_[0], options);
  if (!client.ok())
    return oracle_.Violated(absl::StrCat("no client: ", client.status().ToString()));
  const bool two = std::any_of(plan_.objects.begin(), plan_.objects.end(),
                               [](const SharedObject& each) { return each.apart > 1; });
  const Client another = two ? *Client::Connect(urls_[1], options) : *client;
  cores_ = {client->core(), another.core()};
  const auto objects = std::make_unique<Objects>(
      *std::move(client), another, plan_,
      [this, process = process_](const LostLease& lost) {
        oracle_.TellsLoss(process, lost.lock, lost.token.value());
      },
      [this, process = process_](const WantedLease& wanted) {
        oracle_.TellsWanted(process, wanted.lock, wanted.token.value());
      });
  std::vector<std::thread> threads;
  for (size_t i = 0; i < next_.size(); ++i) {
    threads.emplace_back([this, i, its = objects.get()] { Run(*its, i); });
  }
  for (std::thread& each : threads) each.join();
  if (!plan_.faults.empty()) Probe(*objects);
  if (!MovesServer(plan_.group)) CheckStats(objects->client.Stats().all);
}

// Long after the last fault, each object must be available again.
void Actor::Probe(Objects& objects) {
  while (kernel_.now() < probes_at_) SleepMicros((probes_at_ - kernel_.now()) / kMicro + 1);
  // Waiters stand in the same order at all servers of a quorum if the servers' clocks differ by
  // less than a second. Otherwise this waits for their next heartbeats.
  const bool disordered = plan_.group == Group::kQuorum &&
                          (plan_.Has(FaultKind::kClockBack) || plan_.Has(FaultKind::kClockForward));
  absl::Duration wait = absl::Seconds(disordered ? 60 : 10);
  for (const ClientPlan& client : plan_.clients) {  // others may still be busy
    for (const auto& operations : client.threads) {
      for (const Operation& each : operations) {
        wait += absl::Microseconds(each.work_us) + absl::Milliseconds(each.at_least_ms);
      }
    }
  }
  const AcquireOptions options{.wait = wait};
  for (size_t i = 0; i < plan_.objects.size(); ++i) {
    const SharedObject& object = plan_.objects[i];
    const Operation all{.object = static_cast<int>(i),
                        .permits = object.kind == Kind::kMulti ? 7 : 1};
    std::optional<Asking> asking;
    if (object.kind != Kind::kElection && object.kind != Kind::kLatch) {
      asking.emplace(kernel_, oracle_, RequestOf(all, OwnerOf(0)));
    }
    // By the time that it releases what it got, it no longer asks.
    const auto got = [&](const auto& held) {
      asking.reset();
      return held.status();
    };
    absl::Status status;
    if (object.kind == Kind::kElection) {
      status = ProbeElection(static_cast<Election&>(*objects.locks[i]), object, options);
    } else if (objects.locks[i] != nullptr) {
      status = got(objects.locks[i]->Acquire(options));
    } else if (object.kind == Kind::kSemaphore) {
      status = got(objects.semaphores[i]->Acquire(1, options));
    } else if (object.kind == Kind::kLatch) {
      static_cast<void>(CheckCount(*objects.latches[i], object));
    } else if (object.kind == Kind::kMulti) {
      status = got(MultiOf(objects, all)->Acquire(options));
    }
    // Another operation may have set another capacity.
    if (status.ok() || (absl::IsFailedPrecondition(status) && plan_.administers)) continue;
    return oracle_.Violated(absl::StrCat("P3: ", process_->name, " cannot have ", object.name,
                                         " long after the last fault: ", status.ToString()));
  }
}

// A client's counts add up once no thread holds anything.
void Actor::CheckStats(const LockStats& all) {
  const uint64_t ended = all.released + all.releases_failed + all.lost + all.releasing;
  if (all.acquired != ended + all.held || all.waited.count() != all.acquired + all.opened ||
      all.held_for.count() != ended || all.waiting + all.permits > 0) {
    oracle_.Violated(absl::StrCat("the statistics of ", process_->name, " do not add up: acquired ",
                                  all.acquired, ", released ", all.released, " + ",
                                  all.releases_failed, " + ", all.releasing, ", lost ", all.lost,
                                  ", held ", all.held, ", waiting ", all.waiting));
  }
}

std::string Actor::Progress() const {
  std::string text = absl::StrCat(process_->name, done_ ? " is done" : "", ":");
  for (size_t i = 0; i < next_.size(); ++i) {
    absl::StrAppend(&text, " ", next_[i], "/", plan_.clients[number_].threads[i].size());
  }
  return text;
}

uint64_t Actor::OwnerOf(size_t thread) const {
  return (static_cast<uint64_t>(lives_) * 100 + number_) * 100 + thread;
}

void Actor::Run(Objects& objects, size_t thread) {
  const std::vector<Operation>& operations = plan_.clients[number_].threads[thread];
  const uint64_t owner = OwnerOf(thread);
  while (next_[thread] < operations.size()) {
    const Operation& operation = operations[next_[thread]++];
    const int64_t begins = start_ + operation.not_before_ms * kMilli;
    SleepMicros(std::max(operation.pause_us, (begins - kernel_.now()) / kMicro));
    Trace::Say(process_->name, " thread ", thread, ": ", Describe(operation, plan_));
    kernel_.CountStep();
    Do(objects, operation, owner);
    Trace::Say(process_->name, " thread ", thread, " is through");
    if (!quick_exit_) continue;
    Die();
    kernel_.Block(kNever);
  }
}

void Actor::Do(Objects& objects, const Operation& operation, uint64_t owner) {
  const Kind kind = ObjectOf(operation).kind;
  if (operation.interface >= Operation::Interface::kInspect) return Administer(objects, operation);
  if (kind == Kind::kLatch) return DoLatch(objects, operation);
  const bool std_interface = operation.interface < Operation::Interface::kAcquire;
  if (kind == Kind::kSemaphore) {
    return std_interface ? DoStdPermit(objects, operation, owner)
                         : DoPermit(objects, operation, owner);
  }
  if (kind == Kind::kElection) Observe(objects, operation);
  // After a failed campaign, it pauses.
  if (kind == Kind::kElection && operation.interface == Operation::Interface::kLock &&
      operation.nested && IsCalm(kernel_.now()) && plan_.latest_us <= 50'000) {
    return RunTerm(objects, operation, owner);
  }
  if (std_interface) return DoStd(objects, operation, owner);
  kind == Kind::kElection ? DoElection(objects, operation, owner)
                          : DoLease(objects, operation, owner);
}

// Inspects an object, or changes what others have of it.
void Actor::Administer(Objects& objects, const Operation& operation) {
  using Interface = Operation::Interface;
  const auto at = static_cast<size_t>(operation.object);
  const SharedObject& object = ObjectOf(operation);
  const int64_t asked = kernel_.now();
  absl::Status status;
  // Two clients may have the lock until the holder is told, at its next renewal at the latest.
  const bool by_message = plan_.faults.empty() && object.redisson == Redisson::kNo;
  const int64_t told = by_message ? kSecond + 3 * plan_.latest_us * kMicro : 40 * kSecond;
  if (operation.interface == Interface::kForceRelease) oracle_.Forced(Names(operation), kNever);
  if (object.kind == Kind::kSemaphore) {
    Semaphore& semaphore = *objects.semaphores[at];
    status = operation.interface == Interface::kInspect ? semaphore.Inspect().status()
             : operation.interface == Interface::kForceRelease
                 ? semaphore.ForceRelease()
                 : semaphore.SetCapacity(operation.permits);
  } else if (object.kind == Kind::kLatch) {
    status = CheckCount(*objects.latches[at], object);
  } else {
    const auto multi = MultiOf(objects, operation);
    RedisLockBase& lock = multi != nullptr ? *multi : LockOf(objects, operation);
    status = operation.interface == Interface::kForceRelease ? lock.ForceRelease()
             : object.kind == Kind::kElection && operation.nested
                 ? AskForLeader(static_cast<Election&>(lock), object)
                 : lock.Inspect().status();
  }
  if (operation.interface == Interface::kForceRelease)
    oracle_.Forced(Names(operation), kernel_.now() + told);
  Operation judged = operation;
  judged.wait_ms = -1;
  Judge(status, judged, asked);
}

absl::Status Actor::CheckCount(Latch& latch, const SharedObject& object) {
  oracle_.UsesLatch(object.name);
  const int64_t confirmed = oracle_.ConfirmedCounts(object.name);
  const absl::StatusOr<int64_t> left = latch.Count();
  if (left.ok()) oracle_.CheckCounts(object.name, process_, object.capacity - *left, confirmed);
  return left.status();
}

std::unique_ptr<MultiLock> Actor::MultiOf(Objects& objects, const Operation& operation) const {
  const SharedObject& object = ObjectOf(operation);
  if (object.kind != Kind::kMulti) return nullptr;
  if (object.apart > 0) {
    std::vector<MultiLock::Part> parts;
    for (int i = 0; i < kPartsOfMulti; ++i) {
      const auto& part =
          objects.parts[static_cast<size_t>(operation.object)][static_cast<size_t>(i)];
      if ((operation.permits >> i & 1) != 0) parts.emplace_back(part.get());
    }
    return std::make_unique<MultiLock>(std::move(parts));
  }
  return std::make_unique<MultiLock>(
      objects.client, Names(operation),
      MultiLockOptions{.lease = absl::Milliseconds(object.lease_ms),
                       .acks = {.replicas = object.replica_acks, .fsync = object.fsync}});
}

std::vector<std::string> Actor::Names(const Operation& operation) const {
  const SharedObject& object = ObjectOf(operation);
  std::vector<std::string> names = object.Names();
  if (object.kind != Kind::kMulti) return names;
  std::erase_if(names, [&, i = 0](const std::string&) mutable {
    return (operation.permits >> i++ & 1) == 0;
  });
  return names;
}

AcquireOptions Actor::OptionsOf(const Operation& operation, std::stop_token stop) const {
  AcquireOptions options;
  if (operation.wait_ms >= 0) options.wait = absl::Milliseconds(operation.wait_ms);
  if (operation.lease_ms > 0) options.lease = absl::Milliseconds(operation.lease_ms);
  options.whole_lease = operation.whole_lease;
  options.at_least = absl::Milliseconds(operation.at_least_ms);
  if (Tries(operation)) options.wait = absl::ZeroDuration();
  options.stop = std::move(stop);
  return options;
}

// Fails the run if a call may not end like this.
void Actor::Judge(const absl::Status& status, const Operation& operation, int64_t asked) {
  const int64_t took = kernel_.now() - asked;
  Trace::Say(process_->name, " is told: ", status.ToString());
  ++calls_;
  if (IsCalm(asked)) ++judged_calls_;
  const bool tries = operation.interface == Operation::Interface::kTryLock ||
                     operation.interface == Operation::Interface::kTryAcquire;
  const int64_t wait = tries ? kSecond : operation.wait_ms * kMilli;
  // Locks that are taken one after the other: each try may take as long as the server's reply.
  // Those of two clients are tried again after a pause.
  const int apart = ObjectOf(operation).apart;
  // Locks already taken are released, which may take as long.
  const int64_t answers = apart > 0 ? 2 * (kPartsOfMulti - 1) * kSecond : 0;
  // The event driver waits up to 15 ms at a time for a silent server.
  const int64_t reached =
      operation.interface == Operation::Interface::kAcquireAsync ? kLateness : 0;
  const int64_t limit = wait + wait / 100 + kLateness + reached + answers;
  if ((tries || operation.wait_ms > 0) && took > limit && process_->stopped_until < asked) {
    oracle_.Violated(absl::StrCat("a call took ", took / kMilli, " ms, which may take ",
                                  limit / kMilli, " ms: ", status.ToString()));
  }
  const bool stoppable = operation.interface >= Operation::Interface::kAcquire &&
                         operation.interface <= Operation::Interface::kAcquireAsync;
  const int64_t stop = operation.stop_ms * kMilli;
  // A blocking call notices its stop only when its request in flight is over, or its grant is
  // confirmed.
  const bool acked = ObjectOf(operation).acked();
  const bool fast = plan_.faults.empty() && !acked;
  const int64_t request = fast ? 10 * plan_.latest_us * kMicro : kSecond;
  const bool bounded = fast || (!MovesServer(plan_.group) && !acked);
  if (stoppable && bounded && stop >= 0 &&
      took > stop + stop / 100 + request + answers + kLateness && process_->stopped_until < asked) {
    oracle_.Violated(absl::StrCat("a call goes on for ", (took - stop) / kMilli,
                                  " ms after its stop: ", status.ToString()));
  }
  const int64_t pause = apart > 1 ? 50 * kMilli : 0;
  if (absl::IsDeadlineExceeded(status) && !tries && wait > 0 && took < wait - wait / 100 - pause) {
    oracle_.Violated(absl::StrCat("a call that may wait for ", wait / kMilli, " ms ends after ",
                                  took / kMilli, " ms"));
  }
  if (status.ok()) return;
  ++failures_;
  const bool ends = tries || operation.wait_ms >= 0;
  const bool expected =
      (absl::IsDeadlineExceeded(status) && ends) ||
      (absl::IsCancelled(status) && operation.stop_ms >= 0) ||
      (absl::IsUnavailable(status) && plan_.late_one_in > 0 &&
       (ends || plan_.latest_us > 500'000)) ||
      // Its first command since then goes to an address that no server has any more.
      (absl::IsUnavailable(status) && plan_.Has(FaultKind::kNewAddress) && ends) ||
      (absl::IsFailedPrecondition(status) && plan_.administers) ||
      // These are not repeated, or have no time for it, if their connection turns out to be broken.
      (absl::IsUnavailable(status) && !plan_.faults.empty() &&
       (tries || (operation.wait_ms >= 0 && operation.wait_ms <= 20) ||
        operation.interface >= Operation::Interface::kInspect)) ||
      // Its time was over, or its release was forced, before the replicas confirmed it.
      (absl::IsUnavailable(status) && (ends || operation.stop_ms >= 0 || plan_.administers) &&
       ObjectOf(operation).acked());
  // If locks are taken one by one, the first lease may end before the last is granted.
  const bool over = apart > 0 && ends && (plan_.administers || plan_.late_one_in > 0) &&
                    (absl::IsAborted(status) || absl::IsUnavailable(status));
  // A lease that is not renewed may end while the call waits for the next lock.
  const bool ended = apart > 0 && absl::IsAborted(status) && operation.lease_ms > 0 &&
                     took * 2 > operation.lease_ms * kMilli;
  // If a server loses a latch, that latch is lost for good.
  const bool vanished = ObjectOf(operation).kind == Kind::kLatch && absl::IsAborted(status) &&
                        oracle_.MayLackCounts(ObjectOf(operation).name);
  if (IsCalm(asked) && !expected && !over && !ended && !vanished) {
    oracle_.Violated(absl::StrCat("a call fails without a fault: ", status.ToString()));
  }
}

// The call did not wait, was told that the lock is busy, and no fault or slow link delays anything.
bool Actor::ExpectsFree(const absl::Status& status, const Operation& operation,
                        int64_t asked) const {
  // A server that is new, or has restarted, grants nothing at first. A lock that another client
  // caches is given back only when it is wanted.
  const bool at_once =
      plan_.quarantine_ms == 0 && plan_.restart_delay_ms == 0 && ObjectOf(operation).keep_ms == 0;
  return Tries(operation) && absl::IsDeadlineExceeded(status) && IsCalm(asked) && at_once &&
         plan_.late_one_in == 0 && !plan_.administers;
}

// A release always returns within the command_timeout; locks that are apart are released one after
// the other.
int64_t Actor::LongestRelease(const Operation& operation, int releases) const {
  const int64_t limit = releases * (ObjectOf(operation).apart > 0 ? kPartsOfMulti : 1) * kSecond;
  return limit + limit / 100 + kLateness;
}

void Actor::JudgeLeaving(const Operation& operation, int64_t began, int releases) {
  const int64_t took = kernel_.now() - began;
  if (took > LongestRelease(operation, releases) && process_->stopped_until < began) {
    oracle_.Violated(
        absl::StrCat("the release of ", ObjectOf(operation).name, " took ", took / kMilli, " ms"));
  }
}

// Uses the hold for a while, and checks that the client reports a loss in time.
void Actor::Work(const Operation& operation, const std::function<bool()>& valid,
                 const std::stop_token& lost) {
  const int64_t began = kernel_.now();
  const int64_t until = began + operation.work_us * kMicro;
  // The clocks of clients differ by less than 1 %. The time that replicas take to confirm the grant
  // counts, too.
  const int64_t at_most = ObjectOf(operation).at_most_ms * kMilli;
  while (kernel_.now() < until) {
    SleepMicros(std::min<int64_t>((until - kernel_.now()) / kMicro + 1, 20'000));
    if (valid()) {
      if (at_most > 0 && kernel_.now() - began > at_most + at_most / 100) {
        return oracle_.Violated(
            absl::StrCat(ObjectOf(operation).name, " is held for longer than it may be"));
      }
      if (!lost.stop_requested()) continue;
      return oracle_.Violated(absl::StrCat("P4: ", ObjectOf(operation).name,
                                           " is valid, though its holder was told of its loss"));
    }
    if (began >= losses_excused_until_ && operation.lease_ms == 0 && plan_.late_one_in == 0 &&
        !plan_.administers &&
        (at_most == 0 || (!operation.owner && !ObjectOf(operation).acked() &&
                          kernel_.now() - began < at_most - at_most / 50 - 15 * kMilli))) {
      oracle_.Violated(
          absl::StrCat("P1: ", ObjectOf(operation).name, " is lost, and nothing has happened"));
    }
    // The threads of a suspended client may take half a second to notice.
    const bool slow = kernel_.now() - process_->stopped_until < kSecond;
    for (int i = 0; i < (slow ? 60 : 2) && !lost.stop_requested(); ++i) SleepMicros(10'000);
    if (!lost.stop_requested() && process_->stopped_until < kernel_.now() - kSecond) {
      oracle_.Violated(absl::StrCat("P4: ", ObjectOf(operation).name,
                                    " is not valid, and its holder is not told"));
    }
    // It uses what is left before another owner may get in.
    SleepMicros(ObjectOf(operation).stop_margin_ms * 1000);
    return;
  }
}

// The oracle may ask a permit whether it is valid, so `held` stays where it is until it is
// released.
template <class Held>
void Actor::WorkAndLeave(const Operation& operation, const std::vector<uint64_t>& ids, Held& held) {
  Work(
      operation, [&] { return held.valid(); }, held.lost());
  for (const uint64_t id : ids) oracle_.Leaving(id);
  const int64_t leaves = kernel_.now();
  const int releases =
      Leave(operation, std::move(held),
            Expects("the release of " + ObjectOf(operation).name, LongestRelease(operation, 1)));
  JudgeLeaving(operation, leaves, releases);
}

// What tells the hold of waiters; without a state if the hold is not told soon, or not at all.
std::stop_token Actor::WantedOf(const Operation& operation, const redlatch::Hold& hold) const {
  // A hold of several names is told of those that wait, and not of those that try; and only their
  // renewals tell clients that share an Owner.
  if (ObjectOf(operation).kind == Kind::kMulti || HasSharedOwner(operation)) return {};
  return hold.wanted();
}

// When the caller's wait is over, or is stopped.
int64_t Actor::LeavesAt(const Operation& operation) const {
  using Interface = Operation::Interface;
  const bool has_options =
      operation.interface == Interface::kAcquire || operation.interface == Interface::kAcquireAsync;
  const bool waits = has_options || operation.interface == Interface::kTryLockFor;
  const int64_t now = kernel_.now();
  return std::min(
      waits && operation.wait_ms >= 0 ? now + operation.wait_ms * kMilli : kNever,
      has_options && operation.stop_ms >= 0 ? now + operation.stop_ms * kMilli : kNever);
}

Oracle::Request Actor::RequestOf(const Operation& operation, uint64_t owner) const {
  const SharedObject& object = ObjectOf(operation);
  const bool permits = object.kind == Kind::kSemaphore;
  return {.names = Names(operation),
          .process = process_,
          .mode = permits ? Oracle::Mode::kPermits : ModeOf(operation),
          .owner = owner,
          .permits = permits ? operation.permits : 0,
          .capacity = !permits            ? 0
                      : plan_.administers ? kLargestCapacity
                                          : object.capacity,
          .capacity_varies = permits && plan_.administers,
          .in_steps = object.apart > 0,
          .leaves_at = LeavesAt(operation)};
}

Oracle::Hold Actor::HeldBy(const Operation& operation, const redlatch::Hold& hold) const {
  const SharedObject& object = ObjectOf(operation);
  const bool fenced = object.redisson == Redisson::kFencedLock;
  return {.may_lack_token = object.redisson != Redisson::kNo && !fenced,
          .counts_tokens = fenced,
          .acknowledged = object.acked(),
          .quarantined = plan_.quarantine_ms > 0,
          .valid = [hold] { return hold.valid(); },
          .remaining = [hold] { return hold.remaining(); },
          .passes_writers = object.phase_fair,
          .lost = hold.lost(),
          .stop_margin = object.stop_margin_ms * kMilli,
          .grace = object.grace_ms * kMilli,
          .reserves_tokens = object.keep_ms > 0 || plan_.Has(FaultKind::kClockBack),
          // Readers share a token, so it does not tell whose loss is reported.
          .reports = object.kind != Kind::kMulti && object.kind != Kind::kReadWrite,
          .wanted = WantedOf(operation, hold),
          .reports_wanted = object.tells && object.kind != Kind::kReadWrite};
}

RedisLockBase& Actor::LockOf(Objects& objects, const Operation& operation) const {
  return *objects.locks[static_cast<size_t>(operation.object)];
}

void Actor::DoStd(Objects& objects, const Operation& operation, uint64_t owner) {
  const std::unique_ptr<MultiLock> multi = MultiOf(objects, operation);
  const SharedObject& object = ObjectOf(operation);
  RedisLockBase& lock = multi != nullptr ? *multi : LockOf(objects, operation);
  auto* const read_write = operation.shared ? static_cast<ReadWriteLockBase*>(&lock) : nullptr;
  const auto wait = std::chrono::milliseconds(std::max<int64_t>(operation.wait_ms, 0));
  Asking asking(kernel_, oracle_, RequestOf(operation, owner));
  bool got = true;
  absl::Status status;
  try {
    switch (operation.interface) {
      case Operation::Interface::kLock:
        read_write != nullptr ? read_write->lock_shared() : lock.lock();
        break;
      case Operation::Interface::kTryLock:
        got = read_write != nullptr ? read_write->try_lock_shared() : lock.try_lock();
        break;
      default:
        got =
            read_write != nullptr ? read_write->try_lock_shared_for(wait) : lock.try_lock_for(wait);
    }
    if (!got) status = absl::DeadlineExceededError("busy");
  } catch (const std::system_error& error) {
    got = false;
    status = absl::UnavailableError(error.what());
  }
  Operation judged = operation;
  if (operation.interface == Operation::Interface::kLock) judged.wait_ms = -1;
  Judge(status, judged, asking.since());
  if (ExpectsFree(status, operation, asking.since())) asking.WasBusy();
  if (!got) return;
  // Two of three clients never ask for the token of a simple lock's hold, so that they may acquire
  // it natively.
  const bool simple = object.kind == Kind::kSimple && plan_.group != Group::kQuorum;
  const bool untold =
      simple && (plan_.seed + number_ + static_cast<uint64_t>(operation.object)) % 3 != 0;
  const redlatch::Hold hold = read_write != nullptr ? read_write->current_read()
                              : untold              ? Untold::Of(lock)
                                                    : lock.current();
  // If the server cannot be asked, there is none.
  const bool may_lack_token = untold || ((simple || object.kind == Kind::kMulti) &&
                                         (!plan_.faults.empty() || plan_.late_one_in > 0));
  Oracle::Hold held = HeldBy(operation, hold);
  held.may_lack_token = held.may_lack_token || may_lack_token;
  const auto ids = asking.Granted(std::move(held), &hold);
  const bool reenters = operation.nested && object.kind == Kind::kReentrant;
  const bool nested = reenters && lock.try_lock();
  if (reenters && !nested && hold.valid() && IsCalm(asking.since())) {
    oracle_.Violated("a reentrant lock refuses its own thread");
  }
  if (operation.nested && read_write != nullptr) {
    const absl::Status upgrade = lock.Acquire({.wait = absl::Milliseconds(1)}).status();
    if (!absl::IsFailedPrecondition(upgrade) && hold.valid()) {
      oracle_.Violated(absl::StrCat("a thread that reads waits for itself: ", upgrade.ToString()));
    }
  }
  Work(
      operation, [&] { return hold.valid(); }, hold.lost());
  if (nested) lock.unlock();
  const bool writes = object.kind == Kind::kReadWrite && !operation.shared;
  if (writes && operation.nested && WorkAsReader(lock, operation, owner, ids)) return;
  for (const uint64_t id : ids) oracle_.Leaving(id);
  const int64_t leaves = kernel_.now();
  read_write != nullptr ? read_write->unlock_shared() : lock.unlock();
  JudgeLeaving(operation, leaves, 1);
}

// A thread that has the write lock also takes the read lock, and keeps that alone. False if it
// cannot.
bool Actor::WorkAsReader(RedisLockBase& lock, const Operation& writes, uint64_t owner,
                         const std::vector<uint64_t>& ids) {
  auto& read_write = static_cast<ReadWriteLockBase&>(lock);
  Operation reads = writes;
  reads.shared = true;
  Asking asking(kernel_, oracle_, RequestOf(reads, owner));
  try {
    if (!read_write.try_lock_shared()) return false;
  } catch (const std::system_error&) {
    return false;
  }
  const redlatch::Hold hold = read_write.current_read();
  const auto read_ids = asking.Granted(HeldBy(reads, hold), &hold);
  for (const uint64_t id : ids) oracle_.Leaving(id);
  int64_t leaves = kernel_.now();
  lock.unlock();
  JudgeLeaving(writes, leaves, 1);
  Work(
      reads, [&] { return hold.valid(); }, hold.lost());
  for (const uint64_t id : read_ids) oracle_.Leaving(id);
  leaves = kernel_.now();
  read_write.unlock_shared();
  JudgeLeaving(reads, leaves, 1);
  return true;
}

void Actor::DoLease(Objects& objects, const Operation& operation, uint64_t owner) {
  const std::unique_ptr<MultiLock> multi = MultiOf(objects, operation);
  RedisLockBase& lock = multi != nullptr ? *multi : LockOf(objects, operation);
  Stopper stopper(operation);
  AcquireOptions options = OptionsOf(operation, stopper.token());
  const bool later = operation.nested && operation.at_least_ms > 0;  // by StayTaken()
  if (later) options.at_least = absl::ZeroDuration();
  Asking asking(kernel_, oracle_,
                RequestOf(operation, HasSharedOwner(operation) ? Oracle::kSharedOwner : owner));
  absl::StatusOr<Lease> lease = Await<absl::StatusOr<Lease>>(
      operation.interface == Operation::Interface::kAcquireAsync,
      Expects(Describe(operation, plan_)),
      [&] {
        return operation.shared ? static_cast<ReadWriteLockBase&>(lock).AcquireRead(options)
               : HasSharedOwner(operation) ? support::AcquireAs(lock, Owner("job"), options)
                                           : lock.Acquire(options);
      },
      [&](auto told) {
        operation.shared
            ? static_cast<ReadWriteLockBase&>(lock).AcquireReadAsync(options, std::move(told))
        : HasSharedOwner(operation)
            ? support::AcquireAsyncAs(lock, Owner("job"), options, std::move(told))
            : lock.AcquireAsync(options, std::move(told));
      });
  Judge(lease.status(), operation, asking.since());
  if (ExpectsFree(lease.status(), operation, asking.since())) asking.WasBusy();
  if (!lease.ok()) return;
  const redlatch::Hold hold = lease->hold();
  Oracle::Hold held = HeldBy(operation, hold);
  if (!later) held.at_least = operation.at_least_ms * kMilli;
  const auto ids = asking.Granted(std::move(held), &hold);
  if (operation.extend_ms > 0) {
    static_cast<void>(lease->Extend(absl::Milliseconds(operation.extend_ms)));
  }
  if (later) {
    const absl::Status stays = lease->StayTaken(absl::Milliseconds(operation.at_least_ms));
    oracle_.StaysTaken(ids.front(), operation.at_least_ms * kMilli, stays.ok());
    if (!stays.ok() && hold.valid() && IsCalm(asking.since()) && plan_.late_one_in == 0 &&
        !plan_.administers) {
      oracle_.Violated(absl::StrCat("a hold's name cannot stay taken: ", stays.ToString()));
    }
  }
  CheckMisuse(objects, operation, hold);
  WorkAndLeave(operation, ids, *lease);
}

// P9: while the hold lasts, a lock of another kind with the same name is refused.
void Actor::CheckMisuse(Objects& objects, const Operation& operation, const redlatch::Hold& hold) {
  const SharedObject& object = ObjectOf(operation);
  if (object.kind != Kind::kSimple || plan_.group == Group::kQuorum || !operation.nested) return;
  const int64_t began = kernel_.now();
  const bool before = hold.valid();
  const absl::Status refused = Semaphore(objects.client, object.name, 1).TryAcquire().status();
  if (!before || !hold.valid() || !IsCalm(began) || plan_.late_one_in > 0 || plan_.administers) {
    return;
  }
  if (absl::IsFailedPrecondition(refused)) return;
  oracle_.Violated(absl::StrCat("P9: a semaphore has the name of the lock ", object.name, ": ",
                                refused.ToString()));
}

// The first thread of two clients in three observes the election from its first operation on.
void Actor::Observe(Objects& objects, const Operation& operation) {
  const auto at = static_cast<size_t>(operation.object);
  const bool wanted =
      plan_.observes && (plan_.seed + number_) % 3 != 0 && objects.observers[at] == nullptr;
  if (!wanted || objects.observes.exchange(true)) return;
  const int64_t asked = kernel_.now();
  auto observer = std::make_unique<Observer>(oracle_, process_, ObjectOf(operation).name);
  auto observation =
      static_cast<Election&>(LockOf(objects, operation))
          .Observe([this, id = observer->id](const std::optional<Leader>& leader) {
            leader ? oracle_.Saw(id, leader->epoch.value(), leader->value) : oracle_.Saw(id, 0, "");
          });
  if (observation.ok()) {
    observer->observation = *std::move(observation);
    objects.observers[at] = std::move(observer);
  } else if (IsCalm(asked) && !(absl::IsUnavailable(observation.status()) &&
                                plan_.late_one_in > 0 && plan_.latest_us > 500'000)) {
    oracle_.Violated(absl::StrCat("an election cannot be observed without a fault: ",
                                  observation.status().ToString()));
  }
  objects.observes = false;
}

void Actor::DoElection(Objects& objects, const Operation& operation, uint64_t owner) {
  const SharedObject& object = ObjectOf(operation);
  auto& election = static_cast<Election&>(LockOf(objects, operation));
  const std::string name = absl::StrCat(process_->name, " in campaign ", ++campaigns_);
  Stopper stopper(operation);
  const AcquireOptions options = OptionsOf(operation, stopper.token());
  Asking asking(kernel_, oracle_, RequestOf(operation, owner));
  absl::StatusOr<Leadership> leads = Await<absl::StatusOr<Leadership>>(
      operation.interface == Operation::Interface::kAcquireAsync,
      Expects(Describe(operation, plan_)), [&] { return election.Campaign(name + " 1", options); },
      [&](auto told) { election.CampaignAsync(name + " 1", options, std::move(told)); });
  Judge(leads.status(), operation, asking.since());
  if (!leads.ok()) return;
  const redlatch::Hold hold = leads->hold();
  const auto ids = asking.Granted(HeldBy(operation, hold), &hold);
  oracle_.Leads(object.name, leads->epoch().value(), name);
  if (operation.extend_ms > 0) {
    static_cast<void>(leads->Extend(absl::Milliseconds(operation.extend_ms)));
  }
  for (int i = 2; operation.nested && i < 4; ++i) {
    const absl::Status proclaimed = leads->Proclaim(absl::StrCat(name, " ", i));
    if (!proclaimed.ok() && hold.valid() && IsCalm(asking.since()) && plan_.late_one_in == 0 &&
        !plan_.administers) {
      oracle_.Violated(absl::StrCat("a leader cannot proclaim: ", proclaimed.ToString()));
    }
  }
  WorkAndLeave(operation, ids, *leads);
}

// Leads once by RunElected().
void Actor::RunTerm(Objects& objects, const Operation& operation, uint64_t owner) {
  const SharedObject& object = ObjectOf(operation);
  auto& election = static_cast<Election&>(LockOf(objects, operation));
  const std::string name = absl::StrCat(process_->name, " in campaign ", ++campaigns_);
  Asking asking(kernel_, oracle_, RequestOf(operation, owner));
  std::stop_source enough;
  const auto work = [&](const std::stop_token& ends, FencingToken epoch) {
    const auto leads = [&] { return !ends.stop_requested(); };
    // A process that is stopped, or has just gone on, is told late.
    const auto surely_leads = [this, leads] {
      const bool stopped = process_->paused || process_->suspended;
      return leads() && !stopped && process_->stopped_until + kSecond < kernel_.now();
    };
    const auto ids = asking.Granted({.token = epoch.value(),
                                     .acknowledged = object.acked(),
                                     .quarantined = plan_.quarantine_ms > 0,
                                     .valid = surely_leads,
                                     .remaining = [] { return absl::Seconds(1); },
                                     .lost = ends},
                                    nullptr);
    oracle_.Leads(object.name, epoch.value(), name);
    Work(operation, leads, ends);
    for (const uint64_t id : ids) oracle_.Leaving(id);
    enough.request_stop();
    return absl::OkStatus();
  };
  const absl::Status status = RunElected(election, work, enough.get_token(), name + " 1");
  Judge(status, {.object = operation.object}, asking.since());
}

absl::Status Actor::AskForLeader(Election& election, const SharedObject& object) {
  const uint64_t largest = oracle_.LargestToken(object.name);
  const auto leader = election.Leader();
  if (leader.ok() && *leader) {
    oracle_.ToldLeader(object.name, (*leader)->epoch.value(), (*leader)->value, largest);
  }
  return leader.status();
}

// Each observer knows a new leader, and that there is none, within a heartbeat, even if messages
// are lost.
absl::Status Actor::ProbeElection(Election& election, const SharedObject& object,
                                  const AcquireOptions& options) {
  const std::string name = absl::StrCat(process_->name, " probes");
  Asking asking(kernel_, oracle_,
                {.names = {object.name}, .process = process_, .owner = OwnerOf(0)});
  auto leads = election.Campaign(name + " 1", options);
  if (!leads.ok()) return leads.status();
  const redlatch::Hold hold = leads->hold();
  const int at = static_cast<int>(&object - plan_.objects.data());
  const auto ids = asking.Granted(HeldBy({.object = at}, hold), &hold);
  const uint64_t epoch = leads->epoch().value();
  oracle_.Leads(object.name, epoch, name);
  for (const bool over : {false, true}) {
    if (over) {
      for (const uint64_t id : ids) oracle_.Leaving(id);
      leads->Resign().IgnoreError();
    }
    const int64_t heartbeat = std::min<int64_t>(object.lease_ms / 3, 10'000);
    const int64_t until = kernel_.now() + (heartbeat + 1500) * kMilli;
    while (!oracle_.AllSaw(object.name, epoch, over)) {
      if (kernel_.now() > until) {
        oracle_.Violated(absl::StrCat("an observer of ", object.name, " does not know ",
                                      over ? "the end of " : "", "the term ", epoch));
        break;
      }
      SleepMicros(10'000);
    }
  }
  return absl::OkStatus();
}

void Actor::DoPermit(Objects& objects, const Operation& operation, uint64_t owner) {
  Semaphore& semaphore = *objects.semaphores[static_cast<size_t>(operation.object)];
  Stopper stopper(operation);
  const AcquireOptions options = OptionsOf(operation, stopper.token());
  Asking asking(kernel_, oracle_, RequestOf(operation, owner));
  absl::StatusOr<Permit> got = Await<absl::StatusOr<Permit>>(
      operation.interface == Operation::Interface::kAcquireAsync,
      Expects(Describe(operation, plan_)),
      [&] { return semaphore.Acquire(operation.permits, options); },
      [&](auto told) { semaphore.AcquireAsync(operation.permits, options, std::move(told)); });
  Judge(got.status(), operation, asking.since());
  if (ExpectsFree(got.status(), operation, asking.since())) asking.WasBusy();
  if (!got.ok()) return;
  // The oracle asks while the permit exists.
  const auto permit = std::make_shared<Permit>(*std::move(got));
  const auto ids = asking.Granted({.quarantined = plan_.quarantine_ms > 0 && !plan_.administers,
                                   .valid = [permit] { return permit->valid(); },
                                   .remaining = [permit] { return permit->remaining(); },
                                   .lost = permit->lost()},
                                  nullptr);
  if (operation.extend_ms > 0) {
    static_cast<void>(permit->Extend(absl::Milliseconds(operation.extend_ms)));
  }
  WorkAndLeave(operation, ids, *permit);
}

// Permits that belong to the client, and not to a handle.
void Actor::DoStdPermit(Objects& objects, Operation operation, uint64_t owner) {
  operation.permits = 1;
  Semaphore& semaphore = *objects.semaphores[static_cast<size_t>(operation.object)];
  const auto wait = std::chrono::milliseconds(std::max<int64_t>(operation.wait_ms, 0));
  Asking asking(kernel_, oracle_, RequestOf(operation, owner));
  bool got = true;
  absl::Status status;
  try {
    switch (operation.interface) {
      case Operation::Interface::kLock:
        semaphore.acquire();
        break;
      case Operation::Interface::kTryLock:
        got = semaphore.try_acquire();
        break;
      default:
        got = semaphore.try_acquire_for(wait);
    }
    if (!got) status = absl::DeadlineExceededError("busy");
  } catch (const std::system_error& error) {
    got = false;
    status = absl::Status(static_cast<absl::StatusCode>(error.code().value()), error.what());
  }
  if (operation.interface == Operation::Interface::kLock) operation.wait_ms = -1;
  Judge(status, operation, asking.since());
  if (ExpectsFree(status, operation, asking.since())) asking.WasBusy();
  if (!got) return;
  // Nothing tells whether such a permit is lost, so it is taken for lost once a fault has come
  // near.
  const bool surely = !plan_.administers && plan_.late_one_in == 0;
  const auto ids = asking.Granted(
      {.quarantined = plan_.quarantine_ms > 0 && !plan_.administers,
       .valid = [this, surely, got_at = kernel_.now()] { return surely && IsCalm(got_at); },
       .remaining = [] { return absl::Seconds(1); },
       .keeps_others_out = true},
      nullptr);
  SleepMicros(operation.work_us);
  for (const uint64_t id : ids) oracle_.Leaving(id);
  try {
    semaphore.release();
  } catch (const std::system_error& error) {
    oracle_.Violated(absl::StrCat("a permit cannot be released: ", error.what()));
  }
}

// The first half of the interfaces count, while counts are left, and the others wait.
void Actor::DoLatch(Objects& objects, const Operation& operation) {
  const SharedObject& object = ObjectOf(operation);
  Latch& latch = *objects.latches[static_cast<size_t>(operation.object)];
  const int64_t asked = kernel_.now();
  oracle_.UsesLatch(object.name);
  if (operation.interface < Operation::Interface::kAcquire &&
      oracle_.MayCount(object.name, object.capacity)) {
    // All calls with one id count once.
    const std::string id = operation.owner ? absl::StrCat(process_->name, " ", ++campaigns_) : "";
    absl::Status counted = latch.CountDown(id);
    const bool again = !id.empty() && operation.nested && object.redisson == Redisson::kNo;
    if (again) counted = latch.CountDown(id);
    if (counted.ok()) oracle_.Counted(object.name, process_, object.capacity);
    Operation judged = operation;
    judged.interface = Operation::Interface::kLock;
    judged.wait_ms = -1;
    return Judge(counted, judged, asked);
  }
  Stopper stopper(operation);
  Operation judged = operation;
  judged.interface = Operation::Interface::kAcquire;
  if (judged.wait_ms < 0) judged.wait_ms = 1000;
  const bool open = oracle_.IsOpen(object.name);
  const LatchWaitOptions options{.wait = absl::Milliseconds(judged.wait_ms),
                                 .stop = stopper.token()};
  const absl::Status waited = Await<absl::Status>(
      operation.interface == Operation::Interface::kAcquireAsync,
      Expects(Describe(operation, plan_)), [&] { return latch.Wait(options); },
      [&](auto told) { latch.WaitAsync(options, std::move(told)); });
  if (waited.ok()) {
    oracle_.Opened(object.name, object.capacity);
    if (oracle_.HasBeenOpen(object.name, asked) && IsCalm(asked) &&
        process_->stopped_until < asked && !oracle_.MayLackCounts(object.name)) {
      oracle_.Violated(absl::StrCat("P3: ", object.name, " lets a waiter through late"));
    }
  }
  // A message may stay unread for 50 ms if no thread waits for it.
  const int64_t answer = plan_.faults.empty()
                             ? std::max<int64_t>(10 * plan_.latest_us * kMicro, 60 * kMilli)
                             : std::max<int64_t>(10 * plan_.latest_us * kMicro, kSecond);
  if ((open || oracle_.HasBeenOpen(object.name)) && absl::IsDeadlineExceeded(waited) &&
      judged.wait_ms > 0 && judged.wait_ms * kMilli >= answer && IsCalm(asked) &&
      !oracle_.MayLackCounts(object.name)) {
    oracle_.Violated(
        absl::StrCat("P3: ", object.name, " is open, and a waiter is not let through"));
  }
  Judge(waited, judged, asked);
}

}  // namespace redlatch::sim
