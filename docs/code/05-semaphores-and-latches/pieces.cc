// The pieces of 05-semaphores-and-latches.md, and a program that runs them.
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "docs/code/expect.h"

// [transcode]
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/semaphore.h"

absl::Status Transcode(const std::string& video, std::stop_token stop);

absl::Status TranscodeInTurn(const redlatch::Client& client, const std::string& video) {
  redlatch::Semaphore slots(client, "transcoders", 8);
  absl::StatusOr<redlatch::Permit> slot = slots.Acquire(1, {.wait = absl::Minutes(5)});
  if (!slot.ok()) return slot.status();  // kDeadlineExceeded: none was free for 5 minutes
  return Transcode(video, slot->lost());
}  // the permit goes back here
// [/transcode]

// [index]
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "redlatch/semaphore.h"

absl::Status BuildIndex(redlatch::Semaphore& memory, int64_t gigabytes) {
  absl::StatusOr<redlatch::Permit> share = memory.Acquire(gigabytes);
  if (!share.ok()) return share.status();  // kFailedPrecondition: there is not so much in all
  // ... build it in that much
  return share->Release();  // kAborted: it was lost meanwhile
}
// [/index]

// [resize]
#include <cstdint>

#include "absl/status/status.h"
#include "redlatch/semaphore.h"

absl::Status Resize(redlatch::Semaphore& slots, int64_t capacity) {
  return slots.SetCapacity(capacity);
}
// [/resize]

// [import]
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"

constexpr int kParts = 12;

void Import(int part);

// On any host, in any order.
void ImportPart(const redlatch::Client& client, const std::string& day, int part) {
  redlatch::CountDownLatch imported(client, "import:" + day, kParts);
  Import(part);
  imported.count_down();
}

absl::Status WhenImported(const redlatch::Client& client, const std::string& day) {
  redlatch::CountDownLatch imported(client, "import:" + day, kParts);
  return imported.Wait({.wait = absl::Hours(2)});  // kDeadlineExceeded: some are missing
}
// [/import]

// [race]
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"

void Measure();

// All `racers` are ready before the first starts, and all have arrived before the first leaves.
void Race(const redlatch::Client& client, int racers) {
  redlatch::CountDownLatch ready(client, "race:7:ready", racers);
  redlatch::CountDownLatch arrived(client, "race:7:arrived", racers);
  ready.arrive_and_wait();
  Measure();
  arrived.arrive_and_wait();
}
// [/race]

// [finish]
#include <string>

#include "absl/status/status.h"
#include "redlatch/count_down_latch.h"

absl::Status Finish(redlatch::CountDownLatch& imported, const std::string& job) {
  return imported.CountDown(1, job);  // once for each job, from wherever it is called
}
// [/finish]

// [nightly]
#include "absl/time/time.h"
#include "redlatch/count_down_latch.h"

void WaitForTheNightly(const redlatch::Client& client) {
  redlatch::CountDownLatch nightly(client, "nightly:2026-11-20", 3, {.ttl = absl::Hours(72)});
  nightly.wait();
}
// [/nightly]

namespace {

std::atomic<int> imported_parts{0};
std::atomic<int> measured{0};

}  // namespace

absl::Status Transcode(const std::string& video, std::stop_token stop) {
  const std::stop_token lost = std::move(stop);
  Expect(video == "cat.mp4" && !lost.stop_requested());
  return absl::OkStatus();
}

void Import(int) { ++imported_parts; }

void Measure() { ++measured; }

int main() {
  const redlatch::Client client = Connected();
  ExpectOk(TranscodeInTurn(client, "cat.mp4"));

  redlatch::Semaphore memory(client, "memory", 16);
  ExpectOk(BuildIndex(memory, 12));
  Expect(absl::IsFailedPrecondition(BuildIndex(memory, 17)));
  ExpectOk(Resize(memory, 32));
  ExpectOk(BuildIndex(memory, 17));

  std::vector<std::thread> threads;
  for (int part = 0; part < kParts; ++part) {
    threads.emplace_back([&, part] { ImportPart(client, "monday", part); });
  }
  ExpectOk(WhenImported(client, "monday"));
  Expect(imported_parts == kParts);

  for (int racer = 0; racer < 3; ++racer) {
    threads.emplace_back([&] {
      Race(client, 3);
      Expect(measured == 3);
    });
  }

  redlatch::CountDownLatch jobs(client, "jobs", 2);
  ExpectOk(Finish(jobs, "a"));
  ExpectOk(Finish(jobs, "a"));
  Expect(*jobs.Count() == 1);

  redlatch::CountDownLatch nightly(client, "nightly:2026-11-20", 3);
  nightly.count_down(3);
  WaitForTheNightly(client);
  for (std::thread& thread : threads) thread.join();
}
