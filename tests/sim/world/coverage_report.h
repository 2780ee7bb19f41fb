#ifndef REDLATCH_TESTS_SIM_WORLD_COVERAGE_REPORT_H_
#define REDLATCH_TESTS_SIM_WORLD_COVERAGE_REPORT_H_

#include <string>

#include "tests/sim/world/world.h"

namespace redlatch::sim {

// Lists the kinds of faults and the lines of scripts that no run took. Each that is expected stands
// in the file, with its reason: "<file of lua/>: <text of the line> -- <reason>". Returns false if
// one is missing there, or if one stands there that was taken.
bool ReportCoverage(const FaultCounts& faults, const std::string& explained_in);

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_WORLD_COVERAGE_REPORT_H_
