// `redlatch bench`.
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <latch>
#include <memory>
#include <numeric>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "redlatch/client.h"
#include "redlatch/red_lock.h"
#include "redlatch/redis_lock_base.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/random.h"
#include "src/base/sha1.h"
#include "src/base/unique_fd.h"
#include "src/cli/bench/figures.h"
#include "src/cli/look/lock_keys.h"
#include "src/cli/term/command_line.h"
#include "src/cli/term/commands.h"
#include "src/cli/term/measures.h"
#include "src/cli/term/outcome.h"
#include "src/cli/term/shards.h"
#include "src/lock/key_set.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/link/cluster_view.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"
#include "src/redis/wire/reply.h"
#include "src/redis/wire/slot.h"

namespace redlatch::cli {
namespace {

using redis::Command;
using redis::PlainConnection;

constexpr int kSlices = 10;  // a round
constexpr absl::Duration kPatience = absl::Seconds(5);
constexpr absl::Duration kBenchLease = absl::Seconds(5);

constexpr absl::Duration kShortest = absl::Milliseconds(500);
constexpr absl::Duration kLongest = absl::Minutes(10);

struct BenchPlan {
  redis::Url url;
  std::string url_text;
  std::vector<Shard> shards;           // of a cluster, as they are when the bench begins
  std::string name;                    // what all keys begin with
  std::vector<std::string> own_names;  // of each thread's own lock: OwnNames()
  std::string channel;                 // for messages
  absl::Duration time;
};

// One for each thread, in one shard after the other as far as the names may be anywhere.
std::vector<std::string> OwnNames(const BenchPlan& plan) {
  std::vector<std::string> names;
  for (size_t thread = 0; thread < kBenchThreads; ++thread) {
    std::string name = absl::StrCat(plan.name, ":own:", thread);
    if (!plan.shards.empty()) {
      const Shard& shard = plan.shards[thread % plan.shards.size()];
      name = NameIn(shard, name).value_or(name);
    }
    names.push_back(std::move(name));
  }
  return names;
}

std::string SharedName(const BenchPlan& plan) { return absl::StrCat(plan.name, ":shared"); }

std::string HandOverName(const BenchPlan& plan) { return absl::StrCat(plan.name, ":hand-over"); }

// Of the server that has the key; of a quorum the first one.
redis::Url UrlOf(const BenchPlan& plan, std::string_view key) {
  for (const Shard& shard : plan.shards) {
    if (shard.Has(key)) return redis::UrlOfNode(plan.url, shard.primary);
  }
  return plan.url.members.empty() ? plan.url : plan.url.members.front();
}

// What is measured: a RedLock of a quorum, else a SimpleLock.
std::unique_ptr<RedisLockBase> LockOf(const BenchPlan& plan, const Client& client,
                                      const std::string& name, absl::Duration lease) {
  const LockOptions options = {.lease = lease};
  if (!plan.url.members.empty()) return std::make_unique<RedLock>(client, name, options);
  return std::make_unique<SimpleLock>(client, name, options);
}

// How plain Redis says something to those who listen, and where.
class Talk {
 public:
  explicit Talk(const BenchPlan& plan);

  Command Subscribe(int thread) const;
  Command Publish(int thread) const;
  const redis::Url& url() const { return url_; }

 private:
  std::string ChannelOf(int thread) const;

  const bool sharded_;
  const std::string channel_;
  const redis::Url url_;
};

Talk::Talk(const BenchPlan& plan)
    : sharded_(!plan.shards.empty()),
      channel_(plan.channel + (sharded_ ? redis::TagOf(redis::SlotOf(HandOverName(plan))) : "")),
      url_(UrlOf(plan, channel_)) {}

std::string Talk::ChannelOf(int thread) const { return absl::StrCat(channel_, ":", thread); }

Command Talk::Subscribe(int thread) const {
  return {sharded_ ? "SSUBSCRIBE" : "SUBSCRIBE", ChannelOf(thread)};
}

Command Talk::Publish(int thread) const {
  return {sharded_ ? "SPUBLISH" : "PUBLISH", ChannelOf(thread), "x"};
}

// The answer, within five seconds; an error reply is an error.
absl::StatusOr<redis::Reply> Ask(PlainConnection& connection, const Command& command,
                                 const BenchPlan& plan) {
  absl::StatusOr<redis::Reply> reply = connection.Call(command, base::Now() + kPatience);
  if (reply.ok() && reply->is_error()) {
    return redis::ErrorStatus(reply->text, plan.url.DebugString());
  }
  return reply;
}

constexpr char kLeaseMillis[] = "5000";
constexpr std::string_view kRelease =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end\n"
    "return redis.call('DEL', KEYS[1])";

// SET NX PX, and a compare-and-delete by EVALSHA. One thread.
class PlainLock {
 public:
  PlainLock(PlainConnection& connection, const BenchPlan& plan, const std::string& key, int owner);

  // Teaches the server the script.
  absl::Status Prepare() { return Ask(connection_, teach_, plan_).status(); }

  // Tries again at once as long as another has it; false where it never got it.
  absl::StatusOr<bool> Pair(const std::stop_token& stop);

 private:
  PlainConnection& connection_;
  const BenchPlan& plan_;
  const std::string owner_;
  const Command take_;
  const Command release_;
  const Command teach_;
};

PlainLock::PlainLock(PlainConnection& connection, const BenchPlan& plan, const std::string& key,
                     int owner)
    : connection_(connection),
      plan_(plan),
      owner_(absl::StrCat(owner)),
      take_{"SET", key, owner_, "NX", "PX", kLeaseMillis},
      release_{"EVALSHA", base::Sha1Hex(kRelease), "1", key, owner_},
      teach_{"EVAL", kRelease, "1", key, owner_} {}

absl::StatusOr<bool> PlainLock::Pair(const std::stop_token& stop) {
  for (;;) {
    const absl::StatusOr<redis::Reply> taken = Ask(connection_, take_, plan_);
    if (!taken.ok()) return taken.status();
    if (!taken->is_nil()) break;
    if (stop.stop_requested()) return false;
  }
  absl::Status released = Ask(connection_, release_, plan_).status();
  if (!released.ok()) return released;
  return true;
}

// Threads that work for some time, until a signal comes, or until one of them fails.
//
// From its construction on SIGINT, SIGTERM and SIGHUP end what is under way and nothing else, in
// all threads that begin later; so make it before any.
class Slices {
 public:
  Slices();
  ~Slices();  // signals do again what they did
  Slices(const Slices&) = delete;
  Slices& operator=(const Slices&) = delete;

  // Runs `work` in so many threads, numbered from 0, which return soon after the token fires.
  //   kCancelled   a signal came, now or in an earlier call
  //   another      the first that a thread returned
  absl::Status Run(int threads, absl::Duration time,
                   const std::function<absl::Status(int thread, const std::stop_token&)>& work);

  // Whether anything was run.
  bool begun() const { return begun_; }
  // The signal that came; 0: none.
  int signal() const { return signal_; }

 private:
  void Await(absl::Duration time, int failed_fd);

  sigset_t before_ = {};
  base::UniqueFd signals_;
  bool begun_ = false;
  int signal_ = 0;
};

Slices::Slices() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  signals_ = base::UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

Slices::~Slices() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void Slices::Await(absl::Duration time, int failed_fd) {
  const base::Instant end = base::Now() + time;
  pollfd fds[] = {{.fd = signals_.get(), .events = POLLIN, .revents = 0},
                  {.fd = failed_fd, .events = POLLIN, .revents = 0}};
  while (base::Poll(fds, 2, end) < 0) {
  }
  signalfd_siginfo info = {};
  if (read(signals_.get(), &info, sizeof info) == sizeof info) {
    signal_ = static_cast<int>(info.ssi_signo);
  }
}

absl::Status Slices::Run(
    int threads, absl::Duration time,
    const std::function<absl::Status(int thread, const std::stop_token&)>& work) {
  if (signal_ != 0) return absl::CancelledError("interrupted");
  begun_ = true;
  struct {
    base::Mutex mu;
    absl::Status first ABSL_GUARDED_BY(mu);
  } failure;
  const base::UniqueFd failed(eventfd(0, EFD_CLOEXEC));
  std::vector<std::jthread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&, i](const std::stop_token& stop) {
      absl::Status done = work(i, stop);
      if (done.ok()) return;
      base::MutexLock lock(failure.mu);
      failure.first.Update(std::move(done));
      eventfd_write(failed.get(), 1);
    });
  }
  Await(time, failed.get());
  // All, before the first is waited for.
  for (std::jthread& worker : workers) worker.request_stop();
  workers.clear();
  if (signal_ != 0) return absl::CancelledError("interrupted");
  base::MutexLock lock(failure.mu);
  return failure.first;
}

absl::Status Forget(const BenchPlan& plan, const std::vector<std::string>& names,
                    const std::function<redis::Url(const std::string& name)>& where) {
  absl::Status status;
  for (const std::string& name : names) {
    auto connection = PlainConnection::Open(where(name), base::Now() + kPatience);
    status.Update(connection.ok() ? Ask(*connection, DeleteLocks({name}), plan).status()
                                  : connection.status());
    if (absl::IsUnavailable(status)) break;  // and so would the next ones be, each after a while
  }
  return status;
}

// Deletes the keys of a bench that is over, at all servers of a quorum.
absl::Status ForgetBench(const BenchPlan& plan) {
  std::vector<std::string> names = {SharedName(plan), HandOverName(plan)};
  names.insert(names.end(), plan.own_names.begin(), plan.own_names.end());
  if (plan.url.members.empty()) {
    return Forget(plan, names, [&](const std::string& name) { return UrlOf(plan, name); });
  }
  absl::Status status;
  for (const redis::Url& member : plan.url.members) {
    status.Update(Forget(plan, names, [&](const std::string&) { return member; }));
  }
  return status;
}

base::Instant Soon() { return base::Now() + kPatience; }

// Calls `pair` until the token fires; how often a second it returned true.
absl::StatusOr<double> RateOf(const std::stop_token& stop,
                              const std::function<absl::StatusOr<bool>()>& pair) {
  int64_t pairs = 0;
  const base::Instant begun = base::Now();
  while (!stop.stop_requested()) {
    const absl::StatusOr<bool> done = pair();
    if (!done.ok()) return done.status();
    pairs += *done ? 1 : 0;
  }
  return static_cast<double>(pairs) / absl::ToDoubleSeconds(base::Now() - begun);
}

absl::StatusOr<bool> LockPair(RedisLockBase& lock) {
  absl::StatusOr<Lease> lease = lock.Acquire({.wait = kPatience});
  if (!lease.ok()) return lease.status();
  if (absl::Status released = lease->Release(); !released.ok()) return released;
  return true;
}

// What two threads send each other, one thing at a time.
class Turns {
 public:
  // Before it is sent.
  void Stamp(int thread) { sent_ = 2 * base::Now().nanos() + thread; }
  // Where it was the other's.
  void Arrived(int thread) {
    const base::Instant now = base::Now();
    const int64_t sent = sent_;
    if (sent == 0 || sent % 2 == thread) return;
    times_[thread].push_back(now - base::Instant::FromNanos(sent / 2));
  }
  void AddTo(Times* times) const {
    for (const Times& each : times_) times->insert(times->end(), each.begin(), each.end());
  }

 private:
  std::atomic<int64_t> sent_{0};
  Times times_[2];
};

class Benches {
 public:
  Benches(const BenchPlan& plan, Slices& slices, Client client, Client other, BenchFigures* figures)
      : plan_(plan),
        slices_(slices),
        client_(std::move(client)),
        other_(std::move(other)),
        figures_(*figures) {}

  // In rounds, so that what else the machine does meets redlatch and plain commands alike.
  absl::Status All() {
    for (int64_t round = 0; round < rounds_; ++round) {
      for (const auto step :
           {&Benches::PlainRoundTrips, &Benches::RoundTrips, &Benches::OneThread,
            &Benches::OwnLocks, &Benches::OneLock, &Benches::PlainMessages, &Benches::HandOvers}) {
        if (absl::Status done = (this->*step)(); !done.ok()) return done;
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Duration slice() const { return plan_.time / (kSlices * rounds_); }

  // What one thread has measured; added where it was measured to the end.
  absl::Status MeasureTimes(
      Times* times, const std::function<absl::Status(const std::stop_token&, Times&)>& work) {
    Times measured;
    absl::Status done = slices_.Run(
        1, slice(), [&](int, const std::stop_token& stop) { return work(stop, measured); });
    if (done.ok()) times->insert(times->end(), measured.begin(), measured.end());
    return done;
  }

  absl::Status PlainRoundTrips() {
    return MeasureTimes(&figures_.round_trips.plain,
                        [this](const std::stop_token& stop, Times& times) -> absl::Status {
                          // Where a client's own PING goes.
                          auto connection = PlainConnection::Open(UrlOf(plan_, ""), Soon());
                          if (!connection.ok()) return connection.status();
                          const Command ping{"PING"};
                          while (!stop.stop_requested()) {
                            const base::Instant begun = base::Now();
                            if (auto pong = Ask(*connection, ping, plan_); !pong.ok())
                              return pong.status();
                            times.push_back(base::Now() - begun);
                          }
                          return absl::OkStatus();
                        });
  }

  absl::Status RoundTrips() {
    return MeasureTimes(&figures_.round_trips.redlatch,
                        [this](const std::stop_token& stop, Times& times) -> absl::Status {
                          while (!stop.stop_requested()) {
                            const absl::StatusOr<absl::Duration> pong = client_.Ping();
                            if (!pong.ok()) return pong.status();
                            times.push_back(*pong);
                          }
                          return absl::OkStatus();
                        });
  }

  // The sum of what the threads reach.
  absl::Status MeasureRate(
      int threads, Rates* rates,
      const std::function<absl::StatusOr<double>(int thread, const std::stop_token&)>& work) {
    std::vector<double> each(static_cast<size_t>(threads));
    absl::Status done =
        slices_.Run(threads, slice(), [&](int thread, const std::stop_token& stop) -> absl::Status {
          const absl::StatusOr<double> reached = work(thread, stop);
          if (reached.ok()) each[static_cast<size_t>(thread)] = *reached;
          return reached.status();
        });
    if (!done.ok()) return done;
    const double sum = std::accumulate(each.begin(), each.end(), 0.0);
    // None within the time, as on a machine that has none to spare, is no figure.
    if (sum > 0) rates->push_back(sum);
    return absl::OkStatus();
  }

  absl::Status MeasurePlain(int threads, Rates* rates,
                            const std::function<std::string(int thread)>& key) {
    return MeasureRate(threads, rates,
                       [&](int thread, const std::stop_token& stop) -> absl::StatusOr<double> {
                         const std::string name = key(thread);
                         auto connection = PlainConnection::Open(UrlOf(plan_, name), Soon());
                         if (!connection.ok()) return connection.status();
                         PlainLock lock(*connection, plan_, name, thread);
                         if (absl::Status ready = lock.Prepare(); !ready.ok()) return ready;
                         return RateOf(stop, [&] { return lock.Pair(stop); });
                       });
  }

  absl::Status MeasureLocks(int threads, Compared<Rates>* rates) {
    const auto name = [this](int thread) { return plan_.own_names[static_cast<size_t>(thread)]; };
    if (absl::Status done = MeasurePlain(threads, &rates->plain, name); !done.ok()) return done;
    return MeasureRate(threads, &rates->redlatch, [&](int thread, const std::stop_token& stop) {
      const auto lock = LockOf(plan_, client_, name(thread), kBenchLease);
      return RateOf(stop, [&lock] { return LockPair(*lock); });
    });
  }

  absl::Status OneThread() { return MeasureLocks(1, &figures_.one_thread); }
  absl::Status OwnLocks() { return MeasureLocks(kBenchThreads, &figures_.own_locks); }

  absl::Status OneLock() {
    const auto name = [this](int) { return SharedName(plan_); };
    if (absl::Status done = MeasurePlain(kBenchThreads, &figures_.one_lock.plain, name);
        !done.ok()) {
      return done;
    }
    const auto lock = LockOf(plan_, client_, SharedName(plan_), kBenchLease);
    return MeasureRate(kBenchThreads, &figures_.one_lock.redlatch,
                       [&lock](int, const std::stop_token& stop) {
                         return RateOf(stop, [&lock] { return LockPair(*lock); });
                       });
  }

  // Two threads, each of which waits for what the other sends it: `times` are those from one's
  // stamp to the end of the other's wait.
  absl::Status MeasureTurns(
      Times* times,
      const std::function<absl::Status(int thread, Turns&, const std::stop_token&)>& work) {
    Turns turns;
    absl::Status done = slices_.Run(2, slice(), [&](int thread, const std::stop_token& stop) {
      return work(thread, turns, stop);
    });
    if (done.ok()) turns.AddTo(times);
    return done;
  }

  absl::Status PlainMessages() {
    const Talk talk(plan_);
    // The first may begin when both can hear it.
    std::latch subscribed(2);
    return MeasureTurns(&figures_.hand_overs.plain,
                        [&](int thread, Turns& turns, const std::stop_token& stop) -> absl::Status {
                          auto speaker = PlainConnection::Open(talk.url(), Soon());
                          auto listener = PlainConnection::Open(talk.url(), Soon());
                          absl::Status ready = speaker.status();
                          ready.Update(listener.status());
                          if (ready.ok()) {
                            ready = Ask(*listener, talk.Subscribe(thread), plan_).status();
                          }
                          subscribed.arrive_and_wait();
                          if (!ready.ok()) return ready;
                          const Command publish = talk.Publish(1 - thread);
                          for (bool first = thread == 0; !stop.stop_requested(); first = false) {
                            if (!first) {
                              auto got = listener->Receive(Soon());
                              if (!got.ok())
                                return stop.stop_requested() ? absl::OkStatus() : got.status();
                              turns.Arrived(thread);
                            }
                            turns.Stamp(thread);
                            if (auto sent = Ask(*speaker, publish, plan_); !sent.ok())
                              return sent.status();
                          }
                          return Ask(*speaker, publish, plan_).status();  // the other may wait
                        });
  }

  // Two clients take the lock in turn: who releases it waits for it again.
  absl::Status HandOvers() {
    return MeasureTurns(&figures_.hand_overs.redlatch,
                        [this](int thread, Turns& turns, const std::stop_token& stop) {
                          const auto lock = LockOf(plan_, thread == 0 ? client_ : other_,
                                                   HandOverName(plan_), kBenchLease);
                          while (!stop.stop_requested()) {
                            absl::StatusOr<Lease> lease = lock->Acquire({.wait = kPatience});
                            if (!lease.ok()) return lease.status();
                            turns.Arrived(thread);
                            turns.Stamp(thread);
                            if (absl::Status released = lease->Release(); !released.ok()) {
                              return released;
                            }
                          }
                          return absl::OkStatus();
                        });
  }

  const BenchPlan& plan_;
  Slices& slices_;
  const Client client_;
  const Client other_;
  BenchFigures& figures_;
  const int64_t rounds_ = std::clamp<int64_t>(plan_.time / absl::Seconds(1), 1, 5);
};

// Measures one thing after another. In a cluster the threads' own locks are spread over the shards;
// if a slot moves meanwhile, plain commands fail. Where it ends early (a signal, or the server
// fails) `figures` hold what was measured to the end, and all locks are released. What is left are
// keys that ForgetBench() deletes.
absl::Status RunBench(const BenchPlan& plan, Slices& slices, BenchFigures* figures) {
  absl::StatusOr<Client> client = Client::Connect(plan.url_text);
  if (!client.ok()) return client.status();
  ClientOptions silent;
  silent.on_warning = [](std::string_view) {};  // said by the first
  absl::StatusOr<Client> other = Client::Connect(plan.url_text, silent);
  if (!other.ok()) return other.status();
  return Benches(plan, slices, *std::move(client), *std::move(other), figures).All();
}

int Measure(const BenchPlan& plan, bool json) {
  Slices slices;
  Complain({"for about ", ShortTime(plan.time), " ", plan.url.DebugString(),
            " will be kept busy by up to ", absl::StrCat(kBenchThreads),
            " commands at a time, on keys that begin with ", plan.name,
            " and are deleted at the end; Ctrl-C stops it"});
  BenchFigures figures;
  figures.server = plan.url.DebugString();
  const absl::Status measured = RunBench(plan, slices, &figures);
  figures.interrupted = slices.signal() != 0;
  const absl::Status forgotten = slices.begun() ? ForgetBench(plan) : absl::OkStatus();
  if (!measured.ok() && !figures.interrupted) return Refuse(measured);
  if (!forgotten.ok()) {
    Complain({"keys that begin with ", plan.name,
              " could not be deleted, and go within a day: ", std::string(forgotten.message())});
  }
  std::fputs(json ? BenchJson(figures).c_str() : BenchText(figures).c_str(), stdout);
  return figures.interrupted ? kSignalled + slices.signal() : 0;
}

}  // namespace

int Bench(const std::vector<std::string>& words) {
  CommandLine line("bench");
  bool json = false;
  std::string prefix;
  absl::Duration time = absl::Seconds(5);
  line.Flag("--json", &json);
  line.Text("--prefix", "the beginning of your locks' names", &prefix);
  line.Time("--time", &time);
  if (const std::optional<int> over = line.Parse(words)) return *over;
  if (time < kShortest || time > kLongest) {
    return Refuse(WrongUsage("--time is out of range", "say 500ms to 10m"));
  }
  const absl::StatusOr<redis::Url> url = redis::ParseUrl(line.server());
  if (!url.ok()) return Refuse(url.status());
  const std::string random = absl::StrCat(absl::Hex(base::RandomBits(), absl::kZeroPad16));
  const std::string name = absl::StrCat(prefix, "redlatch-bench:", random);
  if (absl::Status bad = internal::CheckMainKey(name); !bad.ok()) return Refuse(bad);
  for (const redis::Url& member : url->members) {
    if (member.kind != redis::Url::Kind::kCluster) continue;
    return Refuse(WrongUsage("a quorum of which a server is a cluster can't be measured",
                             "measure the cluster: --server " + member.DebugString()));
  }
  std::vector<Shard> shards;
  if (url->kind == redis::Url::Kind::kCluster) {
    const auto view = FindCluster(*url, url->nodes);
    if (!view.ok()) return Refuse(view.status());
    shards = ShardsOf(*view);
  }
  BenchPlan plan = {.url = *url,
                    .url_text = line.server(),
                    .shards = std::move(shards),
                    .name = name,
                    .own_names = {},
                    .channel = absl::StrCat("redlatch:bench:", random),
                    .time = time};
  plan.own_names = OwnNames(plan);
  return Measure(plan, json);
}

}  // namespace redlatch::cli
