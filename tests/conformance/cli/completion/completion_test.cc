// Tests the completion of words, in the shells that this machine has.
#include "tests/conformance/cli/command_fixture.h"

namespace redlatch {
namespace {

struct RedlatchCompletionTest : RedlatchOutputTest {
  // The first column of what redlatch offers.
  std::vector<std::string> Offers(const Words& words) const {
    const std::string outcome = Printed(Redlatch(Join({"--complete"}, words)));
    std::vector<std::string> offers;
    for (const absl::string_view line : absl::StrSplit(outcome, '\n', absl::SkipEmpty())) {
      offers.emplace_back(line.substr(0, line.find('\t')));
    }
    return offers;
  }
  // What a shell says, given this script. $0 is redlatch's folder.
  std::string Say(const Words& shell, const std::string& script) const {
    const std::string folder = std::filesystem::path(REDLATCH_COMMAND).parent_path();
    const auto child = support::Child::Exec(
        Join(shell, {"-c", script}),
        {.environment = {"REDLATCH_URL=" + server_->url(), "HOME=" + directory_.path(),
                         "PATH=" + folder + ":" + std::getenv("PATH")}});
    return OutputOf(*child);
  }
  static bool Has(const std::string& shell) {
    return support::Child::Exec({"sh", "-c", "command -v " + shell + " >/dev/null"})->Wait().code ==
           0;
  }

  const Client client_ = NewClient();
  SimpleLock lock_{client_, "orders:1"};
  const absl::StatusOr<Lease> lease_ = lock_.Acquire();
};

TEST_F(RedlatchCompletionTest, OffersCommandsOptionsValuesAndNames) {
  EXPECT_THAT(Offers({"in"}), ElementsAre("inspect"));
  EXPECT_THAT(Offers({""}), AllOf(Contains("run"), Contains("completion"), Contains("--help")));
  EXPECT_THAT(Offers({"run", "--la"}), IsEmpty());
  EXPECT_THAT(Offers({"run", "--le"}), ElementsAre("--lease"));
  EXPECT_THAT(Offers({"run", "--on-lost", ""}), ElementsAre("kill", "warn"));
  EXPECT_THAT(Offers({"top", "--sort=l"}), ElementsAre("--sort=longest"));
  EXPECT_THAT(Offers({"run", "--wait", ""}), IsEmpty());
  EXPECT_THAT(Offers({"inspect", "or"}), ElementsAre("orders:1"));
  EXPECT_THAT(Offers({"inspect", "--server", "redis://127.0.0.1:1", ""}), IsEmpty());
  EXPECT_THAT(Offers({"doctor", ""}), IsEmpty());
  EXPECT_THAT(Offers({"completion", ""}), ElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(Offers({"nothing", ""}), IsEmpty());
}

TEST_F(RedlatchCompletionTest, EveryOptionOfThePagesIsTaken) {
  for (const std::string& command : Offers({""})) {
    if (command.starts_with('-')) continue;
    for (const std::string& option : Offers({command, "--"})) {
      EXPECT_THAT(Redlatch({command, option, "--help", "--help"}).errors,
                  Not(HasSubstr("has no option")))
          << command;
    }
  }
}

TEST_F(RedlatchCompletionTest, Bash) {
  const auto complete = [&](const std::string& line) {
    return Say({"bash"}, "source <(redlatch completion bash); COMP_LINE='" + line +
                             "' COMP_POINT=${#COMP_LINE}; _redlatch redlatch; "
                             "echo \"${COMPREPLY[*]}\"");
  };
  EXPECT_EQ(complete("redlatch ins"), "inspect\n");
  EXPECT_EQ(complete("redlatch inspect "), "orders:1\n");
  EXPECT_EQ(complete("redlatch inspect orders:"), "1\n") << "bash keeps what is before a colon";
  EXPECT_EQ(complete("redlatch run --on-lost="), "kill warn\n");
  EXPECT_THAT(complete("redlatch run job -- ec"), HasSubstr("echo"));
  EXPECT_EQ(complete("redlatch run job -- echo in"), "\n");
}

TEST_F(RedlatchCompletionTest, Fish) {
  if (!Has("fish")) GTEST_SKIP() << "fish is not installed";
  const auto complete = [&](const std::string& line) {
    return Say({"fish"}, "redlatch completion fish | source; complete -C '" + line + "'");
  };
  EXPECT_THAT(complete("redlatch ins"), StartsWith("inspect\tshow who holds"));
  EXPECT_EQ(complete("redlatch inspect "), "orders:1\tsimple\n");
  EXPECT_THAT(complete("redlatch run job -- ech"), HasSubstr("echo"));
}

// The shell itself completes what is typed on a terminal, and runs the line.
TEST_F(RedlatchCompletionTest, ShellsCompleteTypedLines) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  const std::string folder = std::filesystem::path(REDLATCH_COMMAND).parent_path();
  const struct {
    std::string shell, start;
  } shells[] = {{"bash", "bash --norc --noprofile -i"}, {"zsh", "zsh -f -i"}};
  for (const auto& [shell, start] : shells) {
    if (!Has(shell)) {
      std::cout << shell << " is not installed: its completion is not tested\n";
      continue;
    }
    const auto terminal = StartOnTerminal("PATH=" + folder + ":$PATH TERM=dumb " + start, 200);
    if (shell == "zsh") terminal->pipe().WriteLine("autoload -U compinit; compinit -u -D");
    terminal->pipe().WriteLine("source <(redlatch completion " + shell + "); echo rea''dy");
    std::string line;
    while (line.find("ready") == std::string::npos) {
      const auto next = terminal->pipe().ReadLine();
      ASSERT_TRUE(next) << shell;
      line = *next;
    }
    terminal->pipe().WriteLine("redlatch insp\tord\t");
    terminal->pipe().WriteLine("exit");
    EXPECT_THAT(OutputOf(*terminal), HasSubstr("Lock \"orders:1\": simple, held")) << shell;
  }
}

}  // namespace
}  // namespace redlatch
