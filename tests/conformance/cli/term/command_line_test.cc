// What `redlatch` says to words that are not a subcommand's own.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "redlatch/version.h"
#include "tests/conformance/cli/look/fixture.h"

namespace redlatch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class RedlatchCommandLineTest : public RedlatchLookTest {
 protected:
  // In one line.
  void ExpectRefused(const Words& words, const std::string& says) const {
    const Outcome outcome = Redlatch(words);
    EXPECT_EQ(outcome.code, 125) << says;
    EXPECT_THAT(outcome.output, IsEmpty());
    EXPECT_THAT(outcome.errors, AllOf(StartsWith("redlatch: "), HasSubstr(says)));
    EXPECT_EQ(outcome.errors.find('\n'), outcome.errors.size() - 1) << outcome.errors;
  }
};

TEST_F(RedlatchCommandLineTest, TellsItsVersionHoweverItIsAsked) {
  for (const char* const word : {"--version", "-V", "version"}) {
    const Outcome outcome = Redlatch({word});
    EXPECT_EQ(outcome.code, 0) << word;
    EXPECT_EQ(outcome.output, "redlatch " REDLATCH_VERSION_STRING "\n") << word;
  }
}

TEST_F(RedlatchCommandLineTest, ListsItsCommandsWhenAskedAndWhenNothingIsAsked) {
  const Outcome help = Redlatch({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* const name : {"run", "ls", "inspect", "break", "capacity", "doctor", "bench"}) {
    EXPECT_THAT(help.output, HasSubstr(std::string("\n  redlatch ") + name + " "));
    EXPECT_THAT(Redlatch({"help", name}).output, StartsWith(std::string("redlatch ") + name));
  }
  EXPECT_EQ(Redlatch({"-h"}).output, help.output);
  EXPECT_EQ(Redlatch({"help"}).output, help.output);
  const Outcome nothing = Redlatch({});
  EXPECT_EQ(nothing.code, 125);
  EXPECT_EQ(nothing.errors, help.output);
}

TEST_F(RedlatchCommandLineTest, SuggestsWhatWillHaveBeenMeant) {
  ExpectRefused({"isnpect"}, "there is no command \"isnpect\"; did you mean inspect?");
  ExpectRefused({"help", "brake"}, "did you mean break?");
  ExpectRefused({"ls", "--al"}, "redlatch ls has no option --al; did you mean --all?");
  ExpectRefused({"run", "--wiat", "1s", "x", "--", "true"}, "did you mean --wait?");
  ExpectRefused({"status"}, "there is no command \"status\" (redlatch --help lists them)");
  ExpectRefused({"--server=redis://h", "ls"}, "--server=redis://h goes after the command");
}

TEST_F(RedlatchCommandLineTest, SaysWhatToDoAboutAWordTooMany) {
  ExpectRefused({"doctor", "x"}, "unexpected argument \"x\"; redlatch doctor takes options only");
  ExpectRefused({"bench", "x"}, "unexpected argument \"x\"; redlatch bench takes options only");
  ExpectRefused({"run", "a", "b"}, "unexpected argument \"b\"; put -- before the command");
  ExpectRefused({"ls", "a", "b"}, "unexpected argument \"b\"; say one pattern, in quotes");
  ExpectRefused({"break", "a", "b"}, "unexpected argument \"b\"; say one name");
}

}  // namespace
}  // namespace redlatch
