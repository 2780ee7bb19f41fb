// `redlatch inspect`: all that is known of one lock.
#include "tests/conformance/cli/command_fixture.h"

namespace redlatch {
namespace {

using ::testing::ContainsRegex;

class RedlatchInspectTest : public RedlatchLookTest {
 protected:
  std::string Text(const std::string& name) const {
    const Outcome outcome = Redlatch({"inspect", "--", name});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    return outcome.output;
  }
  // An expression of `r`, which is what the command says.
  std::string Of(const std::string& name, const std::string& expression) const {
    const Outcome outcome = Redlatch({"inspect", "--json", "--", name});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    return Json(outcome.output, "[" + expression + " for r in rows][0]");
  }

  const Client client_ = NewClient({.program = "billing"});
  const Client second_ = NewClient({.program = "second"});
  const Client third_ = NewClient({.program = "third"});
};

TEST_F(RedlatchInspectTest, TellsWhoHasTheLockSinceWhenAndWhoWaitsInOrder) {
  SimpleLock lock(client_, "job");
  const auto lease = lock.Acquire();
  ASSERT_TRUE(lease.ok());
  SimpleLock second(second_, "job");
  SimpleLock third(third_, "job");
  const Waiting one([&](const AcquireOptions& how) { (void)second.Acquire(how); });
  ASSERT_TRUE(AwaitQueued("redlatch:2:{job}:simple.queue", 1));
  const Waiting two([&](const AcquireOptions& how) { (void)third.Acquire(how); });
  ASSERT_TRUE(AwaitQueued("redlatch:2:{job}:simple.queue", 2));

  const std::string token = absl::StrCat(lease->fencing_token().value());
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

TEST_F(RedlatchInspectTest, TellsReadersFromWriters) {
  ReentrantReadWriteLock first(client_, "data");
  const auto reads = first.AcquireRead();
  ReentrantReadWriteLock second(second_, "data");
  const auto reads_too = second.AcquireRead();
  ReentrantReadWriteLock third(third_, "data");
  const Waiting waiting([&](const AcquireOptions& how) { (void)third.AcquireWrite(how); });
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

TEST_F(RedlatchInspectTest, TellsOwnersOfAReentrantLock) {
  ReentrantLock lock(client_, "job");
  const auto lease = lock.Acquire({.owner = Owner("night shift")});
  ASSERT_TRUE(lease.ok());
  EXPECT_THAT(Text("job"), HasSubstr(", owner night shift, since "));
  EXPECT_EQ(Of("job", "(r['kind'], r['holders'][0]['owner'])"),
            "('reentrant', 'user:night shift')");
}

TEST_F(RedlatchInspectTest, TellsPermitsOfASemaphore) {
  Semaphore slots(client_, "slots", 4);
  const auto three = slots.Acquire(3);
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

TEST_F(RedlatchInspectTest, TellsHowFarALatchIsAndWhoWaitsForIt) {
  CountDownLatch latch(client_, "import", 12);
  ASSERT_TRUE(latch.CountDown(5).ok());
  CountDownLatch theirs(second_, "import", 12);
  const Waiting waiting([&](const AcquireOptions& how) { (void)theirs.Wait({.stop = how.stop}); });
  ASSERT_TRUE(AwaitQueued("redlatch:2:{import}:latch.queue"));
  EXPECT_THAT(Text("import"),
              AllOf(StartsWith("Latch \"import\": 7 to go\n"),
                    ContainsRegex("waiting +" + Me("second") + ", since .*\n"),
                    ContainsRegex("made for +12\n"), ContainsRegex("forgotten in +2[34]h")));
  EXPECT_EQ(Of("import", "(r['kind'], r['to_go'], r['total'], r['waiting'], 'holders' in r)"),
            "('latch', 7, 12, 1, False)");
}

TEST_F(RedlatchInspectTest, TellsWhenAWaiterOfALatchCameHoweverOftenItHasAskedSince) {
  CountDownLatch latch(client_, "import", 12);
  ASSERT_TRUE(latch.CountDown(5).ok());
  CountDownLatch theirs(second_, "import", 12);
  const Waiting waiting([&](const AcquireOptions& how) { (void)theirs.Wait({.stop = how.stop}); });
  ASSERT_TRUE(AwaitQueued("redlatch:2:{import}:latch.queue"));
  const std::string hold =
      server_->Command({"ZRANGE", "redlatch:2:{import}:latch.queue", "0", "0"}).elements[0].text;
  const std::string came = server_->Text({"ZSCORE", "redlatch:2:{import}:latch.queue", hold});
  // As a heartbeat, an hour later, leaves it.
  server_->Text({"HSET", "redlatch:2:{import}:latch.waiters", hold,
                 absl::StrCat(absl::ToUnixMicros(absl::Now() + absl::Hours(1)), " 1 1 1 1 1 0")});
  EXPECT_EQ(Of("import", "r['waiters'][0]['since_us']"), came);
}

TEST_F(RedlatchInspectTest, TellsOfAForeignHolderWhatItHasStored) {
  server_->Text({"SET", "job", "cron@\x1bhost", "NX", "PX", "60000"});
  EXPECT_THAT(Text("job"), AllOf(StartsWith("Lock \"job\": simple, held\n"),
                                 HasSubstr("\"cron@\\x1bhost\", not by redlatch, lease ")));
  server_->Text({"SET", "endless", "somebody"});
  EXPECT_THAT(Text("endless"), HasSubstr("not by redlatch, without end\n"));
  EXPECT_EQ(Of("endless", "(r['holders'][0]['hold'], r['holders'][0]['remaining_ms'])"),
            "('somebody', None)");
}

TEST_F(RedlatchInspectTest, TellsOfAKindOfAProgramsOwnWhatItsKeysSay) {
  SimpleLock donor(client_, "donor");
  const auto lease = donor.Acquire();
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
                    // In no order, since only its class knows that of service.
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

TEST_F(RedlatchInspectTest, SaysThatNobodyHoldsIt) {
  SimpleLock lock(client_, "job");
  ASSERT_TRUE(lock.Acquire().ok());
  EXPECT_THAT(Text("job"), AllOf(StartsWith("Lock \"job\": nobody holds it\n"),
                                 HasSubstr("last token"), Not(HasSubstr("held by"))));
  EXPECT_EQ(Of("job", "(r['kind'], r['holding'], r['holders'], r['waiters'])"),
            "('unknown', 0, [], [])");
}

TEST_F(RedlatchInspectTest, SaysThatNobodyUsesTheName) {
  const Outcome outcome = Redlatch({"inspect", "no\x1bsuch"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, IsEmpty());
  EXPECT_THAT(outcome.errors,
              AllOf(HasSubstr("there is no lock \"no\\x1bsuch\""), HasSubstr("redlatch ls --all")));
  EXPECT_EQ(Redlatch({"inspect", "--server=embedded:" + directory_.path() + "/home", "job"}).code,
            1);
}

TEST_F(RedlatchInspectTest, TakesAnyNameThatALockCanHave) {
  const Client prefixed = NewClient({.key_prefix = "shop:"});
  for (const std::string& name : {std::string("-x"), std::string("--json"), std::string("a b\nc"),
                                  std::string("\xff\xfe"), std::string("t{ag}")}) {
    SimpleLock lock(prefixed, name);
    const auto lease = lock.Acquire();
    ASSERT_TRUE(lease.ok());
    EXPECT_EQ(Of("shop:" + name, "(r['kind'], r['holding'])"), "('simple', 1)") << name;
  }
  EXPECT_EQ(Of("shop:\xff\xfe", "base64.b64decode(r['name_base64'])"), R"(b'shop:\xff\xfe')");
}

// Whoever may only read, and whatever server only has a copy: `ls` and `inspect` work all the same.

class OnlookerTest : public RedlatchLookTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(simple_.try_lock());
    ASSERT_TRUE(writes_.try_lock());
    ASSERT_TRUE(permits_.try_acquire());
  }

  // The words of the command that docs/operations.md has for this user.
  static std::vector<std::string> RuleOf(const std::string& user) {
    return WordsFrom("ACL SETUSER " + user + " ", "```");
  }
  // Of docs/operations.md.
  static std::vector<std::string> WordsFrom(const std::string& first, const std::string& end) {
    const std::filesystem::path man = REDLATCH_MAN_PAGE;
    const std::string text = TextOf(man.parent_path().parent_path() / "operations.md");
    const size_t begin = text.find(first);
    EXPECT_NE(begin, std::string::npos);
    const std::string block = text.substr(begin, text.find(end, begin) - begin);
    return absl::StrSplit(block, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  }

  void ExpectToSeeAll(const std::string& url) {
    const Outcome list = Redlatch({"ls", "--json", "--server", url});
    EXPECT_EQ(list.code, 0) << list.errors;
    EXPECT_EQ(Json(list.output, "sorted(names)"), "['permits', 'simple', 'writes']");
    for (const char* name : {"simple", "writes", "permits"}) {
      const Outcome look = Redlatch({"inspect", name, "--server", url});
      EXPECT_EQ(look.code, 0) << look.errors;
      EXPECT_THAT(look.output, HasSubstr(name));
    }
    EXPECT_THAT(Redlatch({"inspect", "simple", "--server", url}).output, HasSubstr("billing"));
  }

  const Client client_ = NewClient({.program = "billing"});
  SimpleLock simple_{client_, "simple", {.lease = absl::Minutes(5)}};
  ReentrantReadWriteLock writes_{client_, "writes", {.lease = absl::Minutes(5)}};
  Semaphore permits_{client_, "permits", 2, {.lease = absl::Minutes(5)}};
};

TEST_F(OnlookerTest, MayBeAUserOfTheRuleThatTheDocumentHas) {
  EXPECT_EQ(server_->Text(RuleOf("looker")), "OK");
  ExpectToSeeAll(absl::StrCat("redis://looker:secret@127.0.0.1:", server_->port()));
}

TEST_F(OnlookerTest, MayAskAReplica) {
  const auto replica = support::RedisServer::Start({.replica_of = server_->port()});
  ASSERT_TRUE(replica->AwaitInfo("master_link_status", "up"));
  ASSERT_TRUE(
      support::Await([&] { return replica->LockKeys().size() == server_->LockKeys().size(); }));
  ExpectToSeeAll(replica->url());
  EXPECT_THAT(Redlatch({"ls", "--server", replica->url()}).errors,
              AllOf(HasSubstr("warning"), HasSubstr("is a replica")));
  EXPECT_THAT(Redlatch({"ls"}).errors, IsEmpty());
}

// A user of locks of the document's rule has all that each of them needs.
TEST_F(OnlookerTest, AUserOfTheDocumentsRuleMayUseLocksOfEachKind) {
  EXPECT_EQ(server_->Text(RuleOf("app")), "OK");
  const Outcome doctor =
      Redlatch({"doctor", "--json", "--server",
                absl::StrCat("redis://app:password@127.0.0.1:", server_->port())});
  EXPECT_THAT(doctor.output, HasSubstr("taken, kept and released"));
}

TEST_F(OnlookerTest, ADoctorWithTheDocumentsFurtherRightsLooksAtAll) {
  std::vector<std::string> rule = RuleOf("app");
  const std::vector<std::string> further = WordsFrom("+info +config|get", "`");
  rule.insert(rule.end(), further.begin(), further.end());
  EXPECT_EQ(server_->Text(rule), "OK");
  EXPECT_EQ(server_->Text({"CONFIG", "SET", "latency-monitor-threshold", "100"}), "OK");
  const Outcome doctor =
      Redlatch({"doctor", "--json", "--server",
                absl::StrCat("redis://app:password@127.0.0.1:", server_->port())});
  EXPECT_THAT(doctor.output, Not(HasSubstr("\"level\":\"unchecked\""))) << doctor.output;
}

// Locks that their clients may keep, as `redlatch ls`, `inspect` and `break` show them.

const LockOptions kKept{.keep = absl::Seconds(20)};

class RedlatchKeptTest : public RedlatchLookTest {
 protected:
  std::string Inspected(const std::string& name, const std::string& expression) const {
    return Json(Redlatch({"inspect", "--json", name}).output,
                "[" + expression + " for r in rows][0]");
  }

  const Client client_ = NewClient({.program = "billing"});
};

TEST_F(RedlatchKeptTest, AreShownAsKept) {
  SimpleLock simple(client_, "simple", kKept), plain(client_, "plain");
  ReentrantLock reentrant(client_, "reentrant", kKept);
  ReentrantReadWriteLock read(client_, "read", kKept);
  simple.lock(), simple.unlock();
  reentrant.lock(), reentrant.unlock();
  read.lock_shared(), read.unlock_shared();
  plain.lock();
  for (const std::string name : {"simple", "reentrant", "read"}) {
    EXPECT_THAT(Redlatch({"inspect", name}).output,
                ContainsRegex("\n  held by +" + Me("billing") + ".*, kept, "));
    EXPECT_EQ(Inspected(name, "[h['kept'] for h in r['holders']]"), "[True]");
  }
  EXPECT_THAT(Redlatch({"inspect", "plain"}).output, Not(HasSubstr("kept")));
  EXPECT_EQ(Inspected("plain", "[h['kept'] for h in r['holders']]"), "[False]");
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

TEST_F(RedlatchKeptTest, ShowsTheAgeAlthoughARenewalReservedTokens) {
  SimpleLock lock(client_, "job", kKept);
  { ASSERT_TRUE(lock.Acquire().ok()); }
  ASSERT_TRUE(support::Await(
      [&] {
        return server_->Text({"GET", "redlatch:2:{job}:fence"}).find(' ') != std::string::npos;
      },
      absl::Seconds(5)));
  EXPECT_EQ(Inspected("job", "'since_us' in r['holders'][0]"), "True");
}

TEST_F(RedlatchKeptTest, WaitersAreNotShownAsKept) {
  SimpleLock plain(NewClient({.program = "first"}), "job"), waits(client_, "job", kKept);
  plain.lock();
  const Waiting waiting([&](const AcquireOptions& how) { (void)waits.Acquire(how); });
  ASSERT_TRUE(AwaitQueued("redlatch:2:{job}:simple.queue"));
  EXPECT_THAT(Redlatch({"inspect", "job"}).output, Not(HasSubstr("kept")));
  plain.unlock();
}

TEST_F(RedlatchKeptTest, AreBrokenAsOthersAre) {
  SimpleLock lock(client_, "job", kKept);
  lock.lock(), lock.unlock();
  const Outcome broken = Redlatch({"break", "--yes", "job"});
  EXPECT_EQ(broken.code, 0) << broken.errors;
  EXPECT_EQ(server_->Integer({"EXISTS", "job"}), 0);
}

}  // namespace
}  // namespace redlatch
