// The pieces of 12-leaders-and-jobs.md, and a program that runs them.
#include "docs/code/expect.h"

// [who]
#include <cinttypes>
#include <cstdio>
#include <optional>

#include "redlatch/election.h"

void PrintLeader(const redlatch::Election& election) {
  const absl::StatusOr<std::optional<redlatch::Leader>> leader = election.Leader();
  if (!leader.ok()) return;  // kUnavailable: the server did not answer
  if (!*leader) return (void)std::puts("no leader");
  std::printf("%s leads in epoch %" PRIu64 "\n", (*leader)->value.c_str(),
              (*leader)->epoch.value());
}
// [/who]

std::string NextEntry();
void SendReport();
void RebuildPart(int part);

// [master]
#include <functional>
#include <mutex>
#include <string>

#include "redlatch/election.h"

struct Store {  // stands for the store to which all masters write
  absl::Status Write(redlatch::FencingToken epoch, const std::string& entry) {
    const std::lock_guard<std::mutex> lock(mu);
    if (epoch < newest) return absl::AbortedError("a newer master writes");
    newest = epoch;
    content = entry;
    return absl::OkStatus();
  }
  std::mutex mu;
  redlatch::FencingToken newest;
  std::string content;
};

absl::Status BeMaster(redlatch::Election& masters, const std::string& address, Store& store,
                      const std::stop_token& stop) {
  const auto serve = [&](const std::stop_token& ends, redlatch::FencingToken epoch) {
    absl::Status written;
    while (written.ok() && !ends.stop_requested()) written = store.Write(epoch, NextEntry());
    return written;
  };
  return redlatch::RunElected(masters, serve, stop, address);
}

absl::StatusOr<redlatch::Observation> FollowMaster(
    const redlatch::Election& masters, const std::function<void(std::string)>& connect_to) {
  return masters.Observe([connect_to](const std::optional<redlatch::Leader>& master) {
    if (master) connect_to(master->value);
  });
}
// [/master]

#include <atomic>
#include <condition_variable>
#include <thread>

std::string NextEntry() {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the master's own work
  return "entry";
}

// The addresses that a client of the master has connected to.
class Connections {
 public:
  void Add(const std::string& address) {
    const std::lock_guard<std::mutex> lock(mu_);
    last_ = address;
    changed_.notify_all();
  }
  bool Await(const std::string& address) {
    std::unique_lock<std::mutex> lock(mu_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return last_ == address; });
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::string last_;
};

// Two masters, one after the other, and a client that follows them.
void TestMasters() {
  const redlatch::Client first = Connected();
  const redlatch::Client second = Connected();
  const redlatch::Client third = Connected();
  redlatch::Election election(first, "master");
  redlatch::Election elections_too(second, "master");
  const redlatch::Election watched(third, "master");
  Store store;
  Connections connections;
  const auto follows =
      FollowMaster(watched, [&](const std::string& address) { connections.Add(address); });
  ExpectOk(follows.status());

  absl::Status ended_first, ended_second;
  std::jthread one([&](const std::stop_token& stop) {
    ended_first = BeMaster(election, "10.0.0.1:7000", store, stop);
  });
  Expect(connections.Await("10.0.0.1:7000"));
  PrintLeader(watched);
  const redlatch::FencingToken early = (*watched.Leader())->epoch;
  std::jthread two([&](const std::stop_token& stop) {
    ended_second = BeMaster(elections_too, "10.0.0.2:7000", store, stop);
  });
  one.request_stop();
  Expect(connections.Await("10.0.0.2:7000"));
  one.join();
  const redlatch::FencingToken late = (*watched.Leader())->epoch;
  Expect(early < late);
  ExpectOk(store.Write(late, "by the new master"));
  Expect(absl::IsAborted(store.Write(early, "by the old master")));
  two.request_stop();
  two.join();
  ExpectOk(ended_first);
  ExpectOk(ended_second);
  PrintLeader(watched);
}

// [period]
#include "redlatch/simple_lock.h"
#include "redlatch/status.h"

// Every machine calls this once per hour. One of them sends the report.
absl::Status SendHourlyReport(const redlatch::Client& client) {
  redlatch::SimpleLock lock(client, "hourly-report");
  absl::StatusOr<redlatch::Lease> lease =
      lock.Acquire({.wait = absl::ZeroDuration(), .at_least = absl::Minutes(55)});
  if (redlatch::IsBusy(lease.status())) return absl::OkStatus();
  if (!lease.ok()) return lease.status();
  SendReport();
  return lease->Release();  // the name stays taken for the rest of the 55 minutes
}
// [/period]

// [gives_way]
#include "redlatch/simple_lock.h"

// Rebuilds an index part by part, and lets others have it in between.
absl::Status RebuildIndex(const redlatch::Client& client, int parts) {
  redlatch::SimpleLock index(client, "index", {.tell_if_wanted = true});
  for (int part = 0; part < parts;) {
    absl::StatusOr<redlatch::Lease> lease = index.Acquire();
    if (!lease.ok()) return lease.status();
    while (part < parts && !lease->wanted().stop_requested() && lease->valid()) {
      RebuildPart(part++);
    }
    absl::Status released = lease->Release();
    if (!released.ok()) return released;
  }
  return absl::OkStatus();
}
// [/gives_way]

// Output: 10.0.0.1:7000 leads in epoch [0-9]+
// Output: no leader
int reports = 0;
void SendReport() { ++reports; }

void TestHourlyReport() {
  const redlatch::Client client = Connected();
  const redlatch::Client other = Connected();
  for (const redlatch::Client* const each : {&client, &other, &client}) {
    ExpectOk(SendHourlyReport(*each));
  }
  Expect(reports == 1);
}

// Another client wants the index from part 2 on.
std::function<void()> on_part_2;
std::atomic<int> parts_rebuilt = 0;
void RebuildPart(int part) {
  ++parts_rebuilt;
  if (part == 2) on_part_2();
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void TestRebuild() {
  const redlatch::Client client = Connected();
  const redlatch::Client other = Connected();
  redlatch::SimpleLock index(other, "index");
  absl::Status got;
  std::jthread reader;
  int rebuilt_before = 0;
  on_part_2 = [&] {
    reader = std::jthread([&] {
      const absl::StatusOr<redlatch::Lease> lease = index.Acquire();
      got = lease.status();
      rebuilt_before = parts_rebuilt;
    });
  };
  ExpectOk(RebuildIndex(client, 2000));
  reader.join();
  ExpectOk(got);
  Expect(parts_rebuilt == 2000);
  Expect(rebuilt_before < 2000);
}

int main() {
  TestMasters();
  TestHourlyReport();
  TestRebuild();
}
