#include "src/cli/bench/bench.h"

#include <signal.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <latch>
#include <numeric>
#include <stop_token>
#include <thread>

#include "absl/strings/str_format.h"
#include "redlatch/client.h"
#include "redlatch/red_lock.h"
#include "redlatch/simple_lock.h"
#include "src/base/random.h"
#include "src/base/sha1.h"
#include "src/cli/inspect/locks.h"
#include "src/cli/term/command_line.h"
#include "src/cli/term/output.h"
#include "src/cli/term/server.h"
#include "src/lock/key_set.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/wire/errors.h"

namespace redlatch::cli {
namespace {

constexpr int kThreads = 8;
constexpr absl::Duration kAnswerTimeout = absl::Seconds(5);  // also the lease
constexpr std::string_view kRelease =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end\n"
    "return redis.call('DEL', KEYS[1])";

base::Instant Soon() { return base::Now() + kAnswerTimeout; }

// What one thread has measured. The thread works while Next() is true. Each call but the first
// counts one pair: what the thread did since the previous call.
struct Lap {
  bool Next() {
    ended = base::Now();
    if (++pairs == 0) begun = ended;
    return !stop.stop_requested();
  }
  std::stop_token stop;
  int64_t pairs = -1;
  base::Instant begun = {};
  base::Instant ended = {};
  Times times = {};
};
using Work = std::function<absl::Status(int thread, Lap& lap)>;

// In a cluster the threads' own locks are spread over the shards. Plain commands fail if a slot
// moves during the measurement.
class Measurement {
 public:
  Measurement(redis::Url url, std::string url_text, std::vector<Shard> shards,
              const std::string& name)
      : url_(std::move(url)), url_text_(std::move(url_text)), shards_(std::move(shards)) {
    // From here on these signals only end the measurement, in all threads.
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    for (size_t thread = 0; thread < kThreads; ++thread) {
      names_.push_back(absl::StrCat(name, ":own:", thread));
      if (shards_.empty()) continue;
      const Shard& shard = shards_[thread % shards_.size()];
      names_.back() = NameIn(shard, names_.back()).value_or(names_.back());
    }
    names_.push_back(shared_ = name + ":shared");
    names_.push_back(handed_ = name + ":handover");
    figures_.server = url_.DebugString();
  }

  // Measures one thing after the other, in rounds, so that other load on the machine affects
  // redlatch and plain commands alike. If it ends early, figures() has only completed slices.
  absl::Status Measure(absl::Duration time) {
    absl::StatusOr<Client> client = Client::Connect(url_text_);
    if (!client.ok()) return client.status();
    const absl::StatusOr<Client> other =
        Client::Connect(url_text_, {.on_warning = [](std::string_view) {}});
    if (!other.ok()) return other.status();
    const int64_t rounds = std::clamp<int64_t>(time / absl::Seconds(1), 1, 5);
    slice_ = time / (10 * rounds);
    absl::Status done;
    for (int64_t round = 0; round < rounds && done.ok(); ++round) {
      done = RoundTrips(*client);
      const auto own = [&](int thread) { return names_[static_cast<size_t>(thread)]; };
      if (done.ok()) done = Locks(1, *client, own, figures_.one_thread);
      if (done.ok()) done = Locks(kThreads, *client, own, figures_.own_locks);
      const auto shared = [&](int) { return shared_; };
      if (done.ok()) done = Locks(kThreads, *client, shared, figures_.one_lock);
      if (done.ok()) done = Handovers({*client, *other});
    }
    return done;
  }

  // Deletes the remaining keys; of a quorum, at all its servers.
  absl::Status TidyUp() const {
    absl::Status status;
    for (const std::string& name : begun_ ? names_ : std::vector<std::string>()) {
      for (const redis::Url& url :
           url_.members.empty() ? std::vector<redis::Url>{UrlOf(name)} : url_.members) {
        auto connection = redis::PlainConnection::Open(url, Soon());
        status.Update(connection.ok() ? Ask(*connection, DeleteLocks({name})).status()
                                      : connection.status());
      }
      if (absl::IsUnavailable(status)) break;  // each further attempt would only time out, too
    }
    return status;
  }

  const BenchFigures& figures() const { return figures_; }
  int signal() const { return signal_; }  // 0: none came

 private:
  // The URL of the server that has the key; of a quorum, that of the first server.
  redis::Url UrlOf(std::string_view key) const {
    for (const Shard& shard : shards_) {
      if (shard.Has(key)) return redis::UrlOfNode(url_, shard.primary);
    }
    return url_.members.empty() ? url_ : url_.members.front();
  }

  absl::StatusOr<redis::Reply> Ask(redis::PlainConnection& connection,
                                   const redis::Command& command) const {
    absl::StatusOr<redis::Reply> reply = connection.Call(command, Soon());
    if (reply.ok() && reply->is_error()) {
      return redis::ErrorStatus(reply->text, url_.DebugString());
    }
    return reply;
  }

  // Runs `work` in that many threads for one slice, or until a signal comes or one of them fails.
  absl::Status Run(int threads, const Work& work, Rates* rates, Times* times) {
    begun_ = true;
    std::vector<Lap> laps(static_cast<size_t>(threads));
    std::vector<absl::Status> outcomes(laps.size());
    std::atomic<bool> failed = false;
    const base::Instant begun = base::Now();
    {
      std::vector<std::jthread> workers;
      for (int i = 0; i < threads; ++i) {
        workers.emplace_back([&, i](const std::stop_token& stop) {
          Lap& lap = laps[static_cast<size_t>(i)];
          lap.stop = stop;
          outcomes[static_cast<size_t>(i)] = work(i, lap);
          if (!outcomes[static_cast<size_t>(i)].ok()) failed = true;
        });
      }
      const base::Instant end = begun + slice_;
      while (signal_ == 0 && !failed && base::Now() < end) {
        const timespec some = absl::ToTimespec(std::min(base::Until(end), absl::Milliseconds(10)));
        signal_ = std::max(sigtimedwait(&signals_, nullptr, &some), 0);
      }
      for (std::jthread& worker : workers) worker.request_stop();  // all, before the first join
    }
    figures_.interrupted = signal_ != 0;
    if (figures_.interrupted) return absl::CancelledError("interrupted");
    double rate = 0;
    for (size_t i = 0; i < laps.size(); ++i) {
      if (!outcomes[i].ok()) return outcomes[i];
      const Lap& lap = laps[i];
      if (lap.pairs > 0) {
        rate += static_cast<double>(lap.pairs) / absl::ToDoubleSeconds(lap.ended - lap.begun);
      }
      if (times != nullptr) times->insert(times->end(), lap.times.begin(), lap.times.end());
    }
    // On an overloaded machine no pair may complete within the slice: that gives no figure.
    if (rates != nullptr && rate > 0) rates->push_back(rate);
    return absl::OkStatus();
  }

  absl::Status RoundTrips(const Client& client) {
    const Work plain = [&](int, Lap& lap) -> absl::Status {
      auto connection =
          redis::PlainConnection::Open(UrlOf(""), Soon());  // a client's PING goes there
      if (!connection.ok()) return connection.status();
      while (lap.Next()) {
        const base::Instant begun = base::Now();
        if (auto pong = Ask(*connection, redis::Command{"PING"}); !pong.ok()) return pong.status();
        lap.times.push_back(base::Now() - begun);
      }
      return absl::OkStatus();
    };
    const Work redlatch = [&](int, Lap& lap) -> absl::Status {
      while (lap.Next()) {
        const absl::StatusOr<absl::Duration> pong = client.Ping();
        if (!pong.ok()) return pong.status();
        lap.times.push_back(*pong);
      }
      return absl::OkStatus();
    };
    absl::Status done = Run(1, plain, nullptr, &figures_.round_trips.plain);
    return done.ok() ? Run(1, redlatch, nullptr, &figures_.round_trips.redlatch) : done;
  }

  // Locks with SET NX PX, repeated at once while another thread has the lock, and unlocks with a
  // script that compares and deletes.
  absl::Status PlainPairs(const std::string& key, const std::string& owner, Lap& lap) const {
    auto connection = redis::PlainConnection::Open(UrlOf(key), Soon());
    if (!connection.ok()) return connection.status();
    const redis::Command teach{"EVAL", kRelease, "1", key, owner};
    if (auto taught = Ask(*connection, teach); !taught.ok()) return taught.status();
    const redis::Command take{"SET", key, owner, "NX", "PX", "5000"};
    const redis::Command release{"EVALSHA", base::Sha1Hex(kRelease), "1", key, owner};
    while (lap.Next()) {
      absl::StatusOr<redis::Reply> taken;
      do {
        taken = Ask(*connection, take);
        if (!taken.ok()) return taken.status();
        if (taken->is_nil() && lap.stop.stop_requested()) return absl::OkStatus();
      } while (taken->is_nil());
      if (auto released = Ask(*connection, release); !released.ok()) return released.status();
    }
    return absl::OkStatus();
  }

  std::unique_ptr<RedisLockBase> LockOf(const Client& client, const std::string& name) const {
    const LockOptions options = {.lease = kAnswerTimeout};
    if (!url_.members.empty())
      return std::make_unique<RedLock>(client, name, RedLockOptions{.lease = options.lease});
    return std::make_unique<SimpleLock>(client, name, options);
  }

  // Acquires and releases the lock; calls `held` in between.
  absl::Status LockPairs(const Client& client, const std::string& name, Lap& lap,
                         const std::function<void()>& held) const {
    const auto lock = LockOf(client, name);
    while (lap.Next()) {
      absl::StatusOr<Lease> lease = lock->Acquire({.wait = kAnswerTimeout});
      if (!lease.ok()) return lease.status();
      held();
      if (absl::Status released = lease->Release(); !released.ok()) return released;
    }
    return absl::OkStatus();
  }

  absl::Status Locks(int threads, const Client& client,
                     const std::function<std::string(int thread)>& name, Compared<Rates>& rates) {
    const Work plain = [&](int thread, Lap& lap) {
      return PlainPairs(name(thread), absl::StrCat(thread), lap);
    };
    const Work redlatch = [&](int thread, Lap& lap) {
      return LockPairs(client, name(thread), lap, [] {});
    };
    absl::Status done = Run(threads, plain, &rates.plain, nullptr);
    return done.ok() ? Run(threads, redlatch, &rates.redlatch, nullptr) : done;
  }

  // Two threads, each of which waits for the other in turn. The time is from the stamp of one
  // thread to the end of the other's wait.
  absl::Status Handovers(const std::array<Client, 2>& clients) {
    std::atomic<int64_t> stamp = 0;  // when a thread sent it; the lowest bit says which thread
    const auto send = [&](int thread) { stamp = 2 * base::Now().nanos() + thread; };
    const auto take = [&](int thread, Lap& lap) {
      const base::Instant now = base::Now();
      const int64_t sent = stamp;
      if (sent == 0 || sent % 2 == thread) return;
      lap.times.push_back(now - base::Instant::FromNanos(sent / 2));
    };
    const bool sharded = !shards_.empty();
    const std::string tag = sharded ? redis::TagOf(redis::SlotOf(handed_)) : "";
    const std::string channels[] = {absl::StrCat("redlatch:bench:", tag, handed_, ":0"),
                                    absl::StrCat("redlatch:bench:", tag, handed_, ":1")};
    std::latch subscribed(2);
    const Work plain = [&](int thread, Lap& lap) -> absl::Status {
      const redis::Url url = UrlOf(channels[0]);
      auto speaker = redis::PlainConnection::Open(url, Soon());
      auto listener = redis::PlainConnection::Open(url, Soon());
      absl::Status ready = speaker.ok() ? listener.status() : speaker.status();
      const redis::Command subscribe{sharded ? "SSUBSCRIBE" : "SUBSCRIBE", channels[thread]};
      const redis::Command publish{sharded ? "SPUBLISH" : "PUBLISH", channels[1 - thread], "x"};
      if (ready.ok()) ready = Ask(*listener, subscribe).status();
      subscribed.arrive_and_wait();
      if (!ready.ok()) return ready;
      for (bool first = thread == 0; lap.Next(); first = false) {
        if (!first) {
          auto got = listener->Receive(Soon());
          if (!got.ok()) return lap.stop.stop_requested() ? absl::OkStatus() : got.status();
          take(thread, lap);
        }
        send(thread);
        if (auto sent = Ask(*speaker, publish); !sent.ok()) return sent.status();
      }
      return Ask(*speaker, publish).status();  // the other thread may still wait
    };
    absl::Status done = Run(2, plain, nullptr, &figures_.handovers.plain);
    if (!done.ok()) return done;
    stamp = 0;
    const Work redlatch = [&](int thread, Lap& lap) {
      return LockPairs(clients[static_cast<size_t>(thread)], handed_, lap, [&] {
        take(thread, lap);
        send(thread);
      });
    };
    return Run(2, redlatch, nullptr, &figures_.handovers.redlatch);
  }

  const redis::Url url_;
  const std::string url_text_;
  const std::vector<Shard> shards_;  // the cluster's, when the measurement begins; else empty
  std::vector<std::string> names_;   // of all locks, the threads' own first
  std::string shared_;
  std::string handed_;
  absl::Duration slice_;
  BenchFigures figures_;
  sigset_t signals_ = {};
  bool begun_ = false;
  int signal_ = 0;
};

// ---- Output.

std::string Right(std::string_view text) {
  return std::string(14 - Columns(text), ' ').append(text);
}

double MedianOf(Rates rates) {
  const auto middle = rates.begin() + static_cast<Rates::difference_type>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  return *middle;
}

// "1 234 567"
std::string RateText(const Rates& rates) {
  if (rates.empty()) return "-";
  std::string digits = absl::StrFormat("%.0f", MedianOf(rates));
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, " ");
  return digits;
}

// Fewer than a hundred samples have no slowest in a hundred.
bool HasP99(const Times& times) { return times.size() >= 100; }

std::string TimeText(const Times& times, absl::Duration Spread::*which) {
  if (times.empty() || (which == &Spread::p99 && !HasP99(times))) return "-";
  return ShortTime(SpreadOf(times).*which);
}

// What the figures mean for the user.
std::string Reading(const BenchFigures& figures) {
  const Times& round_trips = figures.round_trips.redlatch;
  if (round_trips.empty()) return "";
  const absl::Duration worst = SpreadOf(round_trips).worst;
  std::string out =
      Wrapped(absl::StrCat("Leases should be at least ", ShortTime(ShortestLease(worst)),
                           ", twenty times the slowest round trip seen (", ShortTime(worst),
                           "); on a bad day there are slower ones."),
              0);
  if (figures.one_thread.redlatch.empty()) return out;
  // The mean, not the median: a rate includes slow round trips, too.
  const absl::Duration mean =
      std::accumulate(round_trips.begin(), round_trips.end(), absl::ZeroDuration()) /
      static_cast<int64_t>(round_trips.size());
  const double one_thread = MedianOf(figures.one_thread.redlatch);
  const double share = std::min(1.0, 2 * absl::ToDoubleSeconds(mean) * one_thread);
  out += Wrapped(
      absl::StrFormat("Of the %s that a lock takes, two round trips account for %.0f %%; %s",
                      ShortTime(absl::Seconds(1 / one_thread)), 100 * share,
                      share >= 0.7 ? "what matters is the way to the server and back."
                                   : "the rest is work in the server and the client."),
      0);
  if (figures.own_locks.redlatch.empty()) return out;
  const double growth = MedianOf(figures.own_locks.redlatch) / one_thread;
  out += Wrapped(
      absl::StrFormat("%d threads, each with its own lock, achieve %.1f times as much as one: %s",
                      kThreads, growth,
                      growth >= 0.5 * kThreads ? "with one, the server is idle most of the time."
                                               : "the server or the machine is at its limit."),
      0);
  return out;
}

std::string Json(const Rates& rates) {
  return rates.empty() ? "null" : absl::StrFormat("%.1f", MedianOf(rates));
}

std::string Json(const Times& times) {
  if (times.empty()) return "null";
  const Spread spread = SpreadOf(times);
  const auto us = [](absl::Duration time) {
    return absl::StrFormat("%.1f", absl::ToDoubleMicroseconds(time));
  };
  JsonObject json;
  json.Json("p50_us", us(spread.p50));
  json.Json("p99_us", HasP99(times) ? us(spread.p99) : "null");
  json.Json("worst_us", us(spread.worst));
  json.Number("samples", static_cast<int64_t>(times.size()));
  return json.Finish();
}

}  // namespace

std::string BenchText(const BenchFigures& figures) {
  std::string out;
  const auto row = [&](std::string_view what, std::string_view redlatch, std::string_view plain) {
    absl::StrAppend(&out, Padded(what, 40), Right(redlatch), Right(plain), "\n");
  };
  const auto times = [&](const char* what, const Compared<Times>& both, auto which) {
    row(what, TimeText(both.redlatch, which), TimeText(both.plain, which));
  };
  const auto rates = [&](const char* what, const Compared<Rates>& both) {
    row(what, RateText(both.redlatch), RateText(both.plain));
  };
  row(figures.server, "redlatch", "plain Redis");
  times("round trip, p50", figures.round_trips, &Spread::p50);
  times("            p99", figures.round_trips, &Spread::p99);
  times("            worst", figures.round_trips, &Spread::worst);
  rates("locks per second, 1 thread", figures.one_thread);
  rates("                  8 threads, own locks", figures.own_locks);
  rates("                  8 threads, one lock", figures.one_lock);
  times("handover to another client, p50", figures.handovers, &Spread::p50);
  times("                            p99", figures.handovers, &Spread::p99);
  return absl::StrCat(out, "\n", Reading(figures));
}

std::string BenchJson(const BenchFigures& figures) {
  JsonObject json;
  json.Text("server", figures.server);
  json.Number("threads", kThreads);
  json.Bool("interrupted", figures.interrupted);
  const auto add = [&json](const char* name, const auto& both) {
    JsonObject compared;
    compared.Json("redlatch", Json(both.redlatch));
    compared.Json("plain", Json(both.plain));
    json.Json(name, compared.Finish());
  };
  add("round_trip", figures.round_trips);
  add("locks_per_s_one_thread", figures.one_thread);
  add("locks_per_s_own_locks", figures.own_locks);
  add("locks_per_s_one_lock", figures.one_lock);
  add("hand_over", figures.handovers);
  if (const Times& times = figures.round_trips.redlatch; !times.empty()) {
    json.Number("lease_at_least_s", absl::ToInt64Seconds(ShortestLease(SpreadOf(times).worst)));
  }
  return json.Finish() + "\n";
}

int Bench(const std::vector<std::string>& words) {
  CommandLine line("bench");
  bool json = false;
  std::string prefix;
  absl::Duration time = absl::Seconds(5);
  line.Flag("--json", &json);
  line.Text("--prefix", "the beginning of your locks' names", &prefix);
  line.Time("--time", &time);
  if (const std::optional<int> over = line.Parse(words)) return *over;
  if (time < absl::Milliseconds(500) || time > absl::Minutes(10)) {
    return Refuse(WrongUsage("--time is out of range", "say 500ms to 10m"));
  }
  const absl::StatusOr<redis::Url> url = redis::ParseUrl(line.server());
  if (!url.ok()) return Refuse(url.status());
  const std::string name =
      absl::StrCat(prefix, "redlatch-bench:", absl::Hex(base::RandomBits(), absl::kZeroPad16));
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
  Measurement bench(*url, line.server(), std::move(shards), name);
  Complain({"for about ", ShortTime(time), " ", url->DebugString(),
            " will be kept busy by up to 8 commands at a time, on keys that begin with ", name,
            " and are deleted at the end; Ctrl-C stops it"});
  const absl::Status measured = bench.Measure(time);
  const absl::Status tidy = bench.TidyUp();
  if (!measured.ok() && bench.signal() == 0) return Refuse(measured);
  if (!tidy.ok()) {
    Complain({"keys that begin with ", name,
              " could not be deleted, and go within a day: ", std::string(tidy.message())});
  }
  std::fputs((json ? BenchJson : BenchText)(bench.figures()).c_str(), stdout);
  return bench.signal() == 0 ? 0 : kSignalled + bench.signal();
}

}  // namespace redlatch::cli
