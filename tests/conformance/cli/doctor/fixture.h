// What the tests of `redlatch doctor` have in common.
#ifndef REDLATCH_TESTS_CONFORMANCE_CLI_DOCTOR_FIXTURE_H_
#define REDLATCH_TESTS_CONFORMANCE_CLI_DOCTOR_FIXTURE_H_

#include <regex>

#include "tests/conformance/cli/command_fixture.h"

namespace redlatch {

class RedlatchDoctorFixture : public RedlatchCommandTest {
 protected:
  struct Look {
    int code = -1;
    std::string output;

    std::vector<std::string> Matches(const std::string& pattern, size_t group = 0) const {
      std::vector<std::string> found;
      const std::regex line(pattern);
      for (std::sregex_iterator at(output.begin(), output.end(), line);
           at != std::sregex_iterator(); ++at) {
        found.push_back(absl::StrReplaceAll((*at)[group].str(), {{"\\/", "/"}, {"\\\"", "\""}}));
      }
      return found;
    }
    // What was found under this name, as lines of JSON.
    std::vector<std::string> Of(const std::string& check) const {
      return Matches("\\{\"check\":\"" + check + "\".*\\}");
    }
    std::string Text(const std::string& check) const { return absl::StrJoin(Of(check), "\n"); }
    std::string Only(const std::string& check) const {
      const std::vector<std::string> all = Of(check);
      EXPECT_THAT(all, SizeIs(1)) << output;
      return all.empty() ? "" : all.front();
    }
    // Of all findings of this name.
    std::set<std::string> Levels(const std::string& check) const {
      const auto levels = Matches("\"check\":\"" + check + "\",\"level\":\"([a-z]+)\"", 1);
      return {levels.begin(), levels.end()};
    }
    // What is to be typed.
    std::vector<std::string> Commands() const {
      return Matches("\"((CONFIG SET|ACL SETUSER) ([^\"\\\\]|\\\\\")*)\"", 1);
    }
  };

  Look LookAt(const std::string& url, const Words& words = {}) const {
    const auto doctor = StartRedlatch(Join({"doctor", "--json"}, words), {"REDLATCH_URL=" + url});
    Look look;
    look.output = OutputOf(*doctor);
    look.code = CodeOf(*doctor);
    return look;
  }
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_CONFORMANCE_CLI_DOCTOR_FIXTURE_H_
