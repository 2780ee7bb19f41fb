// Tests `redlatch ls`, which lists locks, their holders and their waiters.

#include "docs/code/06-a-lock-of-your-own/priority_lock.h"
#include "tests/conformance/cli/command_fixture.h"
#include "tests/redis/redis/embedded/home.h"

namespace redlatch {
namespace {

struct RedlatchLsTest : RedlatchOutputTest {
  const Client client_ = NewClient({.program = "billing run"});
  const Client other_ = NewClient({.program = "other"});
};

TEST_F(RedlatchLsTest, ShowsHolderLeaseAndNumberOfWaiters) {
  const auto lease = Must(SimpleLock(client_, "job", {.lease = absl::Minutes(5)}).Acquire());
  const auto waiting = Waiting::For<SimpleLock>(other_, "job");
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
                         "', 'billing run', True, ", lease.fencing_token().value(), ")]"));
}

TEST_F(RedlatchLsTest, KnowsEachKind) {
  const auto reentered = Must(ReentrantLock(client_, "a:reentrant").Acquire());
  const auto reads = Must(ReentrantReadWriteLock(client_, "b:read").AcquireRead());
  const auto reads_too = Must(ReentrantReadWriteLock(other_, "b:read").AcquireRead());
  const auto writes = Must(ReentrantReadWriteLock(client_, "c:write").AcquireWrite());
  const auto three = Must(Semaphore(client_, "d:slots", 4).Acquire(3));
  const auto lease = SimpleLock(other_, "h:simple").Acquire();
  ASSERT_TRUE(CountDownLatch(client_, "e:latch", 5).CountDown(2).ok());
  server_->Text({"SET", "f:foreign", "another", "PX", "60000"});
  server_->Text({"SET", "redlatch:2:{f:foreign}:fence", "1", "PX", "60000"});
  server_->Text({"HSET", "g:own", "kind", "cooldown", "hold", server_->Text({"GET", "h:simple"})});
  server_->Text({"SET", "redlatch:2:{g:own}:fence", "1", "PX", "60000"});

  EXPECT_THAT(
      Lines(),
      ElementsAre(ContainsRegex("^a:reentrant +reentrant +held +[23][0-9.]+s +0 +.*:"),
                  ContainsRegex("^b:read +read_write +read by 2 +[23][0-9.]+s +0 +.* and 1 more$"),
                  ContainsRegex("^c:write +read_write +written +[23][0-9.]+s +0 +.*billing"),
                  ContainsRegex("^d:slots +semaphore +3 of 4 +[23][0-9.]+s +0 +.*billing"),
                  ContainsRegex("^e:latch +latch +3 to go +- +0$"),
                  ContainsRegex("^f:foreign +simple +held +.*s +0 +\"another\", not by"),
                  ContainsRegex("^g:own +cooldown +held +- +0 +.*other"),
                  ContainsRegex("^h:simple +simple +held +.*other")));
  const std::string json = Redlatch({"ls", "--json"}).output;
  EXPECT_EQ(Json(json,
                 "[(names['d:slots']['used'], names['d:slots']['capacity']), "
                 "names['c:write']['mode'], names['b:read']['mode'], "
                 "(names['e:latch']['to_go'], names['e:latch']['total']), "
                 "names['f:foreign']['holder']['hold'], names['g:own']['kind']]"),
            "[(3, 4), 'write', 'read', (3, 5), 'another', 'cooldown']");
}

TEST_F(RedlatchLsTest, ShowsTheLeaderOfAnElectionAndItsValue) {
  const auto leads = Must(Election(client_, "a:named").Campaign("10.0.0.1 \x1b[7m:7000"));
  const auto leads_too = Must(Election(other_, "b:nameless").Campaign());
  EXPECT_THAT(
      Lines(),
      ElementsAre(AllOf(ContainsRegex("^a:named +election +held +[23][0-9.]+s +0 +"),
                        EndsWith(Me("billing run") + ", value 10.0.0.1 \\x1b[7m:7000")),
                  AllOf(ContainsRegex("^b:nameless +election +held "), EndsWith(Me("other")))));
  EXPECT_EQ(
      Json(Redlatch({"ls", "--json"}).output, "[(r['kind'], r['holder']['value']) for r in rows]"),
      "[('election', '10.0.0.1 \\x1b[7m:7000'), ('election', '')]");
}

TEST_F(RedlatchLsTest, RecordOfAnEarlierLeaderDoesNotCount) {
  const auto leads = Must(Election(client_, "job").Campaign("stale"));
  server_->Text({"SET", "job", "another", "PX", "60000"});
  EXPECT_THAT(Lines(), ElementsAre(ContainsRegex("^job +simple +held +.* \"another\", not by")));
}

TEST_F(RedlatchLsTest, ShowsAWaitingWriter) {
  const auto reads = ReentrantReadWriteLock(client_, "data").AcquireRead();
  const auto waiting = Waiting::For<ReentrantReadWriteLock>(other_, "data");
  ASSERT_TRUE(AwaitQueued("redlatch:2:{data}:rw.writers"));
  EXPECT_THAT(Lines(), ElementsAre(ContainsRegex("^data +read_write +read by 1 +[0-9.]+s +1w ")));
  EXPECT_EQ(Json(Redlatch({"ls", "--json"}).output,
                 "(rows[0]['waiting_writers'], 0 < rows[0]['longest_wait_ms'] < 60000)"),
            "(1, True)");
  // The line is the same while readers wait because one script admits a limited number of them.
  server_->Text({"HSET", "data", "kind", "read_write/2", "phase", "7"});
  server_->Text({"PEXPIRE", "data", "30000"});
  EXPECT_THAT(Lines(), ElementsAre(ContainsRegex("^data +read_write +read by 1 +[0-9.]+s +1w ")));
}

TEST_F(RedlatchLsTest, ShowsUnusedLocksOnlyWithAll) {
  ASSERT_TRUE(SimpleLock(client_, "once").Acquire().ok());
  ASSERT_TRUE(Semaphore(client_, "slots", 4).Acquire().ok());
  ASSERT_TRUE(CountDownLatch(client_, "latch", 1).CountDown().ok());
  ASSERT_TRUE(ReentrantReadWriteLock(client_, "both").AcquireWrite().ok());
  EXPECT_THAT(Lines(), IsEmpty());
  EXPECT_THAT(Lines({"--all"}), ElementsAre(ContainsRegex("^both +- +free +- +0$"),
                                            ContainsRegex("^latch +latch +open +- +0$"),
                                            ContainsRegex("^once +- +free +- +0$"),
                                            ContainsRegex("^slots +semaphore +0 of 4 +- +0$")));
}

TEST_F(RedlatchLsTest, IgnoresKeysThatAreNoLocks) {
  server_->Text({"SET", "text", std::string(100000, 'x')});
  server_->Text({"SET", "almost", "0123456789abcdef0123456789abcdef:"});
  server_->Text({"HSET", "hash", "kind", "of", "magic", "1"});
  server_->Text({"ZADD", "zset", "1", "a"});
  server_->Text({"ZADD", "zset:queue", "1", "a"});
  server_->Text(
      {"SET", "brace}", "0123456789abcdef0123456789abcdef:1"});  // no lock can have this name
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

TEST_F(RedlatchLsTest, MatchesNamesByGlob) {
  std::vector<Lease> leases;
  for (const char* const name : {"a:1", "a:2", "a:10", "b{a:1}", "{a:1}", "a:[1]"}) {
    leases.push_back(*SimpleLock(client_, name).Acquire());
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

TEST_F(RedlatchLsTest, EscapesHostileNames) {
  const std::string hostile =
      std::string("\x1b[31m\r\n\t\0\x7f\\ \"'", 14) + "\xff\xc3\xa4\xc2\x9b\xe2\x80\xae";
  const auto lease = Must(SimpleLock(client_, hostile).Acquire());
  EXPECT_THAT(Lines(), ElementsAre(StartsWith("\\x1b[31m\\x0d\\x0a\\x09\\x00\\x7f\\\\ \"'\\xff"
                                              "\xc3\xa4\\xc2\\x9b\\xe2\\x80\\xae  simple")));
  const std::string json = Redlatch({"ls", "--json"}).output;
  EXPECT_EQ(Json(json, "ascii(rows[0]['name'])"),
            R"('\x1b[31m\r\n\t\x00\x7f\\ "\'\ufffd\xe4\x9b\u202e')");
  EXPECT_EQ(Json(json, "base64.b64decode(rows[0]['name_base64'])"),
            R"(b'\x1b[31m\r\n\t\x00\x7f\\ "\'\xff\xc3\xa4\xc2\x9b\xe2\x80\xae')");
}

TEST_F(RedlatchLsTest, EscapesHostileProgramNames) {
  // A hostile client may write any description.
  const std::string client = "0123456789abcdef0123456789abcdef";
  server_->Text({"SET", "job", client + ":1", "PX", "60000"});
  server_->Text({"SET", "redlatch:client:" + client, "7 1 host \x1b]0;title\x07 \"x\""});
  EXPECT_THAT(Lines(), ElementsAre(EndsWith("\\x1b]0;title\\x07 \"x\"")));
}

TEST_F(RedlatchLsTest, ReportsThatThereAreNoLocks) {
  EXPECT_THAT(Redlatch({"ls"}),
              Succeeds(IsEmpty(), AllOf(HasSubstr("no locks"), HasSubstr(server_->url()))));
  const Outcome json = Redlatch({"ls", "--json"});
  EXPECT_EQ(json.code, 0);
  EXPECT_THAT(json.output + json.errors, IsEmpty());
  const auto lease = SimpleLock(client_, "job").Acquire();
  EXPECT_THAT(Redlatch({"ls", "other*"}).errors, StartsWith("no locks of that name at "));
}

TEST_F(RedlatchLsTest, PrintsHeadingTotalsAndFittingLinesOnATerminal) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  const auto lease =
      SimpleLock(client_, "a-name-that-is-longer-than-all-that-there-is-room-for-in-a-line")
          .Acquire();
  ASSERT_TRUE(SimpleLock(client_, "free").Acquire().ok());
  const std::string list = Printed(OnTerminal("ls", "", 80));
  const std::vector<std::string> lines =
      absl::StrSplit(list, absl::ByAnyChar("\r\n"), absl::SkipEmpty());
  ASSERT_THAT(lines, SizeIs(3)) << list;
  EXPECT_THAT(lines[0], ContainsRegex("NAME +KIND +STATE +LEASE +WAITING +HELD BY"));
  EXPECT_THAT(lines[1], ContainsRegex("^a-name-that-is-long.*\xe2\x80\xa6 +simple +held "));
  EXPECT_THAT(lines[2], AllOf(HasSubstr("1 held, 0 waited for, of 2"), HasSubstr("--all")));
  EXPECT_LE(lines[1].size(), 84) << "two characters may be of three bytes";
}

TEST_F(RedlatchLsTest, ShowsProgressOnATerminalIfTheServerIsSlow) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  EXPECT_EQ(server_->Text({"DEBUG", "POPULATE", "400"}), "OK");  // keys for two pages
  support::TcpProxy proxy({.port = server_->port()});
  proxy.Delay(support::Direction::kToClient, absl::Milliseconds(300));
  EXPECT_THAT(OnTerminal(absl::StrCat("ls --server=", proxy.url(), " >/dev/null")).output,
              AllOf(HasSubstr("keys scanned: "), HasSubstr("\x1b[J")));
}

TEST_F(RedlatchLsTest, CountsWideCharactersAsTwoColumns) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  std::string name;
  for (int i = 0; i < 40; ++i) name += "\xe9\x8e\x96";
  const auto lease = SimpleLock(client_, name).Acquire();
  // In 20 columns there is room for nine characters of two columns each, and the ellipsis.
  EXPECT_THAT(OnTerminal("ls", "", 60).output,
              ContainsRegex("\n(\xe9\x8e\x96){9}\xe2\x80\xa6   held "));
}

TEST_F(RedlatchLsTest, DoesNotStartAPrivateServer) {
  const std::string home = directory_.path() + "/home", server = "--server=embedded:" + home;
  EXPECT_THAT(Redlatch({"ls", server}),
              Succeeds(IsEmpty(), AllOf(HasSubstr("is not running"), HasSubstr(home))));
  EXPECT_EQ(Redlatch({"inspect", "job", server}).code, 1);
  EXPECT_THAT(Redlatch({"leader", "job", server}),
              Fails(1, AllOf(HasSubstr("is not running"), HasSubstr(home))));
  struct stat socket = {};
  EXPECT_NE(stat((home + "/redis.sock").c_str(), &socket), 0);
}

TEST_F(RedlatchLsTest, ListsTheLocksOfARunningPrivateServer) {
  const redis::EmbeddedHome home;
  const std::string url = "embedded:" + home.directory() + "?connect_timeout=60s";
  const auto run =
      StartRedlatch({"run", "--server", url, "job", "--", "sh", "-c", "echo held; read line"});
  ASSERT_EQ(run->pipe().ReadLine(), "held");
  EXPECT_THAT(Lines({"--server", url}), ElementsAre(ContainsRegex("^job +simple +held ")));
}

TEST_F(RedlatchLsTest, ListsOnlyLocksThatTheUserMayRead) {
  const auto restricted = support::RedisServer::Start(
      {.acl = {"user viewer on >secret ~mine:* ~redlatch:2:{mine:* ~redlatch:rw:{mine:* &* "
               "+@all"}});
  const std::string url = "redis://viewer:secret@127.0.0.1:" + std::to_string(restricted->port());
  for (const char* const name : {"mine:1", "theirs:1"}) {
    restricted->Text({"SET", name, "0123456789abcdef0123456789abcdef:1", "PX", "60000"});
    restricted->Text({"SET", absl::StrCat("redlatch:2:{", name, "}:fence"), "1", "PX", "60000"});
  }
  EXPECT_EQ(Json(Redlatch({"ls", "--json", "--server", url}).output, "sorted(names)"),
            "['mine:1']");
  EXPECT_THAT(Redlatch({"inspect", "theirs:1", "--server", url}),
              Fails(123, Not(HasSubstr("there is no lock"))));
}

TEST_F(RedlatchLsTest, FailsIfItsOutputCannotBeWritten) {
  const auto lease = SimpleLock(client_, "job").Acquire();
  for (const char* const words :
       {"ls", "ls --help", "--help", "--version", "doctor", "doctor --json"}) {
    const auto command = support::Child::Exec(
        {"sh", "-c",
         absl::StrCat("exec ", REDLATCH_COMMAND, " ", words, " >/dev/full 2>", errors_path_)},
        {.environment = {"REDLATCH_URL=" + server_->url()}});
    EXPECT_EQ(CodeOf(*command), 125) << words;
    EXPECT_THAT(Errors(), HasSubstr("the output could not be written")) << words;
  }
}

TEST_F(RedlatchLsTest, ClosedOutputDoesNotReachItsConnection) {
  const auto lease = SimpleLock(client_, "job").Acquire();
  const auto command = support::Child::Exec(
      {"sh", "-c", absl::StrCat("exec ", REDLATCH_COMMAND, " ls <&- >&- 2>", errors_path_)},
      {.environment = {"REDLATCH_URL=" + server_->url()}});
  EXPECT_EQ(CodeOf(*command), 0);
  EXPECT_EQ(Errors(), "");
}

TEST_F(RedlatchLsTest, LeavesNothingBehind) {
  const auto lease = SimpleLock(client_, "job").Acquire();
  const int64_t keys = server_->Integer({"DBSIZE"});
  EXPECT_THAT(Lines(), SizeIs(1));
  EXPECT_EQ(server_->Integer({"DBSIZE"}), keys);
  EXPECT_EQ(Redlatch({"inspect", "job"}).code, 0);
  // The command does not wait for the reply when it removes its description.
  EXPECT_TRUE(support::Await([&] { return server_->Integer({"DBSIZE"}) == keys; }));
}

// Tests `redlatch inspect`, which shows everything that is known about one lock.

struct RedlatchInspectTest : RedlatchOutputTest {
  const Client client_ = NewClient({.program = "billing"});
  const Client second_ = NewClient({.program = "second"});
  const Client third_ = NewClient({.program = "third"});
};

TEST_F(RedlatchInspectTest, ShowsHolderItsTimeAndWaitersInOrder) {
  const auto lease = Must(SimpleLock(client_, "job").Acquire());
  const auto one = Waiting::For<SimpleLock>(second_, "job");
  ASSERT_TRUE(AwaitQueued("redlatch:2:{job}:simple.queue", 1));
  const auto two = Waiting::For<SimpleLock>(third_, "job");
  ASSERT_TRUE(AwaitQueued("redlatch:2:{job}:simple.queue", 2));

  const std::string token = absl::StrCat(lease.fencing_token().value());
  EXPECT_THAT(Text("job"),
              AllOf(StartsWith("Lock \"job\": simple, held\n"),
                    ContainsRegex("\n  held by +" + Me("billing") +
                                  ", since 20[0-9-]+ [0-9:]+ \\([0-9.]+s\\), lease [0-9.]+s\n"),
                    ContainsRegex("\n  waiting +1\\. " + Me("second") + ", since .*\\)\n +2\\. " +
                                  Me("third") + ", since "),
                    HasSubstr(token), HasSubstr(server_->url())));
  EXPECT_EQ(Of("job",
               "(r['name'], r['kind'], r['holding'], r['waiting'], r['token'], "
               "[h['program'] for h in r['holders']], [w['program'] for w in r['waiters']], "
               "[w['pid'] for w in r['waiters']])"),
            absl::StrCat("('job', 'simple', 1, 2, ", token, ", ['billing'], ['second', 'third'], [",
                         getpid(), ", ", getpid(), "])"));
  EXPECT_EQ(Of("job",
               "(0 < r['holders'][0]['remaining_ms'] <= 30000, "
               "0 <= r['holders'][0]['held_ms'] < 60000, "
               "abs(r['holders'][0]['since_us'] - r['token']) < 10**6, "
               "0 <= r['waiters'][1]['waited_ms'] <= r['waiters'][0]['waited_ms'])"),
            "(True, True, True, True)");
}

TEST_F(RedlatchInspectTest, FoldsWaitersOfOneProcess) {
  SimpleLock lock(client_, "job");
  const auto lease = lock.Acquire();
  std::deque<Waiting> waiting;
  std::deque<Client> clients;
  for (int64_t i = 1; i <= 4; ++i) {
    clients.push_back(NewClient({.program = i == 3 ? "third" : "worker\x1b[5m"}));
    waiting.emplace_back([lock = std::make_shared<SimpleLock>(clients.back(), "job")](
                             const AcquireOptions& how) { (void)lock->Acquire(how); });
    ASSERT_TRUE(AwaitQueued("redlatch:2:{job}:simple.queue", i));
  }
  EXPECT_THAT(Text("job"), ContainsRegex("\n  waiting +1-2\\. 2 waiters of .* worker.*, the first "
                                         "since .*\n +3\\. .* third, since .*\n +4\\. .* worker"));
  EXPECT_EQ(Text("job").find('\x1b'), std::string::npos);
  EXPECT_EQ(Of("job", "len(r['waiters'])"), "4");
}

TEST_F(RedlatchInspectTest, DistinguishesReadersFromWriters) {
  const auto reads = ReentrantReadWriteLock(client_, "data").AcquireRead();
  const auto reads_too = ReentrantReadWriteLock(second_, "data").AcquireRead();
  const auto waiting = Waiting::For<ReentrantReadWriteLock>(third_, "data");
  ASSERT_TRUE(AwaitQueued("redlatch:2:{data}:rw.writers"));
  EXPECT_THAT(Text("data"),
              AllOf(StartsWith("Lock \"data\": read_write, read by 2\n"),
                    ContainsRegex("held by +1\\. .*, reading, .*\n +2\\. .*, reading, "),
                    ContainsRegex("waiting writers +1, keeping new readers out")));
  EXPECT_EQ(Of("data",
               "(r['holding'], {h['mode'] for h in r['holders']}, r['waiters'][0]['mode'], "
               "r['waiting_writers'])"),
            "(2, {'read'}, 'write', 1)");
}

TEST_F(RedlatchInspectTest, ShowsOwnersOfAReentrantLock) {
  const auto lease = Must(ReentrantLock(client_, "job").AcquireAs(Owner("night shift")));
  EXPECT_THAT(Text("job"), HasSubstr(", owner night shift, since "));
  EXPECT_EQ(Of("job", "(r['kind'], r['holders'][0]['owner'])"),
            "('reentrant', 'user:night shift')");
}

TEST_F(RedlatchInspectTest, ShowsTheValuesOfLeaderAndCandidates) {
  auto leads = Must(Election(client_, "job").Campaign("first\x1b"));
  Election theirs(second_, "job");
  const Waiting waiting([&](const AcquireOptions& how) { (void)theirs.Campaign("second", how); });
  ASSERT_TRUE(AwaitQueued("redlatch:2:{job}:election.queue"));
  EXPECT_THAT(Text("job"),
              AllOf(StartsWith("Election \"job\": held\n"),
                    ContainsRegex("held by +" + Me("billing") + ", value first\\\\x1b, since "),
                    ContainsRegex("waiting +" + Me("second") + ", value second, since ")));
  EXPECT_EQ(Of("job",
               "(r['kind'], r['holders'][0]['value'], r['waiters'][0]['value'], "
               "'owner' in r['holders'][0])"),
            "('election', 'first\\x1b', 'second', False)");
  ASSERT_TRUE(leads.Proclaim("changed").ok());
  EXPECT_EQ(Of("job", "r['holders'][0]['value']"), "changed");
}

TEST_F(RedlatchInspectTest, ShowsPermitsOfASemaphore) {
  const auto three = Semaphore(client_, "slots", 4).Acquire(3);
  Semaphore theirs(second_, "slots", 4);
  const Waiting waiting([&](const AcquireOptions& how) { (void)theirs.Acquire(2, how); });
  ASSERT_TRUE(AwaitQueued("redlatch:2:{slots}:semaphore.queue"));
  EXPECT_THAT(Text("slots"),
              AllOf(StartsWith("Semaphore \"slots\": 3 of 4\n"), HasSubstr("billing, 3 permits, "),
                    HasSubstr("second, 2 permits, ")));
  EXPECT_EQ(
      Of("slots",
         "(r['used'], r['capacity'], r['holders'][0]['permits'], r['waiters'][0]['permits'])"),
      "(3, 4, 3, 2)");
}

TEST_F(RedlatchInspectTest, ShowsCountAndWaitersOfALatch) {
  ASSERT_TRUE(CountDownLatch(client_, "import", 12).CountDown(5).ok());
  CountDownLatch theirs(second_, "import", 12);
  const Waiting waiting([&](const AcquireOptions& how) { (void)theirs.Wait({.stop = how.stop}); });
  ASSERT_TRUE(AwaitQueued("redlatch:2:{import}:latch.queue"));
  EXPECT_THAT(Text("import"),
              AllOf(StartsWith("Latch \"import\": 7 to go\n"),
                    ContainsRegex("waiting +" + Me("second") + ", since .*\n"),
                    ContainsRegex("made for +12\n"), ContainsRegex("forgotten in +2[34]h")));
  EXPECT_EQ(Of("import", "(r['kind'], r['to_go'], r['total'], r['waiting'], 'holders' in r)"),
            "('latch', 7, 12, 1, False)");
  const std::string hold =
      server_->Command({"ZRANGE", "redlatch:2:{import}:latch.queue", "0", "0"}).elements[0].text;
  const std::string came = server_->Text({"ZSCORE", "redlatch:2:{import}:latch.queue", hold});
  // Writes the record that a heartbeat would leave an hour later.
  server_->Text({"HSET", "redlatch:2:{import}:latch.waiters", hold,
                 absl::StrCat(absl::ToUnixMicros(absl::Now() + absl::Hours(1)), " 1 1 1 1 1 0")});
  EXPECT_EQ(Of("import", "r['waiters'][0]['since_us']"), came);
}

TEST_F(RedlatchInspectTest, ShowsTheValueOfAForeignHolder) {
  server_->Text({"SET", "job", "cron@\x1bhost", "NX", "PX", "60000"});
  EXPECT_THAT(Text("job"), AllOf(StartsWith("Lock \"job\": simple, held\n"),
                                 HasSubstr("\"cron@\\x1bhost\", not by redlatch, lease ")));
  server_->Text({"SET", "endless", "another"});
  EXPECT_THAT(Text("endless"), HasSubstr("not by redlatch, without end\n"));
  EXPECT_EQ(Of("endless", "(r['holders'][0]['hold'], r['holders'][0]['remaining_ms'])"),
            "('another', None)");
}

TEST_F(RedlatchInspectTest, ShowsWhatTheKeysOfAnOwnKindTell) {
  const auto lease = SimpleLock(client_, "donor").Acquire();
  const std::string hold = server_->Text({"GET", "donor"});
  server_->Text({"HSET", "own", "kind", "cool-down", "hold", hold, "cooldown", "5"});
  server_->Text({"PEXPIRE", "own", "60000"});
  server_->Text({"SET", "redlatch:2:{own}:fence", "77"});
  const std::string came = absl::StrCat(absl::ToUnixMicros(absl::Now() - absl::Minutes(5)));
  server_->Text(
      {"ZADD", "redlatch:2:{own}:x.cool-down.queue", came, hold, "1", std::string(32, 'a') + ":1"});
  EXPECT_THAT(Text("own"),
              AllOf(StartsWith("Lock \"own\": a kind of its own, \"cool-down\"\n"),
                    ContainsRegex("held by +" + Me("billing")), HasSubstr("last token      77\n"),
                    // The waiters have no numbers, since only their class knows their order.
                    ContainsRegex("waiting +client aaaaaaaa, process unknown\n +" + Me("billing") +
                                  ", since 20.* \\(5m0[0-9]s\\)\n"),
                    HasSubstr("a hash\n"), ContainsRegex("key expires in +(1m00s|5[0-9.]+s)\n")));
  EXPECT_EQ(Of("own",
               "(r['kind'], r['type'], r['holding'], r['waiters'][1]['since_us'], 'since_us' in "
               "r['waiters'][0])"),
            "('cool-down', 'hash', 1, " + came + ", False)");
  server_->Text({"HSET", "own", "kind", "cool\x1b"});
  EXPECT_THAT(Text("own"), StartsWith("Lock \"own\": a kind of its own, \"cool\\x1b\"\n"));
}

TEST_F(RedlatchInspectTest, ShowsAFreeLock) {
  ASSERT_TRUE(SimpleLock(client_, "job").Acquire().ok());
  EXPECT_THAT(Text("job"), AllOf(StartsWith("Lock \"job\": free\n"), HasSubstr("last token"),
                                 Not(HasSubstr("held by"))));
  EXPECT_EQ(Of("job", "(r['kind'], r['holding'], r['holders'], r['waiters'])"),
            "('unknown', 0, [], [])");
}

// The key of a lock that is free while a client waits for it and another one has a value.
TEST_F(RedlatchInspectTest, LockThatWaitsForItsNextOwnerIsFree) {
  auto held = Must(SimpleLock(client_, "other").Acquire());
  const Waiting both([this](const AcquireOptions& how) {
    MultiLock names(second_, {"job", "other"});
    (void)names.Acquire(how);
  });
  ASSERT_TRUE(support::Await([&] { return server_->Text({"GET", "job"}) == "redlatch:free"; }));

  EXPECT_THAT(Text("job"),
              AllOf(StartsWith("Lock \"job\": simple, free\n"), Not(HasSubstr("held by")),
                    ContainsRegex("\n  waiting +" + Me("second"))));
  EXPECT_EQ(Of("job", "(r['kind'], r['holding'], r['holders'], r['waiting'], len(r['waiters']))"),
            "('simple', 0, [], 1, 1)");
  const Outcome list = Redlatch({"ls", "--json", "job"});
  EXPECT_EQ(
      Json(list.output, "[(r['kind'], r['holding'], r['waiting'], 'holder' in r) for r in rows]"),
      "[('simple', 0, 1, False)]");
  EXPECT_THAT(Redlatch({"break", "job", "--yes"}).output, HasSubstr("There is nothing to break"));

  EXPECT_EQ(Redlatch({"run", "--wait", "0", "job", "--", "true"}).code, 120);
  const auto run = StartRedlatch({"run", "job", "--", "true"});
  ASSERT_TRUE(AwaitQueued("redlatch:2:{job}:simple.queue", 2));
  EXPECT_FALSE(run->WaitFor(absl::ZeroDuration()));
  ASSERT_TRUE(held.Release().ok());
  EXPECT_EQ(CodeOf(*run), 0) << Errors();
}

// After redlatch run --at-least its client has ended; after Lease::StayTaken() it may go on.
TEST_F(RedlatchInspectTest, TellsNamesThatStayTakenFromHeldLocks) {
  EXPECT_EQ(Redlatch({"run", "--at-least", "2h", "nightly", "--", "true"}).code, 0);
  ReentrantReadWriteLock write(client_, "write");
  SimpleLock simple(client_, "simple");
  SimpleLock held(client_, "held");
  const std::scoped_lock guard(held);
  for (RedisLockBase* const lock : std::initializer_list<RedisLockBase*>{&write, &simple}) {
    auto lease = lock->Acquire();
    ASSERT_TRUE(lease.ok() && lease->StayTaken(absl::Hours(2)).ok());
    EXPECT_THAT(Text(lock->name()), HasSubstr("held by         " + Me("billing")));
    ASSERT_TRUE(lease->Release().ok());
  }
  const std::string was = "no process, was " + Me("billing") + "; stays taken";
  EXPECT_THAT(Redlatch({"ls"}).output,
              AllOf(ContainsRegex("held +simple +held .*" + Me("billing") + "\n"),
                    ContainsRegex("nightly +simple +taken +1h59m +0 +no process; stays taken\n"),
                    ContainsRegex("simple +simple +taken +1h59m +0 +" + was + "\n"),
                    ContainsRegex("write +read_write +taken +1h59m +0 +" + was + "\n")));
  EXPECT_THAT(Text("nightly"), HasSubstr("held by         no process; stays taken, for 1h59m"));
  EXPECT_THAT(Text("write"), HasSubstr("held by         " + was + ", for 1h59m"));
  EXPECT_EQ(Json(Redlatch({"ls", "--json"}).output,
                 "sorted((r['name'], r['holder']['stays_taken']) for r in rows)"),
            "[('held', False), ('nightly', True), ('simple', True), ('write', True)]");
  EXPECT_EQ(Of("simple", "r['holders'][0]['stays_taken']"), "True");
  EXPECT_EQ(Of("held", "r['holders'][0]['stays_taken']"), "False");
}

TEST_F(RedlatchInspectTest, WrapsAtWordsOnATerminal) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  const std::string program =
      "whose name has so many words that no terminal shows them on one line";
  const Client client = NewClient({.program = program});
  const auto lease = Must(SimpleLock(client, "job").Acquire());
  for (const uint16_t columns : std::to_array<uint16_t>({48, 80})) {
    const std::string output = OnTerminal("inspect job", "", columns).output;
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(output, "\r\n"))) {
      EXPECT_LE(line.size(), columns + std::string("\x1b[1m\x1b[0m").size()) << line;
    }
    const std::string whole = std::regex_replace(output, std::regex("\r\n {18}"), " ");
    EXPECT_THAT(whole, AllOf(HasSubstr(Me(program) + ", since "), HasSubstr("s), lease ")));
    EXPECT_NE(whole, output);
  }
}

TEST_F(RedlatchInspectTest, ReportsAnUnusedName) {
  EXPECT_THAT(
      Redlatch({"inspect", "no\x1bsuch"}),
      Fails(1, AllOf(HasSubstr("there is no lock \"no\\x1bsuch\""), HasSubstr("redlatch ls --all")),
            IsEmpty()));
}

TEST_F(RedlatchInspectTest, AcceptsAnyNameThatALockCanHave) {
  const Client prefixed = NewClient({.key_prefix = "shop:"});
  for (const std::string& name : {std::string("-x"), std::string("--json"), std::string("a b\nc"),
                                  std::string("\xff\xfe"), std::string("t{ag}")}) {
    const auto lease = Must(SimpleLock(prefixed, name).Acquire());
    EXPECT_EQ(Of("shop:" + name, "(r['kind'], r['holding'])"), "('simple', 1)") << name;
  }
  EXPECT_EQ(Of("shop:\xff\xfe", "base64.b64decode(r['name_base64'])"), R"(b'shop:\xff\xfe')");
}

// Tests that `ls`, `inspect` and `leader` work for users that may only read, and at replicas.

struct RedlatchReadOnlyTest : RedlatchOutputTest {
  void SetUp() override {
    ASSERT_TRUE(simple_.try_lock());
    ASSERT_TRUE(writes_.try_lock());
    ASSERT_TRUE(permits_.try_acquire());
    leads_ = Must(election_.Campaign("here"));
  }

  // The words of the command in docs/operations.md that creates this user.
  static std::vector<std::string> RuleOf(const std::string& user) {
    return WordsFrom("ACL SETUSER " + user + " ", "```");
  }
  // The words of docs/operations.md from `first` up to `end`.
  static std::vector<std::string> WordsFrom(const std::string& first, const std::string& end) {
    const std::filesystem::path man = REDLATCH_MAN_PAGE;
    const std::string text = TextOf(man.parent_path().parent_path() / "operations.md");
    const size_t begin = text.find(first);
    EXPECT_NE(begin, std::string::npos);
    const std::string block = text.substr(begin, text.find(end, begin) - begin);
    return absl::StrSplit(block, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  }

  // Creates the documented user that may only read, and returns its URL.
  std::string Viewer() const {
    EXPECT_EQ(server_->Text(RuleOf("viewer")), "OK");
    return UrlOf("viewer:secret");
  }
  void ExpectToSeeAll(const std::string& url) {
    EXPECT_THAT(
        Redlatch({"leader", "leads", "--server", url}),
        Succeeds(StartsWith(absl::StrCat("here  epoch ", leads_.epoch().value(), "  since 20"))));
    EXPECT_THAT(Redlatch({"inspect", "leads", "--server", url}).output,
                AllOf(StartsWith("Election \"leads\": held\n"), HasSubstr("billing, value here")));
    const std::string list = Printed(Redlatch({"ls", "--json", "--server", url}));
    EXPECT_EQ(Json(list, "sorted(names)"), "['leads', 'permits', 'simple', 'writes']");
    for (const char* name : {"simple", "writes", "permits"}) {
      EXPECT_THAT(Redlatch({"inspect", name, "--server", url}), Succeeds(HasSubstr(name)));
    }
    EXPECT_THAT(Redlatch({"inspect", "simple", "--server", url}).output, HasSubstr("billing"));
  }

  const Client client_ = NewClient({.program = "billing"});
  SimpleLock simple_{client_, "simple", {.lease = absl::Minutes(5)}};
  ReentrantReadWriteLock writes_{client_, "writes", {.lease = absl::Minutes(5)}};
  Semaphore permits_{client_, "permits", 2, {.lease = absl::Minutes(5)}};
  Election election_{client_, "leads", {.lease = absl::Minutes(5)}};
  Leadership leads_;
};

TEST_F(RedlatchReadOnlyTest, DocumentedViewerMayReadAllLocks) { ExpectToSeeAll(Viewer()); }

TEST_F(RedlatchReadOnlyTest, ListTellsThatNamesMayNotBeRead) {
  const std::string viewer = Viewer();
  EXPECT_EQ(server_->Text({"ACL", "SETUSER", "viewer", "resetkeys", "~none:*"}), "OK");
  EXPECT_THAT(Redlatch({"ls", "--server", viewer}),
              Succeeds(IsEmpty(), HasSubstr("may not read some names; their locks are not shown")));
}

// The error tells the rules, and no more are needed.
TEST_F(RedlatchReadOnlyTest, ViewerMayBreakWithTheRulesThatTheErrorNames) {
  const std::string viewer = Viewer();
  for (const char* const name : {"simple", "writes", "permits", "leads"}) {
    const Outcome refused = Redlatch({"break", "--yes", name, "--server", viewer});
    EXPECT_EQ(refused.code, 123);
    const size_t rule = refused.errors.find("ACL SETUSER viewer ");
    ASSERT_NE(rule, std::string::npos) << refused.errors;
    EXPECT_THAT(refused.errors, HasSubstr("to break the "));
    const std::string line = refused.errors.substr(rule);
    EXPECT_THAT(line, AllOf(HasSubstr(absl::StrCat(" ~", name, " ")), Not(HasSubstr("~* ")),
                            Not(HasSubstr("[https")), Not(HasSubstr("+subscribe"))));
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \n"), absl::SkipEmpty());
    EXPECT_EQ(server_->Text(words), "OK");
    EXPECT_THAT(Redlatch({"break", "--yes", name, "--server", viewer}),
                Succeeds(HasSubstr("Broken.")));
  }
}

TEST_F(RedlatchReadOnlyTest, ViewerSeesReadersAndTheWriterThatWaits) {
  const std::string viewer = Viewer();
  const Client other = NewClient({.program = "other"});
  const auto reads = Must(ReentrantReadWriteLock(client_, "data").AcquireRead());
  const auto waiting = Waiting::For<ReentrantReadWriteLock>(other, "data");
  ASSERT_TRUE(AwaitQueued("redlatch:2:{data}:rw.writers"));
  EXPECT_THAT(Redlatch({"inspect", "data", "--server", viewer}).output,
              ContainsRegex("^Lock \"data\": read_write, read by 1\n"
                            "  held by .* billing, reading, lease .*\n"
                            "  waiting .* other, since .*\n"
                            "  waiting writers 1"));
}

TEST_F(RedlatchReadOnlyTest, ReplicaShowsAllLocks) {
  const auto replica = support::RedisServer::Start({.replica_of = server_->port()});
  ASSERT_TRUE(replica->AwaitInfo("master_link_status", "up"));
  ASSERT_TRUE(
      support::Await([&] { return replica->LockKeys().size() == server_->LockKeys().size(); }));
  ExpectToSeeAll(replica->url());
  EXPECT_THAT(Redlatch({"ls", "--server", replica->url()}).errors,
              AllOf(HasSubstr("warning"), HasSubstr("is a replica")));
  EXPECT_THAT(Redlatch({"ls"}).errors, IsEmpty());
}

// The user of the documented rule has all permissions that every kind of lock needs.
TEST_F(RedlatchReadOnlyTest, DocumentedAppUserMayUseEveryKind) {
  EXPECT_EQ(server_->Text(RuleOf("app")), "OK");
  const Outcome doctor = Redlatch({"doctor", "--json", "--server", UrlOf("app:password")});
  EXPECT_THAT(doctor.output, HasSubstr("taken, kept and released"));
}

TEST_F(RedlatchReadOnlyTest, DocumentedDoctorUserMayCheckEverything) {
  std::vector<std::string> rule = RuleOf("app");
  const std::vector<std::string> further = WordsFrom("+info +config|get", "`");
  rule.insert(rule.end(), further.begin(), further.end());
  EXPECT_EQ(server_->Text(rule), "OK");
  EXPECT_EQ(server_->Text({"CONFIG", "SET", "latency-monitor-threshold", "100"}), "OK");
  const Outcome doctor = Redlatch({"doctor", "--json", "--server", UrlOf("app:password")});
  EXPECT_THAT(doctor.output, Not(HasSubstr("\"level\":\"unchecked\""))) << doctor.output;
}

// Tests how `redlatch ls`, `inspect` and `break` treat cached grants.

// Longer than a test on a busy machine.
const LockOptions kCached{.lease = absl::Minutes(10), .cache_for = absl::Minutes(10)};

struct RedlatchCachedTest : RedlatchOutputTest {
  const Client client_ = NewClient({.program = "billing"});
};

TEST_F(RedlatchCachedTest, CachedGrantsAreShownAsKept) {
  SimpleLock simple(client_, "simple", kCached), plain(client_, "plain");
  ReentrantLock reentrant(client_, "reentrant", kCached);
  ReentrantReadWriteLock read(client_, "read", kCached);
  simple.lock(), simple.unlock();
  reentrant.lock(), reentrant.unlock();
  read.lock_shared(), read.unlock_shared();
  plain.lock();
  for (const std::string name : {"simple", "reentrant", "read"}) {
    EXPECT_THAT(Redlatch({"inspect", name}).output,
                ContainsRegex("\n  held by +" + Me("billing") + ".*, kept, "));
    EXPECT_EQ(Of(name, "[h['kept'] for h in r['holders']]"), "[True]");
  }
  EXPECT_THAT(Redlatch({"inspect", "plain"}).output, Not(HasSubstr("kept")));
  EXPECT_EQ(Of("plain", "[h['kept'] for h in r['holders']]"), "[False]");
  const std::string list = Redlatch({"ls"}).output;
  EXPECT_THAT(
      list,
      AllOf(ContainsRegex("simple .*billing, kept\n"), ContainsRegex("reentrant .*billing, kept\n"),
            ContainsRegex("read .*billing, kept\n"), ContainsRegex("plain .*billing\n")));
  EXPECT_EQ(Json(Redlatch({"ls", "--json"}).output,
                 "[names[n]['holder']['kept'] for n in ('simple', 'reentrant', 'read', 'plain')]"),
            "[True, True, True, False]");
  plain.unlock();
}

TEST_F(RedlatchCachedTest, ShowsTheAgeAfterARenewalReservedTokens) {
  SimpleLock lock(client_, "job", kCached);
  { ASSERT_TRUE(lock.Acquire().ok()); }
  ASSERT_TRUE(support::Await(
      [&] {
        return server_->Text({"GET", "redlatch:2:{job}:fence"}).find(' ') != std::string::npos;
      },
      absl::Seconds(20)));
  EXPECT_EQ(Of("job", "'since_us' in r['holders'][0]"), "True");
}

TEST_F(RedlatchCachedTest, WaitersAreNotShownAsKept) {
  SimpleLock plain(NewClient({.program = "first"}), "job"), waits(client_, "job", kCached);
  plain.lock();
  const Waiting waiting([&](const AcquireOptions& how) { (void)waits.Acquire(how); });
  ASSERT_TRUE(AwaitQueued("redlatch:2:{job}:simple.queue"));
  EXPECT_THAT(Redlatch({"inspect", "job"}).output, Not(HasSubstr("kept")));
  plain.unlock();
}

// Tests `redlatch break`, which takes a lock from its holder.

struct RedlatchBreakTest : RedlatchOutputTest {
  static constexpr absl::Duration kLong = absl::Hours(1);
  const Client client_ = NewClient({.program = "billing"});
  const Client other_ = NewClient({.program = "other"});
};

TEST_F(RedlatchBreakTest, NamesTheHolderNotifiesItAndNamesTheNextOne) {
  const auto lease = Must(SimpleLock(client_, "job", {.lease = kLong}).Acquire());
  SimpleLock theirs(other_, "job");
  absl::StatusOr<Lease> got = absl::UnknownError("");
  const Waiting waiting([&](const AcquireOptions& how) { got = theirs.Acquire(how); });
  ASSERT_TRUE(AwaitQueued("redlatch:2:{job}:simple.queue"));

  EXPECT_THAT(
      Redlatch({"break", "--yes", "job"}),
      Succeeds(
          AllOf(ContainsRegex("the lock \"job\" is held by:\n  " + Me("billing") + ", since .*\n"),
                ContainsRegex("Broken. It is now held by:\n  " + Me("other") + ", since "))));
  EXPECT_TRUE(Fires(lease.lost()));
  EXPECT_FALSE(lease.valid());
}

TEST_F(RedlatchBreakTest, BreaksEveryKindForAllHolders) {
  const auto reentered = Must(ReentrantLock(client_, "reentrant", {.lease = kLong}).Acquire());
  const auto reads = Must(ReentrantReadWriteLock(client_, "read", {.lease = kLong}).AcquireRead());
  const auto reads_too =
      Must(ReentrantReadWriteLock(other_, "read", {.lease = kLong}).AcquireRead());
  const auto permit = Must(Semaphore(client_, "slots", 4, {.lease = kLong}).Acquire(2));
  const auto leads = Must(Election(client_, "election", {.lease = kLong}).Campaign("value"));
  for (const char* const name : {"reentrant", "read", "slots", "election"}) {
    EXPECT_THAT(Redlatch({"break", "--yes", name}),
                Succeeds(HasSubstr("Broken. It is free now.\n")));
  }
  EXPECT_TRUE(Fires(reentered.lost()));
  EXPECT_TRUE(Fires(reads.lost()));
  EXPECT_TRUE(Fires(reads_too.lost()));
  EXPECT_TRUE(Fires(permit.lost()));
  EXPECT_TRUE(Fires(leads.lost()));
}

TEST_F(RedlatchBreakTest, EndsTheCommandOfRedlatchRun) {
  const auto run = StartRedlatch({"run", "job", "--", "sh", "-c", "echo held; exec sleep 60"});
  ASSERT_EQ(run->pipe().ReadLine(), "held");
  EXPECT_THAT(Redlatch({"break", "--yes", "job"}).output,
              ContainsRegex(absl::StrCat(Host(), ":[0-9]+ sh \\(run\\)")));
  EXPECT_EQ(CodeOf(*run), 122);
  EXPECT_THAT(Errors(), HasSubstr("is lost (someone forced its release"));
}

TEST_F(RedlatchBreakTest, PrintsJson) {
  const auto lease = Must(SimpleLock(client_, "job").Acquire());
  const std::string broken = "(rows[0]['broken'], rows[0]['holding'])";
  EXPECT_EQ(Json(Redlatch({"break", "-yj", "job"}).output, broken), "(True, 0)");
  EXPECT_EQ(Json(Redlatch({"break", "-yj", "job"}).output, broken), "(False, 0)");
}

TEST_F(RedlatchBreakTest, AsksOnATerminal) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  const auto lease = Must(SimpleLock(client_, "job").Acquire());
  for (const char* const answer : {"n", " ", "what"}) {
    EXPECT_THAT(
        OnTerminal("break job", answer),
        Fails(1, _,
              AllOf(HasSubstr("is held by:"), HasSubstr("[y/N]"), HasSubstr("Nothing was done."))));
  }
  EXPECT_TRUE(lease.valid());
  EXPECT_THAT(OnTerminal("break job", "y"), Succeeds(HasSubstr("Broken.")));
  EXPECT_TRUE(Fires(lease.lost()));
}

TEST_F(RedlatchBreakTest, RequiresYesWithoutATerminal) {
  const auto lease = SimpleLock(client_, "job").Acquire();
  EXPECT_THAT(Redlatch({"break", "job"}), Fails(125, HasSubstr("--yes")));
  EXPECT_TRUE(lease->valid());
  EXPECT_EQ(server_->Integer({"EXISTS", "job"}), 1);
}

TEST_F(RedlatchBreakTest, DoesNothingIfTheHolderHasChanged) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  auto lease = Must(SimpleLock(client_, "job").Acquire());
  const auto command = StartOnTerminal("exec " REDLATCH_COMMAND " break job");
  ASSERT_THAT(command->pipe().ReadLine().value_or(""), HasSubstr("is held by:"));
  ASSERT_THAT(command->pipe().ReadLine().value_or(""), HasSubstr("billing"));
  ASSERT_TRUE(lease.Release().ok());
  const auto next = Must(SimpleLock(other_, "job").Acquire());
  command->pipe().WriteLine("y");
  EXPECT_THAT(OutputOf(*command), HasSubstr("nothing was done"));
  EXPECT_EQ(CodeOf(*command), 1);
  EXPECT_TRUE(next.valid());
}

TEST_F(RedlatchBreakTest, BreaksTheLockOfAForeignProgram) {
  server_->Text({"SET", "job", "another", "NX", "PX", "60000"});
  EXPECT_THAT(Redlatch({"break", "--yes", "job"}),
              Succeeds(HasSubstr("\"another\", not by redlatch")));
  EXPECT_EQ(server_->Integer({"EXISTS", "job"}), 0);
}

TEST_F(RedlatchBreakTest, LeavesKeysThatMayBeData) {
  server_->Text({"SET", "price", "twelve"});
  server_->Text({"RPUSH", "jobs", "1"});
  server_->Text({"HSET", "vehicle", "kind", "car", "hold", "1"});
  EXPECT_EQ(Redlatch({"inspect", "vehicle"}).code, 1);
  for (const char* const key : {"price", "jobs", "vehicle"}) {
    EXPECT_THAT(Redlatch({"break", "--yes", key}),
                Fails(123, HasSubstr("may be another program's data"), IsEmpty()));
    EXPECT_EQ(server_->Integer({"EXISTS", key}), 1);
  }
  // A fence shows that it is a lock.
  server_->Text({"SET", "redlatch:2:{price}:fence", "1", "PX", "60000"});
  EXPECT_EQ(Redlatch({"break", "--yes", "price"}).code, 0) << Errors();
  EXPECT_EQ(server_->Integer({"EXISTS", "price"}), 0);
}

TEST_F(RedlatchBreakTest, RefusesAnAuxiliaryKeyAndDeletesNothing) {
  const auto lease = Must(SimpleLock(client_, "job").Acquire());
  const auto read = ReentrantReadWriteLock(client_, "{data}").AcquireRead();
  const auto client = server_->Command({"KEYS", "redlatch:client:*"}).elements.at(0).text;
  // Two auxiliary keys; the first one has lost its expiry.
  const std::string keys[] = {"redlatch:2:{job}:fence", "redlatch:rw.tag:{data}:readers"};
  server_->Command({"PERSIST", keys[0]});
  for (const std::string& key : keys) {
    EXPECT_THAT(Redlatch({"break", "--yes", key}),
                Fails(125, HasSubstr("\"" + key + "\" is a key of the lock \"" +
                                     (key == keys[0] ? "job" : "{data}") + "\"")));
    EXPECT_EQ(server_->Integer({"EXISTS", key}), 1);
    EXPECT_EQ(Redlatch({"inspect", key}).code, 125);
  }
  EXPECT_EQ(Redlatch({"break", "--yes", client}).code, 125);
  EXPECT_EQ(server_->Integer({"EXISTS", client}), 1);
  EXPECT_TRUE(lease.valid());
}

TEST_F(RedlatchBreakTest, RefusesLatchesAndOwnKinds) {
  CountDownLatch latch(client_, "latch", 5);
  ASSERT_TRUE(latch.CountDown(2).ok());
  EXPECT_THAT(Redlatch({"break", "--yes", "latch"}),
              Fails(123, AllOf(HasSubstr("a latch has no holder"), HasSubstr("3 more"))));
  EXPECT_EQ(latch.Count().value_or(-1), 3);

  server_->Text({"HSET", "own", "kind", "cooldown"});
  server_->Text({"SET", "redlatch:2:{own}:fence", "1"});
  EXPECT_THAT(Redlatch({"break", "--yes", "own"}), Fails(123, HasSubstr("ForceRelease()")));
  EXPECT_EQ(server_->Integer({"EXISTS", "own"}), 1);
}

TEST_F(RedlatchBreakTest, RefusesALockOfAnotherVersion) {
  server_->Text({"HSET", "job", "kind", "reentrant/3", "owner", "x", "holds", "1"});
  server_->Text({"PEXPIRE", "job", "60000"});
  EXPECT_THAT(Redlatch({"break", "--yes", "job"}),
              Fails(123, AllOf(HasSubstr("another version of redlatch, \"reentrant/3\""),
                               HasSubstr("docs/upgrading.md"))));
  EXPECT_THAT(Redlatch({"inspect", "job"}).output, HasSubstr("another version of redlatch"));
  EXPECT_EQ(server_->Integer({"HLEN", "job"}), 3);
}

TEST_F(RedlatchBreakTest, DoesNothingIfTheLockIsFree) {
  ASSERT_TRUE(SimpleLock(client_, "free").Acquire().ok());
  EXPECT_THAT(Redlatch({"break", "--yes", "free"}), Succeeds(HasSubstr("nothing to break")));
  EXPECT_THAT(Redlatch({"break", "--yes", "unused"}), Fails(1, HasSubstr("there is no lock")));
}

// The lock of docs/tutorials/06-a-lock-of-your-own.md, whose key is a string like a simple lock's.
struct RedlatchUsersLockTest : RedlatchBreakTest {
  static constexpr char kQueue[] = "redlatch:2:{job}:x.priority.queue";

  // Waits with priority 9 through a client of its own.
  Waiting Waits(absl::StatusOr<Lease>* got = nullptr) const {
    return Waiting([lock = std::make_shared<PriorityLock>(NewClient({.program = "waits"}), "job"),
                    got](const AcquireOptions& how) {
      absl::StatusOr<Lease> lease = lock->AcquireWithPriority(9, how);
      if (got != nullptr) *got = std::move(lease);
    });
  }
};

TEST_F(RedlatchUsersLockTest, ListAndInspectShowKindAndWaiters) {
  PriorityLock lock(client_, "job", {.lease = kLong});
  const auto lease = Must(lock.Acquire());
  const Waiting first = Waits(), second = Waits();
  ASSERT_TRUE(AwaitQueued(kQueue, 2));
  for (const bool lists : {false, true}) {
    const std::string json =
        Redlatch(lists ? Words{"ls", "--json"} : Words{"inspect", "--json", "job"}).output;
    EXPECT_EQ(Json(json, "(rows[0]['kind'], rows[0]['holding'], rows[0]['waiting'])"),
              "('priority', 1, 2)");
  }
  EXPECT_THAT(
      Redlatch({"inspect", "job"}).output,
      AllOf(StartsWith("Lock \"job\": a kind of its own, \"priority\"\n"),
            ContainsRegex("held by +" + Me("billing")),
            ContainsRegex("waiting +2 waiters of " + Me("waits") + ", the first since 20")));
}

TEST_F(RedlatchUsersLockTest, WaitersOfAFreeLockAreFoundAmongManyKeys) {
  std::vector<std::string> keys = {"MSET"};
  for (int i = 0; i < 5000; ++i) {
    keys.push_back(absl::StrCat("other:", i));
    keys.emplace_back("1");
  }
  server_->Text(keys);
  server_->Text({"ZADD", "redlatch:2:{a*[b]?}:x.priority.queue", "5", std::string(32, 'a') + ":1"});
  server_->Text({"ZADD", "redlatch:2:{a*[b]?}:x.priority.queue", "6", std::string(32, 'b') + ":1"});
  server_->Text({"ZADD", "redlatch:2:{axb?}:x.other.queue", "5", std::string(32, 'a') + ":1"});
  EXPECT_EQ(Json(Redlatch({"inspect", "--json", "a*[b]?"}).output,
                 "(rows[0]['kind'], rows[0]['holding'], len(rows[0]['waiters']))"),
            "('priority', 0, 2)");
}

TEST_F(RedlatchUsersLockTest, BreakWakesItsWaiters) {
  PriorityLock lock(client_, "job", {.lease = kLong});
  const auto lease = Must(lock.Acquire());
  absl::StatusOr<Lease> got = absl::UnknownError("");
  const std::string holder = server_->Text({"GET", "job"});
  const Waiting waiting = Waits(&got);
  // Its last request says that it listens, so it does not ask again soon.
  ASSERT_TRUE(support::Await([&] {
    const auto records = server_->Do({"HVALS", "redlatch:2:{job}:x.priority.waiters"}).elements;
    if (records.size() != 1) return false;
    const std::vector<std::string> words = absl::StrSplit(records[0].text, ' ');
    return words.size() > 9 && words[9] == "0";
  }));
  const absl::Time begun = absl::Now();
  const std::string broken = Printed(Redlatch({"break", "--yes", "job"}));
  EXPECT_TRUE(Fires(lease.lost()));
  EXPECT_TRUE(support::Await([&] {
    const std::string now = server_->Text({"GET", "job"});
    return !now.empty() && now != holder;
  }));
  EXPECT_LT(absl::Now() - begun, absl::Seconds(5)) << "the waiter's heartbeat is later";
  EXPECT_THAT(broken, Not(HasSubstr("It is free now.")));
}

// Tests `redlatch capacity`, which shows or sets how many permits a semaphore has.

struct RedlatchCapacityTest : RedlatchOutputTest {
  const Client client_ = NewClient();
};

TEST_F(RedlatchCapacityTest, PrintsJson) {
  const std::string json = "{\"name\":\"slots\",\"capacity\":8}\n";
  EXPECT_EQ(Redlatch({"capacity", "--json", "slots", "8"}).output, json);
  EXPECT_EQ(Redlatch({"capacity", "-j", "slots"}).output, json);
}

TEST_F(RedlatchCapacityTest, PrintsAndSetsTheCapacity) {
  ASSERT_TRUE(Semaphore(client_, "slots", 3).Acquire().ok());
  EXPECT_THAT(Redlatch({"capacity", "slots"}), Succeeds("3\n"));
  EXPECT_EQ(Redlatch({"capacity", "slots", "2"}).output,
            "semaphore \"slots\": 2 permits in all, 3 before\n");
  EXPECT_EQ(Redlatch({"capacity", "slots"}).output, "2\n");
}

TEST_F(RedlatchCapacityTest, NewCapacityOverridesTheOption) {
  const auto run = [&](const char* capacity) {
    return Redlatch({"run", "--capacity", capacity, "slots", "--", "echo", "ran"});
  };
  ASSERT_EQ(run("3").code, 0);
  const Outcome refused = run("4");
  EXPECT_EQ(refused.code, 123);
  EXPECT_THAT(refused.errors,
              HasSubstr("semaphore \"slots\" has 3 permits in all, not 4; say --capacity 3, or "
                        "change it for everyone: redlatch capacity slots 4 ["));
  EXPECT_EQ(Redlatch({"capacity", "slots", "4"}).code, 0);
  EXPECT_EQ(run("4").output, "ran\n");
  EXPECT_EQ(run("3").output, "ran\n") << "the capacity that was set counts, not the option";
}

TEST_F(RedlatchCapacityTest, SetsTheCapacityOfAnUnusedName) {
  EXPECT_THAT(Redlatch({"capacity", "slots", "5"}),
              Succeeds(StartsWith("semaphore \"slots\": 5 permits in all, a new name")));
  EXPECT_EQ(Redlatch({"capacity", "slots"}).output, "5\n");
}

TEST_F(RedlatchCapacityTest, ReportsAMissingSemaphore) {
  EXPECT_THAT(Redlatch({"capacity", "no\x1bsuch"}),
              Fails(1, HasSubstr("there is no semaphore \"no\\x1bsuch\"")));
}

TEST_F(RedlatchCapacityTest, RefusesOtherKeys) {
  const auto lease = SimpleLock(client_, "job").Acquire();
  server_->Text({"RPUSH", "jobs", "1"});
  for (const char* const name : {"job", "jobs"}) {
    const int64_t keys = server_->Integer({"DBSIZE"});
    for (const Words& words : {Words{"capacity", name}, Words{"capacity", name, "3"}}) {
      EXPECT_THAT(Redlatch(words), Fails(123, HasSubstr("is not a semaphore")));
    }
    EXPECT_EQ(server_->Integer({"DBSIZE"}), keys);
  }
}

}  // namespace
}  // namespace redlatch
