#include "src/demo/worker.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "redlatch/client.h"
#include "redlatch/observer.h"
#include "redlatch/run_locked.h"
#include "redlatch/simple_lock.h"
#include "redlatch/status.h"
#include "src/demo/store.h"

namespace redlatch::demo {
namespace {

constexpr absl::Duration kThinking = absl::Milliseconds(40);  // between reading and writing
constexpr absl::Duration kRest = absl::Milliseconds(30);      // times 0 to 4, between two holds
constexpr absl::Duration kPatience = absl::Seconds(20);

void Say(Report report, std::string_view text = {}) {
  text.copy(report.text.data(), report.text.size() - 1);
  std::ranges::replace(report.text, '\n', ' ');
  if (write(STDOUT_FILENO, &report, sizeof report) < 0) _exit(1);
}

// The next order, if one comes within `wait`.
struct Heard {
  std::optional<Order> order;
  bool over = false;  // the input has ended
};
Heard Listen(absl::Duration wait) {
  pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (poll(&input, 1, static_cast<int>(absl::ToInt64Milliseconds(wait))) <= 0) return {};
  char byte = 0;
  if (read(STDIN_FILENO, &byte, 1) != 1) return {.over = true};
  return {.order = static_cast<Order>(byte)};
}

// Tells of losses where the default observer would write to stderr.
class TellingObserver : public Observer {
 public:
  explicit TellingObserver(int worker) : worker_(worker) {}
  void OnLost(const LostLease& lost) override {
    Say({.worker = worker_, .event = Report::Event::kLost, .token = lost.token.value()},
        lost.reason);
    ++told_;
    told_.notify_one();
  }
  // Returns when that many losses have been told of.
  void Await(int losses) const {
    for (int told = told_; told < losses; told = told_) told_.wait(told);
  }

 private:
  const int worker_;
  std::atomic<int> told_ = 0;
};

class Worker {
 public:
  Worker(const WorkerTask& task, const Client& client, const TellingObserver& observer)
      : number_(task.worker),
        observer_(observer),
        lock_(client, task.lock, {.lease = kLease}),
        counter_(task.counter_path) {}

  absl::Status Work() {
    for (int round = 0;; ++round) {
      const Heard heard = Listen(kRest * ((round * 7 + number_ * 3) % 5));
      if (heard.over) return absl::OkStatus();
      if (heard.order) dally_ = heard.order;
      refused_ = false;
      absl::Status added = AddOne();
      if (!added.ok() && !IsLeaseLost(added)) return added;
      if (!added.ok()) observer_.Await(++losses_);  // a thread of the client tells of them
      if (refused_ && added.ok()) {
        return absl::InternalError("the store refused a hold that redlatch says was never lost");
      }
      Tell(Report::Event::kRests, {}, 0, added.message());
    }
  }

 private:
  void Tell(Report::Event event, FencingToken token = {}, int64_t count = 0,
            absl::string_view text = {}) const {
    Say({.worker = number_, .event = event, .token = token.value(), .count = count},
        {text.data(), text.size()});
  }

  // Reads, thinks, writes: all of it under the lock.
  absl::Status AddOne() {
    Tell(Report::Event::kWaits);
    return RunLocked(lock_, {.wait = kPatience}, [this](const std::stop_token&) {
      return ReadThinkWrite(lock_.current().fencing_token());
    });
  }

  absl::Status ReadThinkWrite(FencingToken token) {
    const absl::StatusOr<int64_t> read = counter_.Read(token, number_);
    if (!read.ok()) return Refused(read.status(), token, 0);
    Tell(Report::Event::kHolds, token, *read);
    const std::optional<Order> dally = std::exchange(dally_, std::nullopt);
    absl::SleepFor(kThinking);
    if (dally == Order::kDallyBeforeWrite) Dally(token, *read);

    // A careful program asks its stop token here. Whoever is frozen right after it has asked writes
    // all the same: so this one does not ask, and the store has to be on its guard.
    const int64_t count = *read + 1;
    const absl::Status written = counter_.Write(count, token, number_);
    if (!written.ok()) return Refused(written, token, count);
    if (dally == Order::kDallyAfterWrite) Dally(token, *read);
    Tell(Report::Event::kWrote, token, count);
    return absl::OkStatus();
  }

  // A refusal is told, and the hold's end tells why; anything else is an error.
  absl::Status Refused(const absl::Status& why, FencingToken token, int64_t count) {
    if (!absl::IsFailedPrecondition(why)) return why;
    refused_ = true;
    Tell(Report::Event::kRefused, token, count, why.message());
    return absl::OkStatus();
  }

  void Dally(FencingToken token, int64_t count) const {
    Tell(Report::Event::kDallies, token, count);
    Listen(kPatience);
  }

  const int number_;
  const TellingObserver& observer_;
  int losses_ = 0;
  SimpleLock lock_;
  const FencedCounter counter_;
  std::optional<Order> dally_;
  bool refused_ = false;
};

}  // namespace

int RunWorker(const WorkerTask& task) {
  // However the demo ends, so does this: frozen or not.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(static_cast<unsigned>(absl::ToInt64Seconds(kLongestRun)));
  const auto fail = [&task](const absl::Status& why) {
    Say({.worker = task.worker, .event = Report::Event::kFailed}, why.ToString());
    return 1;
  };

  const auto observer = std::make_shared<TellingObserver>(task.worker);
  const absl::StatusOr<Client> client =
      Client::Connect(task.url, {.observer = observer, .on_warning = [](std::string_view) {}});
  if (!client.ok()) return fail(client.status());
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  Say({.worker = task.worker, .event = Report::Event::kStarted}, host);
  const absl::Status done = Worker(task, *client, *observer).Work();
  return done.ok() ? 0 : fail(done);
}

}  // namespace redlatch::demo
