
#include "tests/sim/lua/latch/fixture.h"

namespace redlatch {
namespace {

// Making it.

TEST_F(LatchScripts, FirstCallCreatesHash) {
  EXPECT_EQ(Create(12), Made(12));
  EXPECT_EQ(server_->Text({"HGET", name_, "kind"}), "latch/2");
  EXPECT_EQ(server_->Text({"HGET", name_, "incarnation"}), Incarnation());
  EXPECT_EQ(server_->Text({"HGET", name_, "total"}), "12");
  EXPECT_EQ(server_->Text({"HGET", name_, "count"}), "12");
  EXPECT_EQ(Keys(), 1);
  EXPECT_EQ(Count(), "12");
}

TEST_F(LatchScripts, OtherTotalIsRefusedByName) {
  Create(12);
  const std::vector<std::string> before = Stored();
  EXPECT_THAT(Create(13, Incarnation(2)),
              AllOf(StartsWith("REFUSED "), HasSubstr(" 12"), HasSubstr(" 13")));
  EXPECT_EQ(Stored(), before);
  CountDown("job", 12);
  EXPECT_THAT(Create(0, Incarnation(2)), StartsWith("REFUSED ")) << "the total, not the count";
  EXPECT_EQ(Count(), "0");
}

TEST_F(LatchScripts, LargeCountIsExact) {
  const int64_t large = (int64_t{1} << 53) - 1;
  EXPECT_EQ(Create(large), Made(large));
  EXPECT_EQ(CountDown("job"), absl::StrCat(large - 1));
  EXPECT_EQ(Count(), absl::StrCat(large - 1));
  EXPECT_EQ(Create(large, Incarnation(2)), Made(large - 1));
  EXPECT_THAT(Create(large - 1, Incarnation(2)),
              HasSubstr(absl::StrCat(large, ", not of ", large - 1)));
  EXPECT_THAT(CountDown("other", large), HasSubstr(absl::StrCat(large - 1, " to go, not ", large)));
  EXPECT_EQ(CountDown("rest", large - 1), "0");
}

// Counting.

TEST_F(LatchScripts, EachIdCountsOnce) {
  Create(10);
  EXPECT_EQ(CountDown("a"), "9");
  EXPECT_EQ(CountDown("a"), "9");
  EXPECT_EQ(CountDown("b", 4), "5");
  EXPECT_EQ(CountDown("a", 5), "5") << "with another number, too";
  EXPECT_EQ(CountDown("b", 4), "5");
  EXPECT_EQ(CountDown("b", 99), "5") << "what it wants does not matter";
  EXPECT_EQ(CountDown("c", 5), "0");
  EXPECT_EQ(CountDown("c", 5), "0") << "the repeat of the last";
  EXPECT_EQ(CountDown("a"), "0");
}

TEST_F(LatchScripts, CountBelowZeroIsRefused) {
  Create(3);
  CountDown("a");
  const std::vector<std::string> before = Stored();
  EXPECT_THAT(CountDown("b", 7), AllOf(StartsWith("REFUSED "), HasSubstr(" 2 "), HasSubstr(" 7")));
  EXPECT_EQ(Stored(), before);
  EXPECT_EQ(CountDown("b", 2), "0") << "its id has not counted";
  EXPECT_THAT(CountDown("c"), StartsWith("REFUSED ")) << "it is open";
  EXPECT_EQ(Count(), "0");
}

// Waiting.

TEST_F(LatchScripts, ClosedLatchQueuesOrRefuses) {
  Create(1);
  const redis::Reply queued = Ask(Waiter('b'));
  ASSERT_EQ(queued.elements.size(), 4) << queued.DebugString();
  EXPECT_EQ(First(queued), "queued");
  EXPECT_GT(queued.elements[1].integer, kTtlMs - 1000);
  EXPECT_LE(queued.elements[1].integer, kTtlMs);
  EXPECT_EQ(queued.elements[2].integer, 0);
  EXPECT_EQ(queued.elements[3].text, server_->Text({"ZSCORE", Queue(), GrantId('b')}));
  EXPECT_EQ(Ask(Waiter('c')).elements[2].integer, 1);

  const redis::Reply busy = Ask(Impatient(Waiter('d')));
  EXPECT_EQ(First(busy), "busy");
  EXPECT_GT(busy.elements[1].integer, kTtlMs - 1000);
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('b'), GrantId('c')));
}

TEST_F(LatchScripts, LastCountWakesAllOnce) {
  Inbox b(*server_, Channel('b')), c(*server_, Channel('c'));
  Create(3);
  Request patient = Waiter('c');
  patient.lease_ms = 5000;
  patient.attempt = 4;
  Ask(Waiter('b'));
  Ask(patient);
  Ask(Waiter('d'));  // without a subscriber
  CountDown("one");
  EXPECT_EQ(NextGrant(b), "") << "it is not open yet";
  EXPECT_EQ(Waiting().size(), 3);
  EXPECT_EQ(CountDown("two", 2), "0");
  EXPECT_EQ(b.Next(), GrantOf(Waiter('b')));
  EXPECT_EQ(c.Next(), GrantOf(patient));
  EXPECT_EQ(server_->Integer({"EXISTS", Queue(), Waiters()}), 0);
  EXPECT_EQ(CountDown("two", 2), "0");
  EXPECT_EQ(CountDown("two", 0), "0");
  EXPECT_EQ(b.Next(), "");
  EXPECT_EQ(c.Next(), "");
  EXPECT_THAT(server_->Text({"INFO", "commandstats"}), HasSubstr("cmdstat_publish:calls=4,"));
}

TEST_F(LatchScripts, CancelledWaiterIsNotTold) {
  Inbox inbox(*server_, Channel('b'));
  Create(1);
  Ask(Waiter('b'));
  Ask(Waiter('c'));
  EXPECT_EQ(Cancel(Waiter('b')), kLeft);
  EXPECT_EQ(Cancel(Waiter('b')), kUnknown);
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('c')));
  CountDown("job");
  EXPECT_EQ(inbox.Next(), "");
  EXPECT_EQ(Cancel(Waiter('c')), kUnknown) << "it was let in meanwhile";
  EXPECT_EQ(Count(), "0");
}

// What has vanished.

TEST_F(LatchScripts, LateRequestAfterCancelIsGone) {
  Create(1);
  EXPECT_EQ(Cancel(Waiter('b'), 5000), kUnknown) << "it came before what it cancels";
  EXPECT_GT(Pttl(Gone(GrantId('b'))), 4000);
  const std::vector<std::string> before = Stored();
  EXPECT_EQ(Acquire(Waiter('b')), kGone);
  EXPECT_EQ(Stored(), before);
  Ask(Waiter('c'));
  EXPECT_EQ(Cancel(Waiter('c'), 5000), kLeft);
  EXPECT_EQ(Acquire(Waiter('c')), kGone);
  EXPECT_THAT(Waiting(), IsEmpty());
  CountDown("job");
  EXPECT_EQ(Acquire(Waiter('b')), kGone) << "open or not";
}

TEST_F(LatchScripts, UseDoesNotCreateVanishedLatch) {
  Create(2);
  Ask(Waiter('b'));
  Ask(Waiter('c'));
  server_->Command({"DEL", name_});
  EXPECT_THAT(CountDown("job"), StartsWith("GONE "));
  EXPECT_THAT(CountDown("job", 0), StartsWith("GONE "));
  EXPECT_THAT(Count(), StartsWith("GONE "));
  EXPECT_EQ(Waiting().size(), 2);
  EXPECT_THAT(Acquire(Waiter('b')), StartsWith("error GONE "));
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('c'))) << "its own entry goes";
  EXPECT_THAT(Acquire(Impatient(Waiter('c'))), StartsWith("error GONE "));
  EXPECT_THAT(Acquire(Waiter('d')), StartsWith("error GONE "));
  EXPECT_EQ(Keys(), 0);
}

TEST_F(LatchScripts, NewIncarnationIsAnotherLatch) {
  Create(2);
  CountDown("job");
  Ask(Waiter('b'));
  server_->Command({"DEL", name_});
  Create(2, Incarnation(2));
  const std::vector<std::string> before = Stored();
  EXPECT_THAT(CountDown("job"), StartsWith("GONE "));
  EXPECT_THAT(CountDown("another"), StartsWith("GONE "));
  EXPECT_THAT(Count(), StartsWith("GONE "));
  EXPECT_THAT(Acquire(Impatient(Waiter('c'))), StartsWith("error GONE "));
  EXPECT_EQ(Stored(), before);
  EXPECT_THAT(Acquire(Waiter('b')), StartsWith("error GONE "));
  EXPECT_THAT(Waiting(), IsEmpty());
  EXPECT_EQ(CountDown("job", 2, Incarnation(2)), "0");
  EXPECT_THAT(Acquire(Waiter('b')), StartsWith("error GONE ")) << "open or not";
  EXPECT_EQ(Acquire(Waiter('c', 1, Incarnation(2))), kGranted);
}

// TTLs.

TEST_F(LatchScripts, EveryUseRestartsBothTtls) {
  Create(5);
  EXPECT_GT(Pttl(name_), kTtlMs - 1000);
  const std::vector<std::pair<const char*, std::function<void()>>> uses = {
      {"the first count", [&] { CountDown("job"); }},
      {"a count", [&] { CountDown("other job"); }},
      {"a repeated count", [&] { CountDown("job"); }},
      {"no count", [&] { CountDown("no client", 0); }},
      {"joining", [&] { Create(5, Incarnation(2)); }},
      {"count", [&] { Count(); }},
      {"waiting", [&] { Acquire(Waiter('b')); }},
      {"a heartbeat", [&] { Acquire(Waiter('b')); }},
      {"reading", [&] { Acquire(Impatient(Waiter('c'))); }},
      {"the last count", [&] { CountDown("rest", 3); }},
      {"going on where it is open", [&] { Acquire(Waiter('d')); }}};
  for (const auto& [what, use] : uses) {
    SCOPED_TRACE(what);
    use();
    for (const std::string& key : {name_, Counted()}) {
      EXPECT_GT(Pttl(key), kTtlMs - 1000);
      EXPECT_LE(Pttl(key), kTtlMs);
      server_->Command({"PEXPIRE", key, "5000"});
    }
  }
}

TEST_F(LatchScripts, UnusedLatchExpiresWithItsIds) {
  Create(2, Incarnation(), 30);
  Say(lua::kLatchCountDown, {Of(Incarnation(), 30), "job", "1"});
  EXPECT_LE(Pttl(Counted()), 30);
  AwaitExpiry(name_);
  AwaitExpiry(Counted());  // as late as the latch, or a millisecond later
  EXPECT_THAT(Count(), StartsWith("GONE "));
  EXPECT_EQ(Create(2, Incarnation(2)), Made(2, Incarnation(2)));
}

// Refusals.

// For the latch's own key, see other_kinds_test.cc.
TEST_F(LatchScripts, ForeignKeysAreRefusedUntouched) {
  Create(1);
  server_->Command({"SET", Counted(), "text", "PX", "30000"});
  const std::string latch = server_->Text({"DUMP", name_});
  ExpectRefused(Counted(), "WRONGTYPE",
                {Create(1), CountDown("job"), CountDown("job", 0), Count(), Acquire(Waiter('b')),
                 Acquire(Impatient(Waiter('b')))});
  EXPECT_EQ(server_->Text({"DUMP", name_}), latch);
}

TEST_F(LatchScripts, ForeignQueueIsRefusedBeforeWrites) {
  Create(2);
  CountDown("job");
  for (const std::string& key : {Queue(), Waiters()}) {
    Ask(Waiter('c'));  // one of the two is as it should be
    server_->Command({"DEL", key});
    server_->Command({"SET", key, "text", "PX", "30000"});
    const std::vector<std::string> before = Stored();
    ExpectRefused(key, "WRONGTYPE",
                  {Acquire(Waiter('b')), Cancel(Waiter('c'), 5000), CountDown("last")});
    EXPECT_EQ(Stored(), before) << key;
    EXPECT_EQ(Count(), "1");
    server_->Command({"DEL", key == Queue() ? Waiters() : Queue()});
    ExpectRefused(key, "WRONGTYPE", {CountDown("last")});
    server_->Command({"DEL", Queue(), Waiters()});
  }
  EXPECT_EQ(CountDown("last"), "0");
}

// Names and ids.

TEST_F(LatchScripts, NamesAndIdsMayContainAnything) {
  for (const std::string& name : {std::string("import: 7 \n{x"), std::string("{a} %s %d"),
                                  std::string("a\0b", 3), std::string("latch:1:x")}) {
    name_ = name;
    const std::string id = std::string("job \0 %s \n}{", 12);
    Inbox inbox(*server_, Channel('b'));
    EXPECT_EQ(Create(3), Made(3));
    EXPECT_EQ(Outcome(Waiter('b')), "queued");
    EXPECT_EQ(CountDown(id), "2");
    EXPECT_EQ(CountDown(id), "2");
    EXPECT_EQ(CountDown(""), "1");
    EXPECT_EQ(CountDown(""), "1");
    EXPECT_THAT(CountDown("more", 2), StartsWith("REFUSED "));
    EXPECT_THAT(Create(4), StartsWith("REFUSED "));
    EXPECT_EQ(CountDown("kind"), "0");
    EXPECT_EQ(NextGrant(inbox), GrantOf(Waiter('b')));
    EXPECT_NE(server_->Text({"ZSCORE", Counted(), id}), "");
  }
}

}  // namespace
}  // namespace redlatch
