// With REDLATCH_TAKEN_LINES=FILE, writes which lines of scripts the tests of this program took, for
// ./dev coverage.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/sim/redis/script_coverage.h"

namespace redlatch::sim {
namespace {

class TakenLines final : public ::testing::Environment {
 public:
  void SetUp() override {
    if (path_ != nullptr) ScriptCoverage::Begin();
  }
  void TearDown() override {
    if (path_ == nullptr) return;
    std::ofstream file(path_);
    for (const ScriptCoverage::Line& line : ScriptCoverage::Get()->Read().taken) {
      file << ScriptCoverage::Describe(line) << '\n';
    }
  }

 private:
  const char* const path_ = getenv("REDLATCH_TAKEN_LINES");
};

const ::testing::Environment* const kTakenLines =
    ::testing::AddGlobalTestEnvironment(new TakenLines);

}  // namespace
}  // namespace redlatch::sim
