// Every command that locks need, in a form that changes nothing.
#ifndef REDLATCH_SRC_CLI_DOCTOR_PROBES_H_
#define REDLATCH_SRC_CLI_DOCTOR_PROBES_H_

#include <string>
#include <string_view>
#include <vector>

#include "src/cli/doctor/facts.h"
#include "src/redis/wire/reply.h"

namespace redlatch::cli {

struct ProbeWords {
  std::string command;  // as an ACL rule has it
  std::vector<std::string> words;
  bool makes_key = false;  // with a TTL
  bool needs_key = false;  // would make one without a TTL where there is none
  bool optional = false;   // as CommandProbe has it
};

// Those that make `key` first, then all others in this order, leave nothing: `key` is a string that
// vanishes after some seconds. What would make one of another type finds this, or is given what the
// server refuses, but only after it has looked whether the user may. DEL deletes it. One of them
// looks for the other keys of the lock `key`. At a node of a cluster that has not the key's slot
// each is refused, but only after the same look.
std::vector<ProbeWords> ProbesOf(const std::string& key, const std::string& channel,
                                 bool in_cluster = false);

CommandProbe::Outcome ProbeOutcome(const redis::Reply& reply);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_PROBES_H_
