// The scheduler of 12-leaders-and-jobs.md.
//
// Output: step 3 of epoch [0-9]+
#include <unistd.h>

#include <cinttypes>
#include <cstdio>

// [scheduler]
#include <csignal>
#include <stop_token>
#include <string>
#include <thread>

#include "redlatch/client.h"
#include "redlatch/election.h"

void PlanOneStep(redlatch::FencingToken epoch);  // takes a moment

absl::Status PlanWhileLeading(const redlatch::Client& client, const std::string& address,
                              const std::stop_token& stop) {
  redlatch::Election election(client, "scheduler", {.lease = absl::Seconds(10)});
  return redlatch::RunElected(
      election,
      [](const std::stop_token& ends, redlatch::FencingToken epoch) {
        while (!ends.stop_requested()) PlanOneStep(epoch);
        return absl::OkStatus();  // now another candidate may lead
      },
      stop, address);
}

int main() {
  // The service manager sends SIGTERM. It is blocked before the client starts its threads.
  sigset_t sigterm;
  sigemptyset(&sigterm);
  sigaddset(&sigterm, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &sigterm, nullptr);
  std::stop_source stop;
  std::thread([stop, sigterm]() mutable {
    int signal = 0;
    sigwait(&sigterm, &signal);
    stop.request_stop();
  }).detach();

  absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect("embedded:");
  if (!client.ok()) return 1;
  return PlanWhileLeading(*client, "10.0.0.1:7000", stop.get_token()).ok() ? 0 : 1;
}
// [/scheduler]

// In the third step the service manager ends this process.
void PlanOneStep(redlatch::FencingToken epoch) {
  static int step = 0;
  std::printf("step %d of epoch %" PRIu64 "\n", ++step, epoch.value());
  if (step == 3) kill(getpid(), SIGTERM);
}
