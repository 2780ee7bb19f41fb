#ifndef REDLATCH_TESTS_SIM_REDIS_FAULTS_H_
#define REDLATCH_TESTS_SIM_REDIS_FAULTS_H_

#include <limits>
#include <string>
#include <vector>

namespace redlatch::sim {

// Conditions in which a server refuses commands. Each refuses what Redis refuses then, in scripts
// too.
struct Conditions {
  bool loading = false;        // LOADING
  bool busy = false;           // BUSY
  bool out_of_memory = false;  // OOM, for commands that may need memory; also `maxmemory 1`
  bool cannot_save = false;    // MISCONF, for writes
  bool few_replicas = false;   // NOREPLICAS, for writes
};

// What the user may not do; everything else is permitted. Commands in lower case, as in ACL rules.
struct Permissions {
  std::vector<std::string> denied_commands;
  std::vector<std::string> key_patterns = {"*"};
  std::vector<std::string> channel_patterns = {"*"};
};

// An error that is replied instead of executing a command.
struct Refusal {
  std::string error;                  // "READONLY You can't write against a read only replica."
  std::vector<std::string> commands;  // lower case; empty: all
  int times = std::numeric_limits<int>::max();
  bool in_scripts = false;  // the commands that scripts call, instead of those of clients
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_REDIS_FAULTS_H_
