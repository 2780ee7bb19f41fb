// The facts about a healthy server, and helpers to examine findings.
#ifndef REDLATCH_TESTS_UNIT_CLI_DOCTOR_FIXTURE_H_
#define REDLATCH_TESTS_UNIT_CLI_DOCTOR_FIXTURE_H_

#include "src/cli/doctor/doctor.h"
#include "tests/support/testing.h"

namespace redlatch::cli {

inline DoctorFacts HealthyFacts() {
  DoctorFacts facts;
  facts.server = "redis://redis.example:6379";
  facts.over_network = true;
  facts.has_password = true;
  facts.quarantine = absl::Minutes(1);
  facts.user = "app";
  facts.info = Fields{{"redis_version", "7.0.15"}, {"redis_mode", "standalone"},
                      {"role", "master"},          {"uptime_in_seconds", "86400"},
                      {"maxmemory", "1000"},       {"maxmemory_policy", "noeviction"},
                      {"used_memory", "100"},      {"total_system_memory", "100000"},
                      {"aof_enabled", "1"},        {"aof_last_write_status", "ok"},
                      {"connected_slaves", "1"},   {"connected_clients", "10"},
                      {"maxclients", "10000"}};
  facts.config = Fields{{"appendfsync", "always"},
                        {"min-replicas-to-write", "1"},
                        {"min-replicas-max-lag", "10"},
                        {"client-output-buffer-limit", "normal 0 0 0 pubsub 33554432 8388608 60"},
                        {"timeout", "0"},
                        {"tcp-keepalive", "300"},
                        {"busy-reply-threshold", "5000"},
                        {"maxmemory-clients", "0"},
                        {"notify-keyspace-events", ""},
                        {"latency-monitor-threshold", "100"}};
  facts.probes = {{.command = "get"}, {.command = "zadd"}, {.command = "publish"}};
  facts.trials = {{.kind = "simple", .outcome = absl::OkStatus()},
                  {.kind = "latch", .outcome = absl::OkStatus()}};
  facts.slowest_pair = absl::Milliseconds(1);
  facts.message = absl::Microseconds(200);
  facts.pings = std::vector<absl::Duration>(100, absl::Microseconds(100));
  for (const int second : {100, 101}) {
    facts.clock.push_back({.sent = absl::Seconds(second),
                           .received = absl::Seconds(second) + absl::Milliseconds(1),
                           .server = absl::FromUnixSeconds(1'700'000'000 + second),
                           .here = absl::FromUnixSeconds(1'700'000'000 + second)});
  }
  facts.slow_commands = std::vector<Delay>();
  facts.latency_spikes = std::vector<Delay>();
  facts.replicas = {{.address = "10.0.0.2:6379", .state = "online", .lag = absl::Seconds(1)}};
  facts.confirmation = Confirmation{.replicas = 1, .took = absl::Milliseconds(1)};
  facts.pubsub_backlogs = std::vector<PubSubBacklog>();
  return facts;
}

// All findings of this check.
template <class Facts>
std::vector<Finding> Of(const Facts& facts, std::string_view check) {
  std::vector<Finding> of = Diagnose(facts);
  std::erase_if(of, [&](const Finding& finding) { return finding.check != check; });
  return of;
}

// The worst finding of this check.
inline Finding Worst(const DoctorFacts& facts, std::string_view check) {
  const std::vector<Finding> of = Of(facts, check);
  EXPECT_FALSE(of.empty()) << check;
  if (of.empty()) return {.check = "no such finding"};
  return *std::max_element(of.begin(), of.end(), [](const Finding& one, const Finding& other) {
    return one.level < other.level;
  });
}

inline bool Mentions(const DoctorFacts& facts, std::string_view check) {
  return !Of(facts, check).empty();
}

inline DoctorFacts With(std::string_view info_field, const std::string& value) {
  DoctorFacts facts = HealthyFacts();
  (*facts.info)[std::string(info_field)] = value;
  return facts;
}

}  // namespace redlatch::cli

#endif  // REDLATCH_TESTS_UNIT_CLI_DOCTOR_FIXTURE_H_
