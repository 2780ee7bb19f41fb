// What replies of Redis say, as facts.
#ifndef REDLATCH_SRC_CLI_DOCTOR_ANSWERS_H_
#define REDLATCH_SRC_CLI_DOCTOR_ANSWERS_H_

#include <vector>

#include "absl/time/time.h"
#include "src/cli/doctor/facts.h"
#include "src/redis/wire/reply.h"

namespace redlatch::cli {

// An error reply is an error here, kPermissionDenied where that is why.
Told<Fields> InfoAnswer(const redis::Reply& reply);
Told<Fields> ConfigAnswer(const redis::Reply& reply);
// Of names and values in turn, as CONFIG GET and SENTINEL MASTER answer.
Told<Fields> PairsAnswer(const redis::Reply& reply);
Told<std::vector<Delay>> SlowLogAnswer(const redis::Reply& reply, absl::Time now);
Told<std::vector<Delay>> LatencyAnswer(const redis::Reply& reply, absl::Time now);
Told<std::vector<PubSubBacklog>> ClientListAnswer(const redis::Reply& reply);
Told<absl::Time> TimeAnswer(const redis::Reply& reply);
// "<id> <until, in ms> <length, in ms>"; kNotFound if there is nothing.
Told<Holdback> HoldbackAnswer(const redis::Reply& reply);

// From INFO's "slave0:ip=...,port=...,state=online,offset=1,lag=0".
std::vector<Replica> ReplicasIn(const Fields& info);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_ANSWERS_H_
