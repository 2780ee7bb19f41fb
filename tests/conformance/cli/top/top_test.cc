// Tests `redlatch top`, and `redlatch ls --watch`.
#include "tests/conformance/cli/command_fixture.h"

namespace redlatch {
namespace {

struct RedlatchTopTest : RedlatchOutputTest {
  // The last page that was drawn, as lines without control sequences.
  static std::vector<std::string> LastPage(const std::string& output) {
    const std::string page = output.substr(output.rfind("\x1b[H", output.rfind("RATE")));
    const std::string plain = std::regex_replace(page, std::regex("\x1b\\[[0-9;?]*[A-Za-z]"), "");
    return absl::StrSplit(plain, absl::ByAnyChar("\r\n"), absl::SkipEmpty());
  }
  // Takes the lock again and again, for a moment each time.
  static std::jthread Use(const Client& client, const char* name) {
    return std::jthread([client, name](const std::stop_token& stop) {
      SimpleLock lock(client, name);
      while (!stop.stop_requested()) {
        const auto hold = lock.Acquire();
        absl::SleepFor(absl::Milliseconds(50));  // the work
      }
    });
  }
  // Presses q until the program has ended. Returns the exit code.
  static int Quit(support::Child& top) {
    return support::Await([&] {
      top.pipe().Write("q");
      return top.WaitFor(absl::Milliseconds(200)).has_value();
    })
               ? CodeOf(top)
               : -1;
  }
  // Waits for a line with that text.
  static bool ReadTo(support::Child& top, const std::string& text, std::string* output = nullptr) {
    while (const std::optional<std::string> line = top.pipe().ReadLine()) {
      if (output != nullptr) absl::StrAppend(output, *line, "\n");
      if (line->find(text) != std::string::npos) return true;
    }
    return false;
  }

  const Client client_ = NewClient({.program = "billing"});
  const Client other_ = NewClient({.program = "other"});
};

TEST_F(RedlatchTopTest, NeedsATerminal) {
  EXPECT_THAT(Redlatch({"top"}), Fails(125, HasSubstr("needs a terminal; use --once or --json")));
}

TEST_F(RedlatchTopTest, SampleHasRatesWaitsAndHolders) {
  const auto lease = Must(SimpleLock(client_, "idle").Acquire());
  const Client third = NewClient();  // so that one waits at every moment
  const std::jthread users[] = {Use(client_, "hot"), Use(other_, "hot"), Use(third, "hot")};
  EXPECT_TRUE(AwaitQueued("redlatch:2:{hot}:simple.queue"));
  const Outcome json = Redlatch({"top", "--json", "--interval", "2s"});
  const Outcome text = Redlatch({"top", "--once", "-n2", "-c", "1", "--sort", "rate"});
  EXPECT_EQ(Json(json.output,
                 "([r['name'] for r in rows], names['hot']['waiting'] > 0, "
                 "0 <= names['hot']['longest_wait_ms'] < 60000, "
                 "1 < names['hot']['handovers_per_s'] < 100, names['idle']['handovers_per_s'])"),
            "(['hot', 'idle'], True, True, True, 0.0)")
      << json.output;
  EXPECT_THAT(text.output, ContainsRegex("^NAME +STATE +LONGEST +RATE +WAITING +HELD BY\n"
                                         "hot +held +[0-9.]+s +[0-9.]+/s +[12] +.*\n$"));
}

TEST_F(RedlatchTopTest, FitsTheTerminal) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  SimpleLock lock(client_,
                  "a-name-that-is-longer-than-all-that-there-is-room-for-in-a-line\x1b[5m");
  const auto lease = Must(lock.Acquire());
  for (const int columns : {48, 80, 140}) {
    const auto top =
        StartOnTerminal(absl::StrCat(REDLATCH_COMMAND, " top"), static_cast<uint16_t>(columns));
    std::string output;
    ASSERT_TRUE(ReadTo(*top, "q quit", &output)) << output;
    EXPECT_EQ(Quit(*top), 0);
    const std::vector<std::string> page = LastPage(output);
    ASSERT_GE(page.size(), 4) << output;
    EXPECT_THAT(page[0], HasSubstr("1 held, 0 waited for, of 1"));
    EXPECT_THAT(page[1], AllOf(StartsWith("NAME "), HasSubstr("WAITING"), HasSubstr("HELD BY")));
    EXPECT_EQ(page[1].find("LONGEST") != std::string::npos, columns > 48) << page[1];
    EXPECT_THAT(page[2], StartsWith("a-name-that-"));
    for (const std::string& line : page)
      EXPECT_LE(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }),
                columns)
          << line;
    EXPECT_EQ(output.find("\x1b[5m"), std::string::npos);
  }
}

TEST_F(RedlatchTopTest, RestoresTheTerminalWhenASignalEndsIt) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const auto top =
        StartOnTerminal(absl::StrCat("trap '' HUP INT; sh -c 'trap - HUP INT; echo pid $$; exec ",
                                     REDLATCH_COMMAND, " top'; echo code $?; stty -a; echo end"));
    std::string output;
    ASSERT_TRUE(ReadTo(*top, "q quit", &output));
    const pid_t pid = std::atoi(output.substr(output.find("pid ") + 4).c_str());
    ASSERT_GT(pid, 1);
    ASSERT_EQ(kill(pid, signal), 0);
    output.clear();
    ASSERT_TRUE(ReadTo(*top, "end", &output)) << output;
    EXPECT_THAT(output, AllOf(HasSubstr("\x1b[?25h\x1b[?1049l"), HasSubstr(" icanon"),
                              HasSubstr(" echo "), HasSubstr(absl::StrCat("code ", 128 + signal))));
  }
}

TEST_F(RedlatchTopTest, BreaksTheSelectedLockIfTheUserConfirms) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  const auto kept = Must(SimpleLock(client_, "a").Acquire());
  const auto broken = Must(SimpleLock(client_, "b").Acquire());
  for (const bool yes : {false, true}) {
    const auto top = StartOnTerminal(absl::StrCat(REDLATCH_COMMAND, " top --sort name"));
    ASSERT_TRUE(ReadTo(*top, "q quit"));
    top->pipe().Write("j");
    ASSERT_TRUE(ReadTo(*top, "\x1b[7mb "));
    top->pipe().Write("b");
    ASSERT_TRUE(ReadTo(*top, "the lock \"b\" is held by:"));
    ASSERT_TRUE(ReadTo(*top, "press y to break it"));
    top->pipe().Write(yes ? "y" : "n");
    ASSERT_TRUE(ReadTo(*top, yes ? "Broken. It is free now." : "Nothing was done."));
    EXPECT_EQ(Quit(*top), 0);
    EXPECT_EQ(server_->Integer({"EXISTS", "b"}), yes ? 0 : 1);
  }
  EXPECT_EQ(server_->Integer({"EXISTS", "a"}), 1);
}

TEST_F(RedlatchTopTest, AsksBeforeEachBreak) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  const auto lease = Must(SimpleLock(client_, "a").Acquire());
  const auto top = StartOnTerminal(
      absl::StrCat("sh -c 'echo pid $$; exec ", REDLATCH_COMMAND, " top'; echo end"));
  std::string output;
  ASSERT_TRUE(ReadTo(*top, "q quit", &output));
  const pid_t pid = std::atoi(output.substr(output.find("pid ") + 4).c_str());
  ASSERT_GT(pid, 1);
  for (const char* const answer : {"n", "\n", "Y"}) {
    top->pipe().Write("by");  // the second key comes before the question
    ASSERT_TRUE(ReadTo(*top, "press y to break it"));
    ASSERT_TRUE(support::Await(  // it waits for the answer
        [&] { return absl::StrContains(TextOf(absl::StrCat("/proc/", pid, "/stat")), ") S "); }));
    ASSERT_EQ(kill(pid, SIGWINCH), 0);  // as if the terminal was resized
    top->pipe().Write(answer);
    ASSERT_TRUE(ReadTo(*top, *answer == 'Y' ? "Broken." : "Nothing was done."));
    EXPECT_EQ(server_->Integer({"EXISTS", "a"}), *answer == 'Y' ? 0 : 1);
    ASSERT_TRUE(ReadTo(*top, "press any key"));
    top->pipe().Write(" ");
    ASSERT_TRUE(ReadTo(*top, "q quit"));
  }
  top->pipe().Write("q");
  EXPECT_TRUE(ReadTo(*top, "end"));
}

TEST_F(RedlatchTopTest, NoKeyIsLostIfSeveralAreTypedAtOnce) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  std::vector<Lease> leases;
  for (int i = 0; i < 60; ++i) {
    leases.push_back(Must(SimpleLock(client_, absl::StrCat("job", i / 10, i % 10)).Acquire()));
  }
  const auto top = StartOnTerminal(absl::StrCat(REDLATCH_COMMAND, " top --sort name"));
  ASSERT_TRUE(ReadTo(*top, "q quit"));
  top->pipe().Write("jjjjjjjjjjjjjjjjjjj\x1b[B\x1bOBk\x1b[6~\x1b[6~\x1b[6~\x1b[6~\x1b[6~b");
  EXPECT_TRUE(ReadTo(*top, "the lock \"job59\" is held by:"));  // the last one
  ASSERT_TRUE(ReadTo(*top, "press y to break it"));
  top->pipe().Write("n");
  ASSERT_TRUE(ReadTo(*top, "press any key"));
  top->pipe().Write(" ");
  ASSERT_TRUE(ReadTo(*top, "q quit"));
  top->pipe().Write("\x1b[5~\x1b[5~\x1b[5~\x1b[5~\x1b[5~\x1b[Ajjjjjjjjjjjjjjjjjjj\x1b[Bkb");
  EXPECT_TRUE(ReadTo(*top, "the lock \"job19\" is held by:"));
  ASSERT_TRUE(ReadTo(*top, "press y to break it"));
  EXPECT_EQ(Quit(*top), 0);
}

TEST_F(RedlatchTopTest, SortsByTheRateOfAnyLock) {
  std::vector<Lease> leases;
  for (int i = 0; i < 30; ++i) {
    leases.push_back(Must(SimpleLock(client_, absl::StrCat("idle", i)).Acquire()));
  }
  // No client waits for it, so it is the last one in any other order.
  const std::jthread user = Use(other_, "name-that-comes-last");
  EXPECT_TRUE(support::Await([&] {
    return server_->Integer({"EXISTS", "name-that-comes-last"}) == 1;
  }));
  const Outcome json = Redlatch({"top", "--json", "--interval", "2s", "--sort", "rate"});
  EXPECT_EQ(Json(json.output, "(rows[0]['name'], rows[0]['handovers_per_s'] > 1)"),
            "('name-that-comes-last', True)")
      << json.output;
}

TEST_F(RedlatchTopTest, GoesOnWhenTheServerIsBack) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  const auto lease = Must(SimpleLock(client_, "before").Acquire());
  const auto top = StartOnTerminal(absl::StrCat(REDLATCH_COMMAND, " top --interval 100ms"));
  ASSERT_TRUE(ReadTo(*top, "before"));
  server_->Kill();
  ASSERT_TRUE(ReadTo(*top, "not updated: "));
  server_->Restart();
  ASSERT_TRUE(ReadTo(*top, "sorted by waiting"));
  EXPECT_EQ(Quit(*top), 0);
}

TEST_F(RedlatchTopTest, WatchedListSaysOnceThatTheServerIsDown) {
  const auto list = StartRedlatch({"ls", "--watch", "--json", "--interval", "20ms", "--all"});
  const auto lease = SimpleLock(client_, "job").Acquire();
  ASSERT_TRUE(ReadTo(*list, "\"job\""));
  server_->Kill();
  const auto said = [this](const std::string& text) {
    return support::Await([&] { return absl::StrContains(Errors(), text); });
  };
  EXPECT_TRUE(said("Connection refused"));
  server_->Restart();
  EXPECT_TRUE(said("the list is complete again"));
  // The connection may break before a new one is refused.
  EXPECT_LE(std::ranges::count(Errors(), '\n'), 3) << Errors();
}

TEST_F(RedlatchTopTest, ListIsWatched) {
  const auto list = StartRedlatch({"ls", "--watch", "--json", "--interval", "20ms", "--all"});
  auto lease = Must(SimpleLock(client_, "job").Acquire());
  ASSERT_TRUE(ReadTo(*list, "\"in_use\":true"));
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_TRUE(ReadTo(*list, "\"in_use\":false"));
}

}  // namespace
}  // namespace redlatch
