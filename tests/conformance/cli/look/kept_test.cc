// Locks that their clients may keep, as `redlatch ls`, `inspect` and `break` show them.

#include "tests/conformance/cli/look/fixture.h"

namespace redlatch {
namespace {

using ::testing::ContainsRegex;

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
