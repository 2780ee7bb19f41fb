#include "src/demo/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
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

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// Reports losses, in place of the default observer, which writes to stderr.
class TellingObserver : public Observer {
 public:
  explicit TellingObserver(int worker) : worker_(worker) {}
  void OnLost(const LostLease& lost) override {
    Say(absl::StrCat("redlatch tells worker ", worker_, " that it lost the lock: ", lost.reason));
    ++told_;
    told_.notify_one();
  }
  // Returns when so many losses have been reported.
  void Await(int losses) const {
    for (int told = told_; told < losses; told = told_) told_.wait(told);
  }

 private:
  const int worker_;
  std::atomic<int> told_ = 0;
};

class Worker {
 public:
  Worker(int number, Seat& seat, const std::string& directory)
      : number_(number), seat_(seat), counter_(directory + "/counter") {}

  absl::Status Work(SimpleLock& lock, const TellingObserver& observer) {
    int losses = 0;
    for (int round = 0; seat_.order != Order::kEnd; ++round) {
      seat_.doing = Doing::kResting;
      absl::SleepFor(kRest * ((round * 7 + number_ * 3) % 5));
      seat_.doing = Doing::kWaiting;
      absl::Status added = RunLocked(lock, {.wait = kPatience}, [&](const std::stop_token&) {
        return AddOne(lock.current().fencing_token());
      });
      if (IsLeaseLost(added)) {
        observer.Await(++losses);  // a thread of the client reports them
        Say(absl::StrCat("in worker ", number_, ", RunLocked() returns: ", added.message()));
      } else if (!added.ok()) {
        return added;
      }
    }
    return absl::OkStatus();
  }

 private:
  // Reads, thinks, writes: all of it under the lock.
  absl::Status AddOne(FencingToken token) {
    const absl::StatusOr<int64_t> read = counter_.Read(token, number_);
    if (!read.ok()) return Refused(read.status(), 0);
    seat_.count = *read;
    seat_.token = token.value();
    seat_.doing = Doing::kHolding;
    absl::SleepFor(kThinking);
    Dally(Order::kDallyBeforeWrite);

    // A careful program checks its stop token here. A process that is frozen right after the check
    // writes all the same: so this one does not check, and leaves it to the store.
    const absl::Status written = counter_.Write(*read + 1, token, number_);
    if (!written.ok()) return Refused(written, *read + 1);
    Dally(Order::kDallyAfterWrite);
    seat_.count = *read + 1;
    ++seat_.added;
    return absl::OkStatus();
  }

  // On request, stays here until it is told to go on.
  void Dally(Order order) {
    if (seat_.order != order) return;
    seat_.doing = Doing::kDallying;
    while (seat_.order == order) absl::SleepFor(absl::Milliseconds(1));
  }

  // Reports a refusal, and why the hold ended; anything else is an error.
  absl::Status Refused(const absl::Status& why, int64_t count) {
    if (!absl::IsFailedPrecondition(why)) return why;
    Say(absl::StrCat("worker ", number_, " writes ", count, ": REJECTED, because its ",
                     why.message()));
    ++seat_.refused;
    return absl::OkStatus();
  }

  const int number_;
  Seat& seat_;
  const FencedCounter counter_;
};

}  // namespace

Board& MapBoard(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  void* memory = MAP_FAILED;
  if (file >= 0 && ftruncate(file, sizeof(Board)) == 0) {
    memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  if (memory == MAP_FAILED) {
    std::perror(path.c_str());
    std::exit(1);
  }
  close(file);
  return *static_cast<Board*>(memory);  // all bytes are zero, as in a new board
}

int RunWorker(int number, const std::string& url, const std::string& lock,
              const std::string& directory) {
  // It ends with the demo, however that ends, and even if it is frozen.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(60);
  const auto observer = std::make_shared<TellingObserver>(number);
  const absl::StatusOr<Client> client =
      Client::Connect(url, {.observer = observer, .on_warning = [](std::string_view) {}});
  absl::Status done = client.status();
  if (client.ok()) {
    SimpleLock its(*client, lock, {.lease = kLease});
    Seat& seat = MapBoard(directory + "/board")[static_cast<size_t>(number) - 1];
    done = Worker(number, seat, directory).Work(its, *observer);
  }
  if (!done.ok()) Say(absl::StrCat("worker ", number, " fails: ", done.message()));
  return done.ok() ? 0 : 1;
}

}  // namespace redlatch::demo
