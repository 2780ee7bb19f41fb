// What `redlatch` says to words that are not a subcommand's own.
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "redlatch/version.h"
#include "tests/conformance/cli/look/fixture.h"
#include "tests/support/fake_server.h"

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

TEST_F(RedlatchCommandLineTest, DoesNotRepeatAPassword) {
  const std::string url = "redis://app:hunter2@127.0.0.1:1";
  for (const Words& words : {Words{url},
                             {"help", url},
                             {"ls", "--sever=" + url},
                             {"--server=" + url, "ls"},
                             {"doctor", url},
                             {"ls", "a", url},
                             {"run", "--wait", url, "x", "--", "true"},
                             {"run", "a", url},
                             {"run", "--kind", url, "x", "--", "true"},
                             {"capacity", "a", url},
                             {"ls", "--server", url},
                             {"inspect", url, "--server", "redis://127.0.0.1:1"},
                             {"ls", "--server", "unix:///nowhere?password=hunter2"},
                             {"ls", "--server", url + "?password=hunter2"}}) {
    const Outcome outcome = Redlatch(words);
    EXPECT_NE(outcome.code, 0);
    EXPECT_EQ((outcome.output + outcome.errors).find("hunter2"), std::string::npos)
        << outcome.output << outcome.errors;
  }
}

// A server may send any text, but no control characters reach the terminal.
TEST_F(RedlatchCommandLineTest, EscapesControlCharactersFromAServer) {
  const std::string nasty = "\x1b[2J\a\x9b\xc2\x9b" + std::string(900'000, 'x');
  const auto bulk = [](const std::string& text) {
    return absl::StrCat("$", text.size(), "\r\n", text, "\r\n");
  };
  for (const std::string liar : {"", "HELLO", "INFO", "EVAL", "CLUSTER", "SCAN"}) {
    const support::FakeServer server([&](const auto& asked) -> std::optional<std::string> {
      const std::string& verb = asked.command[0];
      if (!liar.empty() && verb != liar) return support::FakeServer::Polite(asked);
      if (verb == "HELLO") {
        return absl::StrCat("*4\r\n", bulk("role"), bulk(nasty), bulk("mode"), bulk(nasty));
      }
      if (verb == "INFO") {
        return bulk("redis_version:7.1" + nasty + "\r\nredis_mode:" + nasty +
                    "\r\nmaxmemory:1\r\nmaxmemory_policy:" + nasty + "\r\n");
      }
      return "-ERR " + nasty + "\r\n";
    });
    for (const Words& words : {Words{"ls"},
                               {"ls", "--json"},
                               {"inspect", "x"},
                               {"break", "x"},
                               {"doctor"},
                               {"run", "--wait", "0", "x", "--", "true"},
                               {"capacity", "x"}}) {
      Words all = words;
      all.insert(all.begin() + 1, {"--server", server.url()});
      const Outcome outcome = Redlatch(all);
      const std::string said = outcome.output + outcome.errors;
      EXPECT_LT(said.size(), 30'000U) << liar << " " << words[0];
      for (const std::string_view bad : {"\x1b", "\a", "\x9b"}) {
        EXPECT_EQ(said.find(bad), std::string::npos) << liar << " " << words[0];
      }
    }
  }
}

}  // namespace
}  // namespace redlatch
