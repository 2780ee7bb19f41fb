// `redlatch ls`: which locks there are, who holds them, who waits.

#include "tests/conformance/cli/command_fixture.h"
#include "tests/redis/redis/embedded/home.h"

namespace redlatch {
namespace {

using ::testing::ContainsRegex;
using ::testing::EndsWith;

class RedlatchLsTest : public RedlatchLookTest {
 protected:
  std::vector<std::string> Lines(const Words& words = {}) const {
    const Outcome list = Redlatch(Join({"ls"}, words));
    EXPECT_EQ(list.code, 0) << list.errors;
    return absl::StrSplit(list.output, '\n', absl::SkipEmpty());
  }

  const Client client_ = NewClient({.program = "billing run"});
  const Client other_ = NewClient({.program = "other"});
};

TEST_F(RedlatchLsTest, TellsOfALockWhoHoldsItForHowLongAndHowManyWait) {
  SimpleLock lock(client_, "job", {.lease = absl::Minutes(5)});
  const auto lease = lock.Acquire();
  ASSERT_TRUE(lease.ok());
  SimpleLock theirs(other_, "job");
  const Waiting waiting([&](const AcquireOptions& how) { (void)theirs.Acquire(how); });
  ASSERT_TRUE(AwaitQueued("redlatch:2:{job}:simple.queue"));

  EXPECT_THAT(Lines(),
              ElementsAre(AllOf(ContainsRegex("^job +simple +held +(5m00s|4m[0-9]+s) +1 +"),
                                EndsWith(Me("billing run")))));
  const std::string json = Redlatch({"ls", "--json"}).output;
  EXPECT_EQ(Json(json,
                 "[(r['name'], r['kind'], r['in_use'], r['holding'], r['waiting'], "
                 "r['holder']['pid'], r['holder']['host'], r['holder']['program'], "
                 "290000 < r['holder']['remaining_ms'] <= 300000, r['token']) for r in rows]"),
            absl::StrCat("[('job', 'simple', True, 1, 1, ", getpid(), ", '", Host(),
                         "', 'billing run', True, ", lease->fencing_token().value(), ")]"));
}

TEST_F(RedlatchLsTest, KnowsEachKind) {
  ReentrantLock reentrant(client_, "a:reentrant");
  const auto reentered = reentrant.Acquire();
  ReentrantReadWriteLock read(client_, "b:read");
  const auto reads = read.AcquireRead();
  ReentrantReadWriteLock read_too(other_, "b:read");
  const auto reads_too = read_too.AcquireRead();
  ReentrantReadWriteLock write(client_, "c:write");
  const auto writes = write.AcquireWrite();
  Semaphore slots(client_, "d:slots", 4);
  const auto three = slots.Acquire(3);
  SimpleLock simple(other_, "h:simple");
  const auto lease = simple.Acquire();
  CountDownLatch latch(client_, "e:latch", 5);
  ASSERT_TRUE(latch.CountDown(2).ok());
  server_->Text({"SET", "f:foreign", "somebody", "PX", "60000"});
  server_->Text({"SET", "redlatch:2:{f:foreign}:fence", "1", "PX", "60000"});
  server_->Text({"HSET", "g:own", "kind", "cooldown", "hold", server_->Text({"GET", "h:simple"})});
  server_->Text({"SET", "redlatch:2:{g:own}:fence", "1", "PX", "60000"});
  ASSERT_TRUE(three.ok() && writes.ok() && reads.ok() && reads_too.ok() && reentered.ok());

  EXPECT_THAT(
      Lines(),
      ElementsAre(ContainsRegex("^a:reentrant +reentrant +held +[23][0-9.]+s +0 +.*:"),
                  ContainsRegex("^b:read +read_write +read by 2 +[23][0-9.]+s +0 +.* and 1 more$"),
                  ContainsRegex("^c:write +read_write +written +[23][0-9.]+s +0 +.*billing"),
                  ContainsRegex("^d:slots +semaphore +3 of 4 +[23][0-9.]+s +0 +.*billing"),
                  ContainsRegex("^e:latch +latch +3 to go +- +0$"),
                  ContainsRegex("^f:foreign +simple +held +.*s +0 +\"somebody\", not by"),
                  ContainsRegex("^g:own +cooldown +held +- +0 +.*other"),
                  ContainsRegex("^h:simple +simple +held +.*other")));
  const std::string json = Redlatch({"ls", "--json"}).output;
  EXPECT_EQ(Json(json,
                 "[(names['d:slots']['used'], names['d:slots']['capacity']), "
                 "names['c:write']['mode'], names['b:read']['mode'], "
                 "(names['e:latch']['to_go'], names['e:latch']['total']), "
                 "names['f:foreign']['holder']['hold'], names['g:own']['kind']]"),
            "[(3, 4), 'write', 'read', (3, 5), 'somebody', 'cooldown']");
}

TEST_F(RedlatchLsTest, ShowsThatAWriterKeepsReadersOut) {
  ReentrantReadWriteLock read(client_, "data");
  const auto reads = read.AcquireRead();
  ReentrantReadWriteLock write(other_, "data");
  const Waiting waiting([&](const AcquireOptions& how) { (void)write.AcquireWrite(how); });
  ASSERT_TRUE(AwaitQueued("redlatch:2:{data}:rw.writers"));
  EXPECT_THAT(Lines(), ElementsAre(ContainsRegex("^data +read_write +read by 1 +[0-9.]+s +1w ")));
  EXPECT_EQ(Json(Redlatch({"ls", "--json"}).output, "rows[0]['waiting_writers']"), "1");
  // More readers than one script lets in wait for their turn.
  server_->Text({"HSET", "data", "kind", "read_write/2", "phase", "7"});
  server_->Text({"PEXPIRE", "data", "30000"});
  EXPECT_THAT(Lines(), ElementsAre(ContainsRegex("^data +read_write +read by 1 +[0-9.]+s +1w ")));
}

TEST_F(RedlatchLsTest, ShowsWhatNobodyUsesWithAllOnly) {
  SimpleLock once(client_, "once");
  ASSERT_TRUE(once.Acquire().ok());
  Semaphore slots(client_, "slots", 4);
  ASSERT_TRUE(slots.Acquire().ok());
  CountDownLatch latch(client_, "latch", 1);
  ASSERT_TRUE(latch.CountDown().ok());
  ReentrantReadWriteLock both(client_, "both");
  ASSERT_TRUE(both.AcquireWrite().ok());
  EXPECT_THAT(Lines(), IsEmpty());
  EXPECT_THAT(Lines({"--all"}), ElementsAre(ContainsRegex("^both +- +free +- +0$"),
                                            ContainsRegex("^latch +latch +open +- +0$"),
                                            ContainsRegex("^once +- +free +- +0$"),
                                            ContainsRegex("^slots +semaphore +0 of 4 +- +0$")));
}

TEST_F(RedlatchLsTest, PassesOverKeysThatAreNoLocks) {
  server_->Text({"SET", "text", std::string(100000, 'x')});
  server_->Text({"SET", "almost", "0123456789abcdef0123456789abcdef:"});
  server_->Text({"HSET", "hash", "kind", "of", "magic", "1"});
  server_->Text({"ZADD", "zset", "1", "a"});
  server_->Text({"ZADD", "zset:queue", "1", "a"});
  server_->Text({"SET", "brace}", "0123456789abcdef0123456789abcdef:1"});  // no lock can have it
  for (const char* const key :
       {"redlatch:", "redlatch:2", "redlatch:2:x:fence", "redlatch:2:{x:fence",
        "redlatch:2:{}:fence", "redlatch:2:{{x}}:fence", "redlatch:2:{x}:rw.readers",
        "redlatch:2:{x}:readers", "redlatch:2.tag:x:fence", "redlatch:rw:{x}:fence",
        "redlatch:3:{x}:fence", "redlatch:2:{redlatch:x}:fence",
        "redlatch:client:0123456789abcdef0123456789abcdef"}) {
    server_->Text({"SET", key, "0123456789abcdef0123456789abcdef:1"});
  }
  server_->Text({"LPUSH", "list", "a"});
  server_->Text({"SADD", "set", "a"});
  EXPECT_THAT(Lines({"--all"}), IsEmpty());
}

TEST_F(RedlatchLsTest, TakesAGlobForTheName) {
  std::vector<std::unique_ptr<SimpleLock>> locks;
  std::vector<Lease> leases;
  for (const char* const name : {"a:1", "a:2", "a:10", "b{a:1}", "{a:1}", "a:[1]"}) {
    locks.push_back(std::make_unique<SimpleLock>(client_, name));
    leases.push_back(*locks.back()->Acquire());
  }
  const auto names = [&](const std::string& pattern) {
    return Json(Redlatch({"ls", "--json", "--", pattern}).output, "sorted(names)");
  };
  EXPECT_EQ(names("a:?"), "['a:1', 'a:2']");
  EXPECT_EQ(names("a:*"), "['a:1', 'a:10', 'a:2', 'a:[1]']");
  EXPECT_EQ(names("a:[2-9]"), "['a:2']");
  EXPECT_EQ(names("a:[^2]"), "['a:1']");
  EXPECT_EQ(names("a:\\[1]"), "['a:[1]']");
  EXPECT_EQ(names("*a:1*"), "['a:1', 'a:10', 'b{a:1}', '{a:1}']");
  EXPECT_EQ(names("*{a:1}"), "['b{a:1}', '{a:1}']");
  EXPECT_EQ(names("*:*0"), "['a:10']");
  EXPECT_EQ(names("a:1"), "['a:1']");
  EXPECT_EQ(names("[a"), "[]");
  EXPECT_EQ(names("nothing"), "[]");
}

TEST_F(RedlatchLsTest, LetsNoNameDoHarm) {
  const std::string hostile =
      std::string("\x1b[31m\r\n\t\0\x7f\\ \"'", 14) + "\xff\xc3\xa4\xc2\x9b\xe2\x80\xae";
  SimpleLock lock(client_, hostile);
  const auto lease = lock.Acquire();
  ASSERT_TRUE(lease.ok());
  EXPECT_THAT(Lines(), ElementsAre(StartsWith("\\x1b[31m\\x0d\\x0a\\x09\\x00\\x7f\\\\ \"'\\xff"
                                              "\xc3\xa4\\xc2\\x9b\\xe2\\x80\\xae  simple")));
  const std::string json = Redlatch({"ls", "--json"}).output;
  EXPECT_EQ(Json(json, "ascii(rows[0]['name'])"),
            R"('\x1b[31m\r\n\t\x00\x7f\\ "\'\ufffd\xe4\x9b\u202e')");
  EXPECT_EQ(Json(json, "base64.b64decode(rows[0]['name_base64'])"),
            R"(b'\x1b[31m\r\n\t\x00\x7f\\ "\'\xff\xc3\xa4\xc2\x9b\xe2\x80\xae')");
}

TEST_F(RedlatchLsTest, LetsNoProgramsNameDoHarm) {
  // As one that keeps to no rule could tell it.
  const std::string client = "0123456789abcdef0123456789abcdef";
  server_->Text({"SET", "job", client + ":1", "PX", "60000"});
  server_->Text({"SET", "redlatch:client:" + client, "7 1 host \x1b]0;title\x07 \"x\""});
  EXPECT_THAT(Lines(), ElementsAre(EndsWith("\\x1b]0;title\\x07 \"x\"")));
}

TEST_F(RedlatchLsTest, SaysThatThereAreNone) {
  const Outcome none = Redlatch({"ls"});
  EXPECT_EQ(none.code, 0);
  EXPECT_THAT(none.output, IsEmpty());
  EXPECT_THAT(none.errors, AllOf(HasSubstr("no locks"), HasSubstr(server_->url())));
  const Outcome json = Redlatch({"ls", "--json"});
  EXPECT_EQ(json.code, 0);
  EXPECT_THAT(json.output + json.errors, IsEmpty());
  SimpleLock lock(client_, "job");
  const auto lease = lock.Acquire();
  EXPECT_THAT(Redlatch({"ls", "other*"}).errors, StartsWith("no locks of that name at "));
}

TEST_F(RedlatchLsTest, HasOnATerminalAHeadingASumAndLinesThatFit) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  SimpleLock lock(client_, "a-name-that-is-longer-than-all-that-there-is-room-for-in-a-line");
  const auto lease = lock.Acquire();
  SimpleLock free(client_, "free");
  ASSERT_TRUE(free.Acquire().ok());
  const Outcome list = OnTerminal("ls", "", 80);
  EXPECT_EQ(list.code, 0);
  const std::vector<std::string> lines =
      absl::StrSplit(list.output, absl::ByAnyChar("\r\n"), absl::SkipEmpty());
  ASSERT_THAT(lines, SizeIs(3)) << list.output;
  EXPECT_THAT(lines[0], ContainsRegex("^NAME +KIND +STATE +LEASE +WAITING +HELD BY$"));
  EXPECT_THAT(lines[1], ContainsRegex("^a-name-that-is-long.*\xe2\x80\xa6 +simple +held "));
  EXPECT_THAT(lines[2], AllOf(HasSubstr("1 held, 0 waited for, of 2"), HasSubstr("--all")));
  EXPECT_LE(lines[1].size(), 84) << "two characters may be of three bytes";
}

TEST_F(RedlatchLsTest, ShowsOnATerminalHowFarItIsIfTheServerIsSlow) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  EXPECT_EQ(server_->Text({"DEBUG", "POPULATE", "400"}), "OK");  // keys for two pages
  support::TcpProxy proxy({.port = server_->port()});
  proxy.Delay(support::Direction::kToClient, absl::Milliseconds(300));
  EXPECT_THAT(OnTerminal(absl::StrCat("ls --server=", proxy.url(), " >/dev/null")).output,
              AllOf(HasSubstr("keys scanned: "), HasSubstr("\x1b[J")));
}

TEST_F(RedlatchLsTest, KnowsThatSomeCharactersAreTwoColumnsWide) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  std::string name;
  for (int i = 0; i < 40; ++i) name += "\xe9\x8e\x96";
  SimpleLock lock(client_, name);
  const auto lease = lock.Acquire();
  // Of 20 columns nine characters have two each, and the dots have one.
  EXPECT_THAT(OnTerminal("ls", "", 60).output,
              ContainsRegex("\n(\xe9\x8e\x96){9}\xe2\x80\xa6   held "));
}

TEST_F(RedlatchLsTest, DoesNotStartAPrivateServerToSayThatItHasNoLocks) {
  const std::string home = directory_.path() + "/home";
  const Outcome list = Redlatch({"ls", "--server=embedded:" + home});
  EXPECT_EQ(list.code, 0);
  EXPECT_THAT(list.output, IsEmpty());
  EXPECT_THAT(list.errors, AllOf(HasSubstr("is not running"), HasSubstr(home)));
  struct stat socket = {};
  EXPECT_NE(stat((home + "/redis.sock").c_str(), &socket), 0);
}

TEST_F(RedlatchLsTest, ListsTheLocksOfAPrivateServerThatRuns) {
  const redis::EmbeddedHome home;
  const std::string url = "embedded:" + home.directory();
  const auto run =
      StartRedlatch({"run", "--server", url, "job", "--", "sh", "-c", "echo held; read line"});
  ASSERT_EQ(run->pipe().ReadLine(), "held");
  EXPECT_THAT(Lines({"--server", url}), ElementsAre(ContainsRegex("^job +simple +held ")));
}

TEST_F(RedlatchLsTest, ListsWhatItsUserMaySee) {
  const auto restricted = support::RedisServer::Start(
      {.acl = {"user looker on >secret ~mine:* ~redlatch:2:{mine:* ~redlatch:rw:{mine:* &* "
               "+@all"}});
  const std::string url = "redis://looker:secret@127.0.0.1:" + std::to_string(restricted->port());
  for (const char* const name : {"mine:1", "theirs:1"}) {
    restricted->Text({"SET", name, "0123456789abcdef0123456789abcdef:1", "PX", "60000"});
    restricted->Text({"SET", absl::StrCat("redlatch:2:{", name, "}:fence"), "1", "PX", "60000"});
  }
  EXPECT_EQ(Json(Redlatch({"ls", "--json", "--server", url}).output, "sorted(names)"),
            "['mine:1']");
  const Outcome forbidden = Redlatch({"inspect", "theirs:1", "--server", url});
  EXPECT_EQ(forbidden.code, 123);
  EXPECT_THAT(forbidden.errors, Not(HasSubstr("there is no lock")));
}

TEST_F(RedlatchLsTest, FailsWhereItsOutputCannotBeWritten) {
  SimpleLock lock(client_, "job");
  const auto lease = lock.Acquire();
  for (const char* const words : {"ls", "ls --help", "--help", "--version"}) {
    const auto command = support::Child::Exec(
        {"sh", "-c",
         absl::StrCat("exec ", REDLATCH_COMMAND, " ", words, " >/dev/full 2>", errors_path_)},
        {.environment = {"REDLATCH_URL=" + server_->url()}});
    EXPECT_EQ(CodeOf(*command), 125) << words;
    EXPECT_THAT(Errors(), HasSubstr("the output could not be written")) << words;
  }
}

TEST_F(RedlatchLsTest, WritesNothingIntoItsConnectionWhereItsOutputIsClosed) {
  SimpleLock lock(client_, "job");
  const auto lease = lock.Acquire();
  const auto command = support::Child::Exec(
      {"sh", "-c", absl::StrCat("exec ", REDLATCH_COMMAND, " ls <&- >&- 2>", errors_path_)},
      {.environment = {"REDLATCH_URL=" + server_->url()}});
  EXPECT_EQ(CodeOf(*command), 0);
  EXPECT_EQ(Errors(), "");
}

TEST_F(RedlatchLsTest, LeavesNothingBehind) {
  SimpleLock lock(client_, "job");
  const auto lease = lock.Acquire();
  const int64_t keys = server_->Integer({"DBSIZE"});
  EXPECT_THAT(Lines(), SizeIs(1));
  EXPECT_EQ(server_->Integer({"DBSIZE"}), keys);
  EXPECT_EQ(Redlatch({"inspect", "job"}).code, 0);
  // It says farewell without waiting for the answer.
  EXPECT_TRUE(support::Await([&] { return server_->Integer({"DBSIZE"}) == keys; }));
}

}  // namespace
}  // namespace redlatch
