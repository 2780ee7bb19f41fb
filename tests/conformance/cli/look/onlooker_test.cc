// Whoever may only read, and whatever server only has a copy: `ls` and `inspect` work all the same.

#include "tests/conformance/cli/look/fixture.h"

namespace redlatch {
namespace {

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

}  // namespace
}  // namespace redlatch
