// The facts about a healthy server, and helpers to examine findings.
#ifndef REDLATCH_TESTS_UNIT_CLI_DOCTOR_FIXTURE_H_
#define REDLATCH_TESTS_UNIT_CLI_DOCTOR_FIXTURE_H_

#include "src/cli/doctor/doctor.h"
#include "tests/support/testing.h"

namespace redlatch::cli {

using redis::Reply;
using Type = redis::Reply::Type;

inline Reply Text(const std::string& text) { return {.type = Type::kString, .text = text}; }
inline Reply Number(int64_t number) { return {.type = Type::kInteger, .integer = number}; }
inline Reply Error(const std::string& text) { return {.type = Type::kError, .text = text}; }
inline Reply Array(std::vector<Reply> elements) {
  return {.type = Type::kArray, .elements = std::move(elements)};
}

inline const Reply kInfo = Text(
    "redis_version:7.0.15\nredis_mode:standalone\nrole:master\nuptime_in_seconds:86400\n"
    "maxmemory:1000\nmaxmemory_policy:noeviction\nused_memory:100\ntotal_system_memory:100000\n"
    "aof_enabled:1\naof_last_write_status:ok\nconnected_slaves:1\nconnected_clients:10\n"
    "maxclients:10000\nslave0:ip=10.0.0.2,port=6379,state=online,offset=1,lag=1\n");
inline const Reply kConfig = [] {
  Reply config = Array({});
  for (const absl::string_view word : absl::StrSplit(
           "appendfsync;always;min-replicas-to-write;1;min-replicas-max-lag;10;"
           "client-output-buffer-limit;normal 0 0 0 pubsub 33554432 8388608 60;timeout;0;"
           "tcp-keepalive;300;busy-reply-threshold;5000;maxmemory-clients;0;"
           "notify-keyspace-events;;latency-monitor-threshold;100",
           ';')) {
    config.elements.push_back(Text(std::string(word)));
  }
  return config;
}();

inline std::vector<ClockReading> SteadyClock() {
  std::vector<ClockReading> readings;
  for (const int second : {100, 101}) {
    readings.push_back({.sent = absl::Seconds(second),
                        .received = absl::Seconds(second) + absl::Milliseconds(1),
                        .server = absl::FromUnixSeconds(1'700'000'000 + second),
                        .here = absl::FromUnixSeconds(1'700'000'000 + second)});
  }
  return readings;
}

inline Facts HealthyFacts(const Reply& info = kInfo, const Reply& config = kConfig) {
  Facts facts;
  facts.Flag("over_network", true).Flag("has_password", true).Set("user", "app");
  facts.Set("prefix", "").Set("now_ms", 1'700'000'000'000).Set("wanted_ms", 60'000);
  TakeInfo(info, facts);
  TakeConfig(config, facts);
  for (const char* const command : {"get", "zadd", "publish"}) {
    facts.Set(absl::StrCat(kProbe, command), "allowed");
  }
  facts.Flag("tried", true).lists["Trials"] = {Facts().Set("working", "simple, latch")};
  facts.Set("pair_ms", 1)
      .Set("pair", "80 µs")
      .Set("pair_worst", "1 ms")
      .Set("message_took", "200 µs");
  facts.Set("confirmed", 1).Set("confirmed_after", "1 ms");
  SetPings(std::vector<absl::Duration>(100, absl::Microseconds(100)), facts);
  SetClock(SteadyClock(), facts);
  TakeDelays("slow", Array({}), absl::Now(), facts);
  TakeDelays("stall", Array({}), absl::Now(), facts);
  TakeSubscribers(Text(""), facts);
  return facts;
}

// All findings of this check.
template <class Known>
std::vector<Finding> Of(const Known& facts, std::string_view check) {
  std::vector<Finding> of = Diagnose(facts);
  std::erase_if(of, [&](const Finding& finding) { return finding.check != check; });
  return of;
}

// The worst finding of this check.
inline Finding Worst(const Facts& facts, std::string_view check) {
  const std::vector<Finding> of = Of(facts, check);
  EXPECT_FALSE(of.empty()) << check;
  if (of.empty()) return {.check = "no such finding"};
  return *std::max_element(of.begin(), of.end(), [](const Finding& one, const Finding& other) {
    return one.level < other.level;
  });
}

}  // namespace redlatch::cli

#endif  // REDLATCH_TESTS_UNIT_CLI_DOCTOR_FIXTURE_H_
