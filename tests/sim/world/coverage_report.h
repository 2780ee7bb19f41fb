#ifndef REDLATCH_TESTS_SIM_WORLD_COVERAGE_REPORT_H_
#define REDLATCH_TESTS_SIM_WORLD_COVERAGE_REPORT_H_

#include <string>

#include "tests/sim/world/world.h"

namespace redlatch::sim {

// Lists the kinds of faults and the lines of scripts that no run took. Each that is expected stands
// in the file `explained_in`, with its reason: "<file of lua/>: <text of the line> -- <reason>".
// Lines that the tests of scripts took stand in `taken_in`, if there is such a file. Returns false
// if a line stands in neither, or is explained although it was taken.
bool ReportCoverage(const FaultCounts& faults, const std::string& explained_in,
                    const std::string& taken_in);

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_WORLD_COVERAGE_REPORT_H_
