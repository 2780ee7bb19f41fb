#ifndef REDLATCH_TESTS_SIM_REDIS_SCRIPT_COVERAGE_H_
#define REDLATCH_TESTS_SIM_REDIS_SCRIPT_COVERAGE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

struct lua_State;

namespace redlatch::sim {

// Records which lines of which scripts have run, in this process and in its children. The notes are
// in memory that they share.
class ScriptCoverage {
 public:
  // Engines that are made from now on record their lines.
  static void Begin();
  static ScriptCoverage* Get() { return instance_; }

  void Know(const std::string& sha1, std::string_view body);
  // Records the lines of this script from now on.
  void Enter(const std::string& sha1) { current_ = known_.find(sha1)->second; }
  void Watch(lua_State* lua);
  void Note(int line) { current_->lines[line < kLines ? line : 0] = true; }

  // A line of a file of lua/.
  using Line = std::pair<std::string, int>;
  // The lines that contain code, and those of them that have run in any script that includes them.
  struct Result {
    std::set<Line> all;
    std::set<Line> taken;
  };
  Result Read() const;
  // Its file and its text, and which of the lines with that text it is unless it is the first.
  static std::string Describe(const Line& line);

 private:
  static constexpr int kScripts = 256;
  static constexpr int kLines = 4096;
  struct Script {
    char sha1[41];
    uint32_t begin, size;  // of its text
    bool lines[kLines];
  };
  struct Shared;

  static ScriptCoverage* instance_;

  Shared* shared_ = nullptr;
  Script* current_ = nullptr;
  std::map<std::string, Script*, std::less<>> known_;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_REDIS_SCRIPT_COVERAGE_H_
