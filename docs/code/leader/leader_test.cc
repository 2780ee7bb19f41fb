// The code of recipes/leader.md, and a test that runs it.
#include <unistd.h>

#include <future>

#include "docs/code/expect.h"
#include "gtest/gtest.h"

// [sigterm]
#include <csignal>
#include <stop_token>
#include <thread>

// Returns a token that fires on SIGTERM. Call this before other threads start, because they must
// inherit the blocked signal.
std::stop_token StopOnSigterm() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::stop_source stop;
  std::thread([signals, stop]() mutable {
    int signal = 0;
    sigwait(&signals, &signal);
    stop.request_stop();
  }).detach();
  return stop.get_token();
}
// [/sigterm]

// [lead]
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

#include "redlatch/client.h"
#include "redlatch/election.h"

absl::Status PlanOneStep(redlatch::FencingToken epoch);  // takes less than a second

// Plans every five seconds while this process leads.
absl::Status Plan(const std::stop_token& ends, redlatch::FencingToken epoch) {
  std::mutex mu;
  std::condition_variable_any pause;
  std::unique_lock<std::mutex> lock(mu);
  while (!ends.stop_requested()) {
    absl::Status planned = PlanOneStep(epoch);
    if (!planned.ok()) return planned;  // resigns, and campaigns again after a pause
    pause.wait_for(lock, ends, std::chrono::seconds(5), [] { return false; });
  }
  return absl::OkStatus();
}

// Returns OK after `stop` has fired; by then, this process has resigned. Returns an error if the
// server cannot be reached at the start, or refuses the election.
absl::Status LeadUntil(const std::stop_token& stop, const std::string& url,
                       const std::string& address) {
  const absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect(url);
  if (!client.ok()) return client.status();
  redlatch::Election election(*client, "scheduler",
                              {.lease = absl::Seconds(10), .stop_margin = absl::Seconds(1)});
  return redlatch::RunElected(election, Plan, stop, address);
}
// [/lead]

std::promise<redlatch::FencingToken> first_step;
absl::Status PlanOneStep(redlatch::FencingToken epoch) {
  first_step.set_value(epoch);
  return absl::OkStatus();
}

TEST(LeaderRecipe, NextCandidateLeadsAtOnceAfterSigterm) {
  const std::stop_token stop = StopOnSigterm();
  std::future<absl::Status> first =
      std::async(std::launch::async, LeadUntil, stop, "embedded:", "10.0.0.1:7000");
  const redlatch::FencingToken epoch = first_step.get_future().get();
  const redlatch::Client client = Connected();
  redlatch::Election election(client, "scheduler");
  ASSERT_EQ((*election.Leader())->value, "10.0.0.1:7000");

  kill(getpid(), SIGTERM);
  // Without the handover, the lease would keep this candidate waiting for ten seconds.
  const absl::StatusOr<redlatch::Leadership> next =
      election.Campaign("10.0.0.2:7000", {.wait = absl::Seconds(5)});
  ExpectOk(next.status());
  EXPECT_GT(next->epoch(), epoch);
  ExpectOk(first.get());
}
