#include "src/demo/show.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "src/demo/crew.h"
#include "src/demo/store.h"
#include "src/demo/sum.h"
#include "src/demo/table.h"
#include "src/demo/worker.h"

namespace redlatch::demo {
namespace {

constexpr int kWorkers = 5;
constexpr int kVictim = 3;   // is killed
constexpr int kSleeper = 2;  // is frozen
constexpr absl::Duration kTick = absl::Milliseconds(50);
constexpr absl::Duration kLook = absl::Milliseconds(100);  // how often the lock is inspected
constexpr absl::Duration kPatience = absl::Seconds(15);    // for anything that is to happen

constexpr std::string_view kPrologue = R"(
Five processes share a number in a file. Each adds 1 to it, over and over: it reads the number,
thinks for a moment, and writes back the number plus one. If two of them did that at once, an
addition would be lost, so each takes a lock first: redlatch lets one in and keeps the others in a
queue. With the lock comes a token, a number that only grows, and the file rejects any token older
than the newest it has seen. Two accidents will happen: one process dies while it holds the lock,
and another freezes.
)";

constexpr std::string_view kEpilogue = R"(
No addition was lost, and none was made twice. Only one process at a time held the lock. When one
died holding it, the lock was passed on as soon as its lease expired. When one froze for longer than
its lease, and then carried on as if it still held the lock, its older token gave it away, and it
changed nothing.)";

volatile sig_atomic_t interrupted = 0;

class Show {
 public:
  Show(std::string url, const Client& client, const std::string& lock, const std::string& directory)
      : url_(std::move(url)), lock_(client, lock), counter_path_(directory + "/counter") {}

  // An error: the demonstration could not go on.
  absl::Status Run() {
    (void)(Begin() && KillOne() && FreezeOne() && Finish());
    table_.End();
    return failure_;
  }

  // True: all is as it should be.
  bool SumUp() {
    const absl::StatusOr<Sum> sum = CountUp(counter_, crew_.workers());
    if (!sum.ok()) {
      table_.Print(sum.status().ToString());
      return false;
    }
    table_.Print(absl::StrCat("\n", sum->text));
    if (!refused_) table_.Print("WRONG: the late write was not rejected");
    const bool good = sum->good && refused_;
    if (good) table_.Print(kEpilogue);
    return good;
  }

 private:
  using Condition = std::function<bool()>;

  absl::Duration elapsed() const {
    return absl::FromChrono(std::chrono::steady_clock::now() - began_);
  }
  Worker& worker(int number) { return crew_.workers()[static_cast<size_t>(number) - 1]; }
  void Say(std::string_view text) { table_.Event(elapsed(), text); }

  void Heard(const Worker& by, const Report& report) {
    if (report.event == Report::Event::kFailed) {
      Fails(absl::InternalError(absl::StrCat("worker ", by.number, ": ", report.text.data())));
    }
    if (report.event == Report::Event::kWrote || report.event == Report::Event::kHolds) {
      count_ = std::max(count_, report.count);
    }
    if (report.event == Report::Event::kLost) {
      Say(absl::StrFormat("redlatch tells worker %d that it lost the lock: %s", by.number,
                          report.text.data()));
    }
    if (report.event == Report::Event::kRefused) {
      if (by.number == kSleeper) refused_ = true;
      Say(absl::StrFormat("worker %d writes %d: REJECTED, because its %s", by.number, report.count,
                          report.text.data()));
    }
    if (report.event == Report::Event::kRests && report.text[0] != '\0') {
      Say(absl::StrFormat("in worker %d, RunLocked() returns: %s", by.number, report.text.data()));
    }
  }

  void Look() {
    if (elapsed() < next_look_) return;
    next_look_ = elapsed() + kLook;
    absl::StatusOr<LockInfo> info = lock_.Inspect();
    sight_ = info.ok() ? std::optional(*std::move(info)) : std::nullopt;
    table_.Show({.elapsed = elapsed(),
                 .lock = sight_ ? &*sight_ : nullptr,
                 .count = count_,
                 .workers = &crew_.workers()});
  }

  // Until something is so. False: it is not in time, or the demonstration has failed.
  bool Until(std::string_view what, const Condition& so, absl::Duration wait = kPatience) {
    const absl::Duration end = elapsed() + wait;
    while (!so()) {
      if (interrupted != 0) return Fails(absl::CancelledError("interrupted"));
      if (end <= elapsed()) {
        return Fails(absl::DeadlineExceededError(
            absl::StrCat("this did not happen in time: ", std::string(what))));
      }
      crew_.Attend(kTick, [this](const Worker& by, const Report& report) { Heard(by, report); });
      Look();
      for (const Worker& each : crew_.workers()) {
        if (each.state == Worker::State::kFailed) {
          Fails(absl::InternalError(absl::StrCat("worker ", each.number, " ended early")));
        }
      }
      if (!failure_.ok()) return false;
    }
    return true;
  }

  // The first failure counts.
  bool Fails(absl::Status why) {
    failure_.Update(std::move(why));
    return false;
  }

  bool Watch(absl::Duration time) {
    const absl::Duration end = elapsed() + time;
    return Until(
        "the time to pass", [&] { return end <= elapsed(); }, time + kPatience);
  }

  bool UntilSomebodyElseHolds(uint64_t than) {
    return Until("another worker to get the lock", [&] {
      return std::ranges::any_of(crew_.workers(), [&](const Worker& each) {
        if (each.token <= than || each.state != Worker::State::kHolds) return false;
        successor_ = each.number;
        return true;
      });
    });
  }

  // Until the worker has the lock and has done what the order says of it.
  bool UntilDallying(int number, Order order) {
    crew_.Tell(worker(number), order);
    return Until("a worker to get the lock",
                 [&] { return worker(number).state == Worker::State::kDallies; });
  }

  std::string LeaseText() const {
    const absl::StatusOr<LockInfo> info = lock_.Inspect();
    if (!info.ok() || info->holders.empty()) return "its lease has expired";
    return absl::StrFormat("its lease expires in %.1f s, and nobody renews it",
                           absl::ToDoubleSeconds(info->holders.front().remaining));
  }

  bool Begin() {
    failure_ = counter_.Create();
    if (failure_.ok()) {
      failure_ =
          crew_.Start(kWorkers, {.url = url_, .lock = lock_.name(), .counter_path = counter_path_});
    }
    if (!failure_.ok()) return false;
    const auto started = [](const Worker& each) { return each.state != Worker::State::kStarting; };
    if (!Until("the workers to start",
               [&] { return std::ranges::all_of(crew_.workers(), started); })) {
      return false;
    }
    Say(absl::StrFormat(
        "%d workers have started; a lease lasts %.0f s and is renewed while its process lives",
        kWorkers, absl::ToDoubleSeconds(kLease)));
    return Watch(absl::Seconds(1.8));
  }

  bool KillOne() {
    if (!UntilDallying(kVictim, Order::kDallyAfterWrite)) return false;
    Worker& victim = worker(kVictim);
    const absl::Duration killed = elapsed();
    Crew::Kill(victim);
    Say(absl::StrFormat("worker %d was killed while it held the lock; %s", kVictim, LeaseText()));
    if (!UntilSomebodyElseHolds(victim.token)) return false;
    Say(absl::StrFormat("its lease has expired: worker %d holds the lock, %.1f s after the kill",
                        successor_, absl::ToDoubleSeconds(elapsed() - killed)));
    return Watch(absl::Seconds(1));
  }

  bool FreezeOne() {
    if (!UntilDallying(kSleeper, Order::kDallyBeforeWrite)) return false;
    Worker& sleeper = worker(kSleeper);
    const int64_t read = count_;
    Crew::Freeze(sleeper);
    Say(absl::StrFormat("worker %d was frozen after reading %d and before writing; %s", kSleeper,
                        read, LeaseText()));
    if (!UntilSomebodyElseHolds(sleeper.token)) return false;
    Say(absl::StrFormat("its lease has expired: worker %d holds the lock, with a newer token",
                        successor_));
    if (!Watch(absl::Seconds(1))) return false;
    Say(absl::StrFormat(
        "worker %d carries on as if no time had passed: it has read %d, but the number is now %d",
        kSleeper, read, count_));
    const int64_t told = sleeper.told;
    crew_.Tell(sleeper, Order::kGo);
    Crew::Thaw(sleeper);
    return Until("the late write", [&] { return refused_ || sleeper.told > told; }) &&
           Watch(absl::Seconds(1));
  }

  bool Finish() {
    crew_.Dismiss();
    const bool ended = Until("the workers to end", [&] {
      return std::ranges::all_of(crew_.workers(), [](const Worker& each) { return each.pid < 0; });
    });
    next_look_ = absl::ZeroDuration();
    Look();
    return ended;
  }

  const std::string url_;
  SimpleLock lock_;
  const std::string counter_path_;
  const FencedCounter counter_{counter_path_};
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  Table table_;
  Crew crew_;
  std::optional<LockInfo> sight_;
  absl::Duration next_look_ = absl::ZeroDuration();
  int64_t count_ = 0;
  int successor_ = 0;
  bool refused_ = false;
  absl::Status failure_;  // why the demonstration cannot go on
};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "redlatch-demo: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace

int RunShow(const std::string& url) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action = {};
    action.sa_handler = [](int) { interrupted = 1; };
    sigaction(signal, &action, nullptr);
  }
  signal(SIGPIPE, SIG_IGN);

  std::error_code error;
  std::string directory = std::filesystem::temp_directory_path(error) / "redlatch-demo.XXXXXX";
  if (error || mkdtemp(directory.data()) == nullptr) {
    return Fail(absl::UnavailableError("no temporary directory"));
  }
  const absl::Cleanup removed = [&] { std::filesystem::remove_all(directory, error); };
  const absl::StatusOr<Client> client = Client::Connect(url);
  if (!client.ok()) return Fail(client.status());
  std::printf("redlatch at %s\n%.*s\n", client->server().c_str(),
              static_cast<int>(kPrologue.size()), kPrologue.data());

  // A lock of this run's own, as its number is.
  const std::string name = "redlatch-demo" + directory.substr(directory.rfind('.'));
  Show show(url, *client, name, directory);
  if (absl::Status ran = show.Run(); !ran.ok()) return Fail(ran);
  return show.SumUp() ? 0 : 1;
}

}  // namespace redlatch::demo
