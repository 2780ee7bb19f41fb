#include "src/cli/bench/bench.h"

#include <signal.h>

#include <array>
#include <latch>
#include <numeric>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "redlatch/client.h"
#include "redlatch/red_lock.h"
#include "redlatch/simple_lock.h"
#include "src/base/random.h"
#include "src/base/sha1.h"
#include "src/cli/inspect/inspect.h"
#include "src/cli/term/command_line.h"
#include "src/lock/key_set.h"
#include "src/redis/wire/errors.h"

namespace redlatch::cli {
namespace {

constexpr int kThreads = 8;
constexpr absl::Duration kAnswerTimeout = absl::Seconds(5);  // also the lease
constexpr std::string_view kRelease =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end\n"
    "return redis.call('DEL', KEYS[1])";

// A blocking connection.
struct Plain {
  explicit Plain(const redis::Url& url)
      : name(url.DebugString()),
        connection(redis::PlainConnection::Open(url, base::Now() + kAnswerTimeout)) {}

  absl::StatusOr<redis::Reply> Ask(const redis::Command& command) {
    if (!connection.ok()) return connection.status();
    auto reply = connection->Call(command, base::Now() + kAnswerTimeout);
    if (reply.ok() && reply->is_error()) return redis::ErrorStatus(reply->text, name);
    return reply;
  }

  const std::string name;
  absl::StatusOr<redis::PlainConnection> connection;
};

// What one thread measures within a slice of the time.
struct Lap {
  std::stop_token stop;
  int64_t pairs = 0;
  base::Instant begun = {};
  base::Instant ended = {};
  std::vector<absl::Duration> times = {};
  absl::Status outcome = absl::OkStatus();
};
// Does one thing, such as to acquire and release a lock. kCancelled: the slice ended first.
using Step = std::function<absl::Status(Lap& lap)>;
using Work = std::function<Step(int thread)>;          // makes the steps of a thread
using Names = std::function<std::string(int thread)>;  // of the threads' locks

// In a cluster the threads' own locks are spread over the shards. Plain commands fail if a slot
// moves during the measurement.
class Measurement {
 public:
  Measurement(redis::Url url, std::string url_text, std::vector<Shard> shards,
              const std::string& name)
      : url_(std::move(url)),
        url_text_(std::move(url_text)),
        shards_(std::move(shards)),
        shared_(name + ":shared"),
        handed_(name + ":handover") {
    // From here on these signals only end the measurement, in all threads.
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    for (size_t thread = 0; thread < kThreads; ++thread) {
      own_.push_back(absl::StrCat(name, ":own:", thread));
      if (shards_.empty()) continue;
      own_.back() = NameIn(shards_[thread % shards_.size()], own_.back()).value_or(own_.back());
    }
    figures_.server = url_.DebugString();
  }

  // Measures one thing after the other, in rounds, so that other load on the machine affects
  // redlatch and plain commands alike. If it ends early, figures() has only completed slices.
  absl::Status Measure(absl::Duration time) {
    const auto client = Client::Connect(url_text_);
    if (!client.ok()) return client.status();
    const auto other = Client::Connect(url_text_, {.on_warning = [](std::string_view) {}});
    if (!other.ok()) return other.status();
    const int64_t rounds = std::clamp<int64_t>(time / absl::Seconds(1), 1, 5);
    slice_ = time / (10 * rounds);
    const Names own = [this](int thread) { return own_[static_cast<size_t>(thread)]; };
    const Names shared = [this](int) { return shared_; };
    for (int64_t round = 0; round < rounds && status_.ok(); ++round) {
      RoundTrips(*client);
      Locks(1, *client, own, figures_.one_thread);
      Locks(kThreads, *client, own, figures_.own_locks);
      Locks(kThreads, *client, shared, figures_.one_lock);
      Handovers({*client, *other});
    }
    return status_;
  }

  // Deletes the remaining keys; of a quorum, at all its servers.
  absl::Status TidyUp() const {
    absl::Status status;
    std::vector<std::string> names = own_;
    names.insert(names.end(), {shared_, handed_});
    for (const std::string& name : begun_ ? names : std::vector<std::string>()) {
      const auto members = url_.members.empty() ? std::vector{UrlOf(name)} : url_.members;
      for (const redis::Url& url : members)
        status.Update(Plain(url).Ask(DeleteLocks({name})).status());
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

  // Works in that many threads for one slice, or until a signal comes or one of them fails.
  void Run(int threads, const Work& work, Figure& figure) {
    if (!status_.ok()) return;
    begun_ = true;
    std::vector<Lap> laps(static_cast<size_t>(threads));
    std::atomic<bool> failed = false;
    {
      std::vector<std::jthread> workers;
      for (int thread = 0; thread < threads; ++thread) {
        workers.emplace_back([&, thread](const std::stop_token& stop) {
          Lap& lap = laps[static_cast<size_t>(thread)];
          lap.stop = stop;
          const Step step = work(thread);
          for (lap.begun = lap.ended = base::Now(); !stop.stop_requested(); ++lap.pairs) {
            if (lap.outcome = step(lap); !lap.outcome.ok()) break;
            lap.ended = base::Now();
          }
          if (!lap.outcome.ok() && !absl::IsCancelled(lap.outcome)) failed = true;
        });
      }
      const base::Instant end = base::Now() + slice_;
      while (signal_ == 0 && !failed && base::Now() < end) {
        const timespec some = absl::ToTimespec(std::min(base::Until(end), absl::Milliseconds(10)));
        signal_ = std::max(sigtimedwait(&signals_, nullptr, &some), 0);
      }
      for (std::jthread& worker : workers) worker.request_stop();  // all, before the first join
    }
    figures_.interrupted = signal_ != 0;
    if (figures_.interrupted) status_ = absl::CancelledError("interrupted");
    double rate = 0;
    for (const Lap& lap : laps) {
      if (!absl::IsCancelled(lap.outcome)) status_.Update(lap.outcome);
      if (lap.pairs > 0)
        rate += static_cast<double>(lap.pairs) / absl::ToDoubleSeconds(lap.ended - lap.begun);
    }
    if (!status_.ok()) return;
    for (const Lap& lap : laps)
      figure.times.insert(figure.times.end(), lap.times.begin(), lap.times.end());
    // On an overloaded machine no pair may complete within the slice: that gives no figure.
    if (rate > 0) figure.rates.push_back(rate);
  }

  void RoundTrips(const Client& client) {
    const Work plain = [&](int) -> Step {
      return [connection = std::make_shared<Plain>(UrlOf(""))](Lap& lap) {  // as a client's PING
        const base::Instant begun = base::Now();
        absl::Status pong = connection->Ask(redis::Command{"PING"}).status();
        lap.times.push_back(base::Now() - begun);
        return pong;
      };
    };
    const Work redlatch = [&](int) -> Step {
      return [&](Lap& lap) {
        const absl::StatusOr<absl::Duration> pong = client.Ping();
        lap.times.push_back(pong.value_or(absl::ZeroDuration()));
        return pong.status();
      };
    };
    Run(1, plain, figures_.round_trips.plain);
    Run(1, redlatch, figures_.round_trips.redlatch);
  }

  // Locks with SET NX PX, repeated at once while another thread has the lock, and unlocks with a
  // script that compares and deletes.
  Step PlainPairs(const std::string& key, const std::string& owner) const {
    auto connection = std::make_shared<Plain>(UrlOf(key));
    // The server then knows the script.
    absl::Status ready =
        connection->Ask(redis::Command{"EVAL", kRelease, "1", key, owner}).status();
    const redis::Command take{"SET", key, owner, "NX", "PX", "5000"};
    const redis::Command release{"EVALSHA", base::Sha1Hex(kRelease), "1", key, owner};
    return [=](Lap& lap) {
      if (!ready.ok()) return ready;
      for (;;) {
        const absl::StatusOr<redis::Reply> taken = connection->Ask(take);
        if (!taken.ok()) return taken.status();
        if (!taken->is_nil()) break;
        if (lap.stop.stop_requested()) return absl::CancelledError();
      }
      return connection->Ask(release).status();
    };
  }

  // Acquires and releases the lock; calls `held` in between.
  Step LockPairs(const Client& client, const std::string& name,
                 const std::function<void(Lap& lap)>& held) const {
    std::shared_ptr<RedisLockBase> lock;
    if (url_.members.empty()) {
      lock = std::make_shared<SimpleLock>(client, name, LockOptions{.lease = kAnswerTimeout});
    } else {
      lock = std::make_shared<RedLock>(client, name, RedLockOptions{.lease = kAnswerTimeout});
    }
    return [=](Lap& lap) {
      absl::StatusOr<Lease> lease = lock->Acquire({.wait = kAnswerTimeout});
      if (!lease.ok()) return lease.status();
      held(lap);
      return lease->Release();
    };
  }

  void Locks(int threads, const Client& client, const Names& name, Compared& both) {
    Run(
        threads, [&](int i) { return PlainPairs(name(i), absl::StrCat(i)); }, both.plain);
    Run(
        threads, [&](int i) { return LockPairs(client, name(i), [](Lap&) {}); }, both.redlatch);
  }

  // Two threads, each of which waits for the other in turn. The time is from the stamp of one
  // thread to the end of the other's wait.
  void Handovers(const std::array<Client, 2>& clients) {
    std::atomic<int64_t> stamp = 0;  // when a thread sent it; the lowest bit says which thread
    const auto take = [&](int thread, Lap& lap) {
      const int64_t sent = stamp;
      if (sent == 0 || sent % 2 == thread) return;
      lap.times.push_back(base::Now() - base::Instant::FromNanos(sent / 2));
    };
    const auto send = [&](int thread) { stamp = 2 * base::Now().nanos() + thread; };
    const std::string s = shards_.empty() ? "" : "S";  // sharded channels
    const std::string tag = shards_.empty() ? "" : redis::TagOf(redis::SlotOf(handed_));
    const std::string channel = absl::StrCat("redlatch:bench:", tag, handed_, ":");
    std::latch subscribed(2);
    const auto plain = [&](int thread) -> Step {
      const redis::Url url = UrlOf(channel);
      auto listener = std::make_shared<Plain>(url);
      const redis::Command publish{s + "PUBLISH", absl::StrCat(channel, 1 - thread), "x"};
      // The other thread may still wait at the end.
      const std::shared_ptr<Plain> speaker(new Plain(url), [publish](Plain* last) {
        (void)last->Ask(publish);
        delete last;
      });
      const auto ready =
          listener->Ask(redis::Command{s + "SUBSCRIBE", absl::StrCat(channel, thread)});
      subscribed.arrive_and_wait();
      return [=, &take, &send](Lap& lap) {
        if (!ready.ok()) return ready.status();
        if (thread != 0 || lap.pairs > 0) {
          const auto got = listener->connection->Receive(base::Now() + kAnswerTimeout);
          if (!got.ok()) return lap.stop.stop_requested() ? absl::CancelledError() : got.status();
          take(thread, lap);
        }
        send(thread);
        return speaker->Ask(publish).status();
      };
    };
    Run(2, plain, figures_.handovers.plain);
    stamp = 0;
    const auto redlatch = [&](int thread) {
      return LockPairs(clients[static_cast<size_t>(thread)], handed_, [=, &take, &send](Lap& lap) {
        take(thread, lap);
        send(thread);
      });
    };
    Run(2, redlatch, figures_.handovers.redlatch);
  }

  const redis::Url url_;
  const std::string url_text_;
  const std::vector<Shard> shards_;  // the cluster's, when the measurement begins; else empty
  const std::string shared_, handed_;
  std::vector<std::string> own_;  // the threads' own locks
  absl::Duration slice_;
  BenchFigures figures_;
  absl::Status status_;
  sigset_t signals_ = {};
  bool begun_ = false;
  int signal_ = 0;
};

// ---- Output.

double MedianOf(std::vector<double> rates) {
  std::ranges::sort(rates);
  return rates[rates.size() / 2];
}

// Fewer than a hundred samples have no slowest in a hundred.
bool Has(const Figure& figure, absl::Duration Spread::*which) {
  return figure.times.size() >= (which == &Spread::p99 ? 100 : 1);
}

// The time, or the rate as "1 234 567".
std::string TextOf(const Figure& figure, absl::Duration Spread::*which) {
  if (which != nullptr) return Has(figure, which) ? ShortTime(SpreadOf(figure.times).*which) : "-";
  if (figure.rates.empty()) return "-";
  std::string digits = absl::StrFormat("%.0f", MedianOf(figure.rates));
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, " ");
  return digits;
}

// What the figures mean for the user.
std::string Reading(const BenchFigures& figures) {
  const auto& round_trips = figures.round_trips.redlatch.times;
  if (round_trips.empty()) return "";
  const std::string worst = ShortTime(SpreadOf(round_trips).worst);
  std::string out = Wrapped(absl::StrCat("Leases should be at least ",
                                         ShortTime(ShortestLease(SpreadOf(round_trips).worst)),
                                         ", twenty times the slowest round trip seen (", worst,
                                         "); on a bad day there are slower ones."),
                            0);
  if (figures.one_thread.redlatch.rates.empty()) return out;
  // The mean, not the median: a rate includes slow round trips, too.
  const absl::Duration mean =
      std::accumulate(round_trips.begin(), round_trips.end(), absl::ZeroDuration()) /
      static_cast<int64_t>(round_trips.size());
  const double one_thread = MedianOf(figures.one_thread.redlatch.rates);
  const double share = std::min(1.0, 2 * absl::ToDoubleSeconds(mean) * one_thread);
  out += Wrapped(
      absl::StrFormat("Of the %s that a lock takes, two round trips account for %.0f %%; %s",
                      ShortTime(absl::Seconds(1 / one_thread)), 100 * share,
                      share >= 0.7 ? "what matters is the way to the server and back."
                                   : "the rest is work in the server and the client."),
      0);
  if (figures.own_locks.redlatch.rates.empty()) return out;
  const double growth = MedianOf(figures.own_locks.redlatch.rates) / one_thread;
  return out +
         Wrapped(absl::StrFormat(
                     "%d threads, each with its own lock, achieve %.1f times as much as one: %s",
                     kThreads, growth,
                     growth >= 0.5 * kThreads ? "with one, the server is idle most of the time."
                                              : "the server or the machine is at its limit."),
                 0);
}

std::string Json(const Figure& figure, bool is_rate) {
  if (is_rate)
    return figure.rates.empty() ? "null" : absl::StrFormat("%.1f", MedianOf(figure.rates));
  if (figure.times.empty()) return "null";
  const Spread spread = SpreadOf(figure.times);
  const auto us = [](absl::Duration time) {
    return absl::StrFormat("%.1f", absl::ToDoubleMicroseconds(time));
  };
  JsonObject json;
  json.Json("p50_us", us(spread.p50));
  json.Json("p99_us", Has(figure, &Spread::p99) ? us(spread.p99) : "null");
  json.Json("worst_us", us(spread.worst));
  json.Number("samples", static_cast<int64_t>(figure.times.size()));
  return json.Finish();
}

}  // namespace

std::string BenchText(const BenchFigures& figures) {
  std::string out;
  const auto row = [&](std::string_view what, std::string_view redlatch, std::string_view plain) {
    absl::StrAppend(&out, Padded(what, 40));
    for (const auto text : {redlatch, plain})
      absl::StrAppend(&out, std::string(14 - Columns(text), ' '), std::string(text));
    out += "\n";
  };
  const auto add = [&](const char* what, const Compared& both,
                       absl::Duration Spread::*which = nullptr) {
    row(what, TextOf(both.redlatch, which), TextOf(both.plain, which));
  };
  row(figures.server, "redlatch", "plain Redis");
  add("round trip, p50", figures.round_trips, &Spread::p50);
  add("            p99", figures.round_trips, &Spread::p99);
  add("            worst", figures.round_trips, &Spread::worst);
  add("locks per second, 1 thread", figures.one_thread);
  add("                  8 threads, own locks", figures.own_locks);
  add("                  8 threads, one lock", figures.one_lock);
  add("handover to another client, p50", figures.handovers, &Spread::p50);
  add("                            p99", figures.handovers, &Spread::p99);
  return absl::StrCat(out, "\n", Reading(figures));
}

std::string BenchJson(const BenchFigures& figures) {
  JsonObject json;
  json.Text("server", figures.server);
  json.Number("threads", kThreads);
  json.Bool("interrupted", figures.interrupted);
  const auto add = [&json](const char* name, const Compared& both, bool is_rate) {
    JsonObject compared;
    compared.Json("redlatch", Json(both.redlatch, is_rate));
    compared.Json("plain", Json(both.plain, is_rate));
    json.Json(name, compared.Finish());
  };
  add("round_trip", figures.round_trips, false);
  add("locks_per_s_one_thread", figures.one_thread, true);
  add("locks_per_s_own_locks", figures.own_locks, true);
  add("locks_per_s_one_lock", figures.one_lock, true);
  add("hand_over", figures.handovers, false);
  if (const auto& times = figures.round_trips.redlatch.times; !times.empty()) {
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
