#include "src/cli/bench/slice.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"

namespace redlatch::cli {

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
  while (poll(fds, 2, base::PollTimeout(end)) < 0) {
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

}  // namespace redlatch::cli
