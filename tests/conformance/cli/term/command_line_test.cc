// Tests the options that all commands share, the help pages, and wrong usage.

#include "redlatch/version.h"
#include "tests/conformance/cli/command_fixture.h"
#include "tests/support/fake_server.h"

namespace redlatch {
namespace {

using RedlatchCommandLineTest = RedlatchOutputTest;

TEST_F(RedlatchCommandLineTest, PrintsItsVersion) {
  for (const char* const word : {"--version", "-V", "version"}) {
    EXPECT_THAT(Redlatch({word}), Succeeds("redlatch " REDLATCH_VERSION_STRING "\n")) << word;
  }
}

TEST_F(RedlatchCommandLineTest, PrintsHelpOnRequestOrWithoutWords) {
  const std::string help = Printed(Redlatch({"--help"}));
  for (const std::string name :
       {"run", "elect", "leader", "ls", "top", "inspect", "break", "capacity", "doctor"}) {
    EXPECT_THAT(help, HasSubstr(absl::StrCat("\n  redlatch ", name, " ")));
    const Outcome of_command = Redlatch({name, "--help"});
    EXPECT_EQ(of_command.code, 0);
    EXPECT_THAT(of_command.output,
                AllOf(StartsWith("redlatch " + name), HasSubstr("Examples:\n  redlatch " + name),
                      HasSubstr("--server URL"), HasSubstr("Exit codes:")));
    EXPECT_EQ(Redlatch({"help", name}).output, of_command.output);
  }
  EXPECT_EQ(Redlatch({"-h"}).output, help);
  EXPECT_EQ(Redlatch({"help"}).output, help);
  EXPECT_THAT(Redlatch({}), Fails(125, help));
}

TEST_F(RedlatchCommandLineTest, ReportsErrorsInOneLine) {
  server_->Text({"RPUSH", "jobs", "1"});
  server_->Command({"ACL", "SETUSER", "viewer", "on", ">secret", "~*", "&*", "+@all", "-scan"});
  const std::string refuses =
      absl::StrCat("--server=redis://viewer:secret@127.0.0.1:", server_->port());
  const std::string unreachable = "--server=unix:///no/such/socket";
  const std::string set_it = "set the server with --server";
  const struct {
    std::string words;  // separated by spaces; '' is an empty word
    int code;
    std::string says;
  } cases[] = {
      {"isnpect", 125, "there is no command \"isnpect\"; did you mean inspect?"},
      {"status", 125, "there is no command \"status\" (redlatch --help lists them)"},
      {"help brake", 125, "did you mean break?"},
      {"--server=redis://h ls", 125, "--server=redis://h goes after the command"},
      {"ls --al", 125, "redlatch ls has no option --al; did you mean --all?"},
      {"ls --jso", 125, "did you mean --json? (see redlatch ls --help"},
      {"ls --all=yes", 125, "takes no value"},
      {"ls --server", 125, "give it a URL"},
      {"ls -x", 125, "redlatch ls has no option -x"},
      {"ls -n", 125, "--interval needs a value"},
      {"ls --color=red", 125, "say auto or always or never"},
      {"top a b", 125, "say one pattern, in quotes"},
      {"top --json " + unreachable, 121, set_it},
      {"break --json a", 125, "give it --yes, too"},
      {"completion", 125, "say redlatch completion bash, zsh or fish"},
      {"completion csh", 125, "\"csh\" is not a shell that redlatch knows"},
      {"ls a b", 125, "unexpected argument \"b\"; say one pattern, in quotes"},
      {"ls " + unreachable, 121, set_it},
      {"ls " + refuses, 123, "scan"},
      {"inspect", 125, "name is missing"},
      {"inspect ''", 125, "name is missing"},
      {"inspect a b", 125, "say one name"},
      {"inspect a}b", 125, "braces that are no hash tag"},
      {"inspect -a", 125, "put -- before a name that begins with -"},
      {"inspect jobs", 1, "is a list that does not belong to a lock"},
      {"inspect a " + unreachable, 121, set_it},
      {"break --yes", 125, "name is missing"},
      {"break a b", 125, "unexpected argument \"b\"; say one name"},
      {"break --yes job " + unreachable, 121, set_it},
      {"capacity", 125, "name is missing"},
      {"capacity slots many", 125, "\"many\" is not a number"},
      {"capacity slots 0", 125, "1 to 1000000000"},
      {"capacity slots 1 2", 125, "unexpected argument \"2\""},
      {"doctor x", 125, "unexpected argument \"x\"; redlatch doctor takes options only"},
      {"doctor --jsno", 125, "did you mean --json?"},
      {"doctor --server=redis://", 125, "redis://"},
      {"doctor " + unreachable, 121, "cannot connect to unix:///no/such/socket"},
      {"run", 125, "name is missing"},
      {"run job", 125, "command is missing"},
      {"run job --", 125, "command is missing"},
      {"run '' -- true", 125, "name is missing"},
      {"run -job -- true", 125, "as in redlatch run -- NAME -- CMD"},
      {"run -- true", 125, "name is missing"},
      {"run -- -job", 125, "name is missing"},
      {"run -- -job --", 125, "command is missing"},
      {"run -- a b -- true", 125, "name is missing"},
      {"run a b", 125, "unexpected argument \"b\"; put -- before the command"},
      {"run --waits 1 job -- true", 125, "has no option --waits; did you mean --wait?"},
      {"run --wait -- true", 125, "--wait needs a value"},
      {"run --wait soon job -- true", 125, "say 500ms, 10s"},
      {"run --wait -1 job -- true", 125, "is not a length of time"},
      {"run --wait nan job -- true", 125, "is not a length of time"},
      {"run --lease 1ms job -- true", 125, "100ms to 24h"},
      {"run --lease 3s --grace 2s job -- true", 125, "at most 1.5s"},
      {"run --shared --write job -- true", 125, "exclude each other"},
      {"run --shared=yes job -- true", 125, "takes no value"},
      {"run --permits 1 job -- true", 125, "--permits 1 --capacity 4"},
      {"run --permits 5 --capacity 4 job -- true", 125, "never be free"},
      {"run --permits 0 --capacity 4 job -- true", 125, "a whole number, 1 or more"},
      {"run --capacity 4 --shared job -- true", 125, "can only be one of them"},
      {"run --on-lost panic job -- true", 125, "say kill or warn"},
      {"run --busy-code 256 job -- true", 125, "0 to 255"},
      {"run --server http://x job -- true", 125, "known are redis://"},
      {"elect", 125, "the election's name is missing"},
      {"elect job", 125, "say redlatch elect NAME -- CMD ARGS"},
      {"elect --wait 1s job -- true", 125, "redlatch elect has no option --wait"},
      {"elect --lease 3s --grace 2s job -- true", 125, "at most 1.5s"},
      {"elect job --server=redlock:redis://a,redis://b,redis://c -- true", 125,
       "a quorum of servers holds no elections; name one server"},
      {"elect --stop-margin 16s job -- true", 125, "at most 15s"},
      {"elect job -- no-such-command", 127, "no-such-command: command not found"},
      {"leader", 125, "the election's name is missing"},
      {"leader a b", 125, "say one name: redlatch leader NAME"},
      {"leader a}b", 125, "braces that are no hash tag"},
      {"leader a " + unreachable, 121, set_it},
      {"leader a --watch " + unreachable, 121, set_it},
  };
  for (const auto& each : cases) {
    Words words = absl::StrSplit(each.words, ' ');
    std::replace(words.begin(), words.end(), std::string("''"), std::string());
    const Outcome outcome = Redlatch(words);
    EXPECT_EQ(outcome.code, each.code) << each.words;
    EXPECT_THAT(outcome.output, IsEmpty()) << each.words;
    EXPECT_THAT(outcome.errors, AllOf(StartsWith("redlatch: "), HasSubstr(each.says)));
    EXPECT_EQ(outcome.errors.find('\n'), outcome.errors.size() - 1) << outcome.errors;
  }
}

TEST_F(RedlatchCommandLineTest, LettersStandForOptions) {
  EXPECT_EQ(Redlatch({"ls", "-ja"}).code, 0);
  EXPECT_THAT(Redlatch({"ls", "-h"}).output, StartsWith("redlatch ls"));
  const std::string url = "redis://127.0.0.1:1";
  EXPECT_THAT(Redlatch({"ls", "-s", url}).errors, HasSubstr(url));
  EXPECT_THAT(Redlatch({"ls", "-s" + url}).errors, HasSubstr(url));
  EXPECT_EQ(Redlatch({"run", "-w0", "-l", "2s", "job", "--", "sh", "-c", "exit 7"}).code, 7);
}

TEST_F(RedlatchCommandLineTest, ColoursAreForTerminalsAndByRequest) {
  const Client client = NewClient();
  const auto lease = Must(SimpleLock(client, "job").Acquire());
  const std::string bold = "\x1b[1mLock \"job\": simple, held\x1b[0m\n";
  EXPECT_THAT(Redlatch({"inspect", "job"}).output, StartsWith("Lock \"job\""));
  EXPECT_THAT(Redlatch({"inspect", "job", "--color=always"}, {"NO_COLOR=1"}).output,
              StartsWith(bold));
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  EXPECT_THAT(OnTerminal("inspect job").output, StartsWith("\x1b[1mLock"));
  EXPECT_THAT(OnTerminal("inspect job --color=never").output, StartsWith("Lock"));
  EXPECT_THAT(OnTerminal("ls").output, StartsWith("\x1b[1mNAME"));
}

TEST_F(RedlatchCommandLineTest, GivesUpOnAHangingServer) {
  server_->Stop();
  const absl::Time begun = absl::Now();
  EXPECT_EQ(Redlatch({"ls"}).code, 121);
  EXPECT_EQ(Redlatch({"inspect", "job"}).code, 121);
  EXPECT_EQ(Redlatch({"doctor"}).code, 121);
  EXPECT_LT(absl::Now() - begun, absl::Seconds(40));
  server_->Continue();
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
    const std::string quorum = absl::StrCat("--server=redlock:", server.url(), ",", server_->url(),
                                            ",redis://127.0.0.1:1");
    for (const Words& words : {Words{"ls"},
                               {"ls", "--json"},
                               {"ls", "--names"},
                               {"top", "--once", "-n0.1"},
                               {"inspect", "x"},
                               {"inspect", "x", quorum},
                               {"break", "--yes", "x", quorum},
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
