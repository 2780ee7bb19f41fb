// `redlatch ls`, `inspect`, `break` and `capacity`, of a quorum of servers and of one of them.

#include "tests/conformance/cli/command_fixture.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

using ::testing::StartsWith;

constexpr char kJobQueue[] = "redlatch:2:{job}:quorum.queue";

class RedlatchQuorumLookTest : public RedlatchLookTest {
 protected:
  Outcome AtAll(const Words& words) const {
    return Redlatch(words, {"REDLATCH_URL=" + group_.url("connect_timeout=3s")});
  }
  Outcome AtOne(size_t server, const Words& words) {
    return Redlatch(words, {"REDLATCH_URL=" + group_[server].url()});
  }

  Client ClientCalled(const std::string& program) const {
    return Connect(group_.url(), {.program = program});
  }
  // A lease that nothing renews while the test runs, on all servers: those to which the client has
  // connected by then.
  Lease Take(RedLock& lock) {
    for (int tries = 0;; ++tries) {
      auto lease = Must(lock.Acquire({.wait = absl::Seconds(10)}));
      const bool on_all =
          Await([&] { return group_.Having("job") == group_.size(); }, absl::Seconds(1));
      if (on_all || tries == 10) {
        EXPECT_TRUE(on_all);
        return lease;
      }
      EXPECT_TRUE(lease.Release().ok());
    }
  }
  bool AwaitQueuedAtAll() {
    return Await([&] { return group_.Having(kJobQueue) == group_.size(); });
  }
  static bool Fires(const std::stop_token& lost) {
    base::Parker parker;
    const std::stop_callback wake(lost, [&] { parker.Set(1); });
    const base::Instant deadline = base::Now() + absl::Seconds(10);
    while (!lost.stop_requested() && base::Now() < deadline) parker.ParkUntil(deadline);
    return lost.stop_requested();
  }
  // What other clients' rounds, or dead ones, leave at some of the servers.
  void GrantAt(const std::vector<size_t>& servers) {
    for (const size_t i : servers) {
      group_[i].Do({"SET", "job", std::string(32, 'a') + ":1 1", "PX", "3600000"});
    }
  }

  QuorumGroup group_;
  const LockOptions long_ = {.lease = absl::Hours(1)};
};

TEST_F(RedlatchQuorumLookTest, ListsALockOnceAndOnHowManyServersItIsHeld) {
  RedLock lock(ClientCalled("billing"), "job", long_);
  const Lease lease = Take(lock);
  RedLock theirs(ClientCalled("other"), "job");
  const Waiting waiting([&](const AcquireOptions& how) { (void)theirs.Acquire(how); });
  ASSERT_TRUE(AwaitQueuedAtAll());
  const Outcome list = AtAll({"ls", "--json"});
  EXPECT_EQ(list.code, 0) << list.errors;
  EXPECT_EQ(Json(list.output,
                 "[(r['name'], r['kind'], r['holding'], r['held_on'], r['servers'], r['waiting'], "
                 "r['holder']['program']) for r in rows]"),
            "[('job', 'quorum', 1, 5, 5, 1, 'billing')]");
  EXPECT_THAT(AtAll({"ls"}).output, AllOf(StartsWith("job   quorum      held 5/5"),
                                          HasSubstr("59m"), HasSubstr(Me("billing"))));
}

TEST_F(RedlatchQuorumLookTest, ShowsWhatEachServerSays) {
  RedLock lock(ClientCalled("billing"), "job", long_);
  const Lease lease = Take(lock);
  RedLock theirs(ClientCalled("other"), "job");
  const Waiting waiting([&](const AcquireOptions& how) { (void)theirs.Acquire(how); });
  ASSERT_TRUE(AwaitQueuedAtAll());
  group_[1].Do({"DEL", "job"});
  group_[4].Kill();
  const Outcome look = AtAll({"inspect", "job"});
  EXPECT_EQ(look.code, 0) << look.errors;
  EXPECT_THAT(
      look.output,
      AllOf(StartsWith("Lock \"job\": quorum, held on 3 of 5\n  held by         " + Me("billing")),
            HasSubstr("waiting         " + Me("other")), HasSubstr("last token"),
            HasSubstr(absl::StrCat("servers         ", group_[0].url(), ": held, lease 59m")),
            HasSubstr(group_[1].url() + ": free\n"),
            HasSubstr(group_[4].url() + ": not asked: cannot connect")));
  const Outcome json = AtAll({"inspect", "job", "--json"});
  EXPECT_EQ(Json(json.output,
                 "[(r['kind'], r['holding'], r['held_on'], len(r['holders']), len(r['waiters']), "
                 "['hold' in s for s in r['servers']], 'error' in r['servers'][4]) for r in rows]"),
            "[('quorum', 1, 3, 1, 1, [True, False, True, True, False], True)]");
}

TEST_F(RedlatchQuorumLookTest, WaitsOnceForServersThatHang) {
  GrantAt({0, 1, 2});
  group_[3].Stop();
  group_[4].Stop();
  const base::Instant begun = base::Now();
  const Outcome look = AtAll({"inspect", "job"});
  const absl::Duration took = base::Now() - begun;
  group_[3].Continue();
  group_[4].Continue();
  EXPECT_EQ(look.code, 0) << look.errors;
  EXPECT_THAT(look.output, AllOf(HasSubstr("held on 3 of 5"), HasSubstr("no answer")));
  EXPECT_LT(took, absl::Seconds(6)) << "one connect_timeout is 3 s";
}

TEST_F(RedlatchQuorumLookTest, SaysThatTooFewServersAnswer) {
  GrantAt({0, 1});
  for (const size_t i : {2, 3, 4}) group_[i].Kill();
  for (const Words& words :
       {Words{"ls"}, Words{"inspect", "job"}, Words{"break", "--yes", "job"}}) {
    const Outcome outcome = AtAll(words);
    EXPECT_EQ(outcome.code, 121) << words[0];
    EXPECT_THAT(outcome.errors, HasSubstr("2 of 5 servers answered, and 3 are needed"));
  }
  EXPECT_EQ(group_[0].Integer({"EXISTS", "job"}), 1);
  for (const size_t i : {0, 1}) group_[i].Kill();
  EXPECT_EQ(AtAll({"ls"}).code, 121);
}

TEST_F(RedlatchQuorumLookTest, BreaksALockAtAllServersAndTellsItsHolder) {
  RedLock lock(ClientCalled("billing"), "job", long_);
  const Lease lease = Take(lock);
  const Outcome broken = AtAll({"break", "--yes", "job"});
  EXPECT_EQ(broken.code, 0) << broken.errors;
  EXPECT_THAT(broken.output, AllOf(HasSubstr("is held by:\n  " + Me("billing")),
                                   HasSubstr("Broken. Nobody holds it now.")));
  EXPECT_TRUE(Fires(lease.lost()));
  EXPECT_EQ(group_.Having("job"), 0U);
  EXPECT_THAT(AtAll({"break", "--yes", "job"}).output, HasSubstr("Nobody holds"));
}

TEST_F(RedlatchQuorumLookTest, BreaksWhatIsHeldByAMinorityAndNamesWhoIsNotThere) {
  GrantAt({0, 1, 2});
  group_[4].Kill();
  const Outcome broken = AtAll({"break", "--yes", "job"});
  EXPECT_EQ(broken.code, 0) << broken.errors;
  EXPECT_THAT(broken.errors, HasSubstr("not broken at " + group_[4].url()));
  for (const size_t i : {0, 1, 2}) EXPECT_EQ(group_[i].Integer({"EXISTS", "job"}), 0) << i;
  GrantAt({3});
  const Outcome minority = AtAll({"break", "--yes", "job"});
  EXPECT_EQ(minority.code, 0) << minority.errors;
  EXPECT_THAT(minority.output, HasSubstr("at " + group_[3].url() + ": held"));
  EXPECT_EQ(group_[3].Integer({"EXISTS", "job"}), 0);
}

TEST_F(RedlatchQuorumLookTest, OneServerShowsItsPartAsSuch) {
  RedLock lock(ClientCalled("billing"), "job", long_);
  const Lease lease = Take(lock);
  EXPECT_THAT(AtOne(2, {"ls"}).output, StartsWith("job   quorum      held "));
  EXPECT_THAT(
      AtOne(2, {"inspect", "job"}).output,
      AllOf(StartsWith("Lock \"job\": quorum, held\n"),
            HasSubstr("quorum          of several servers, of which this one alone was asked")));
  RedLock theirs(ClientCalled("other"), "job");
  const Waiting waiting([&](const AcquireOptions& how) { (void)theirs.Acquire(how); });
  ASSERT_TRUE(AwaitQueuedAtAll());
  EXPECT_THAT(AtOne(2, {"inspect", "job"}).output, HasSubstr("waiting         " + Me("other")));
}

TEST_F(RedlatchQuorumLookTest, BreaksItsPartAtOneServerAlone) {
  GrantAt({0, 1, 2});
  group_[2].Do({"ZADD", kJobQueue, "1", std::string(32, 'b') + ":1"});
  const Outcome broken = AtOne(2, {"break", "--yes", "job"});
  EXPECT_EQ(broken.code, 0) << broken.errors;
  EXPECT_THAT(broken.errors, HasSubstr("one server of a quorum"));
  EXPECT_EQ(group_[2].Integer({"EXISTS", "job"}), 0);
  EXPECT_EQ(group_.Having("job"), 2U);
}

TEST_F(RedlatchQuorumLookTest, HasNoSemaphores) {
  const Outcome outcome = AtAll({"capacity", "encoders", "4"});
  EXPECT_EQ(outcome.code, 123);
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("a quorum of servers has no semaphores"),
                                    HasSubstr("--server " + group_[0].url())));
  EXPECT_THAT(outcome.output, IsEmpty());
}

}  // namespace
}  // namespace redlatch
