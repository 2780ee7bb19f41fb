// A name that another kind of lock uses: every script refuses it, names what it is, and leaves it.

#include "tests/sim/lua/latch/fixture.h"
#include "tests/sim/lua/multi/fixture.h"

namespace redlatch {
namespace {

constexpr char kName[] = "orders:42";
constexpr char kJavaId[] = "3f2a77aa-12cd-4e5f-8a9b-0123456789ab";
constexpr char kCppId[] = "0123456789abcdef0123456789abcdef";

// What a key may be in use as, and the command that makes it.
struct Found {
  std::string words;
  std::vector<std::string> command;
  std::string instead = "";  // a class of redlatch::redisson
};

std::vector<Found> HashesAndData() {
  const std::string lock = "a Redisson lock", read_write = "a Redisson read-write lock";
  const auto hash = [](std::initializer_list<std::string> fields) {
    std::vector<std::string> command = {"HSET", kName};
    command.insert(command.end(), fields);
    return command;
  };
  return {{lock, hash({absl::StrCat(kJavaId, ":77"), "2"}), "Lock"},
          {lock, hash({absl::StrCat(kCppId, ":5"), "1"}), "Lock"},
          {read_write, hash({"mode", "read", absl::StrCat(kJavaId, ":7"), "1"}), "ReadWriteLock"},
          {read_write, hash({"mode", "write", absl::StrCat(kJavaId, ":7:write"), "1"}),
           "ReadWriteLock"},
          {"a reentrant lock", hash({"kind", "reentrant/2"})},
          {"a read-write lock", hash({"kind", "read_write/2"})},
          {"a semaphore", hash({"kind", "semaphore/2"})},
          {"a latch", hash({"kind", "latch/2"})},
          {"a latch", hash({"kind", "latch"})},  // of version 1
          {"a lock of kind priority", hash({"kind", "priority/1"})},
          {"another program's hash", hash({"kind", "shoe"})},
          {"another program's hash", hash({"mode", "silent"})},
          {"another program's hash", hash({absl::StrCat(kJavaId, ":7:write"), "1"})},
          {"another program's hash", hash({"3f2a77aa:77", "1"})},
          {"another program's hash",
           hash({absl::StrCat(kJavaId, ":77"), "1", absl::StrCat(kJavaId, ":78"), "1"})},
          {"another program's data", {"RPUSH", kName, "x"}},
          {"another program's data", {"ZADD", kName, "1", "x"}}};
}

Found IntegerWithoutTtl(const std::string& value) {
  return {"a Redisson semaphore or latch",
          {"SET", kName, value},
          "Semaphore or redlatch::redisson::CountDownLatch"};
}

std::vector<Found> Strings() {
  const std::string grant = absl::StrCat(kCppId, ":5");
  return {IntegerWithoutTtl("3"),
          IntegerWithoutTtl("-2"),
          {"a simple lock or an election", {"SET", kName, grant}},
          {"a simple lock or an election", {"SET", kName, grant + "k"}},
          {"a simple lock or an election", {"SET", kName, "redlatch:free"}},
          {"a quorum lock", {"SET", kName, grant + " 1"}},
          {"another program's string", {"SET", kName, "3", "PX", "30000"}},
          {"another program's string", {"SET", kName, ""}},
          {"another program's string", {"SET", kName, "3f2a77:5"}}};
}

std::string Message(const Found& found, const std::string& expected) {
  return absl::StrCat("WRONGTYPE ", kName, " is in use as ", found.words, ", not as ", expected,
                      "; use another name",
                      found.instead.empty() ? "" : ", or redlatch::redisson::" + found.instead);
}

// In words, as errors name the kind.
std::string InWords(const LockKind& kind) {
  if (kind.stored == "read_write") return "a read-write lock";
  if (kind.stored == "semaphore") return "a semaphore";
  if (kind.stored == "quorum") return "a quorum lock";
  return kind.stored == "reentrant" ? "a reentrant lock" : "a simple lock";
}

struct OtherKindFixture : LockScriptsFixture {
  using LockScriptsFixture::LockScriptsFixture;
  void TearDown() override { server_->Do({"FLUSHALL"}); }

  // The errors of these scripts, in full.
  std::string Acquired(const Request& request) {
    return Eval(scripts_.acquire, {Gone(request.grant)}, request.Args()).text;
  }
  std::string Cancelled(const std::string& gone_ms) {
    return Eval(scripts_.cancel, {Gone(By('a').grant)}, {By('a').grant, gone_ms, "1"}).text;
  }
  std::string Released(const std::vector<std::string>& more_args) {
    std::vector<std::string> args = {By('a').grant}, gone;
    args.insert(args.end(), more_args.begin(), more_args.end());
    if (more_args.size() > 1) gone = {Gone(By('a').grant), Gone(By('a').grant)};
    return Eval(scripts_.release, gone, args).text;
  }
  std::string Renewed() { return Eval(scripts_.renew, {}, {By('a').grant, "30000"}).text; }
  std::string Inspected() { return Eval(scripts_.inspect, {}, {"10"}).text; }
  std::string Forced() { return PartOfForce({"redlatch:"}).text; }
  std::vector<std::string> OfMost() {
    return {Acquired(By('a')), Acquired(Impatient(By('a'))),
            Cancelled("0"),    Cancelled("5000"),
            Inspected(),       Forced()};
  }

  void Put(const Found& found) {
    server_->Do({"FLUSHALL"});
    server_->Do(found.command);
  }
  void ExpectRefusals(const Found& found, const std::string& expected,
                      const std::vector<std::string>& replies) {
    SCOPED_TRACE(absl::StrJoin(found.command, " "));
    ExpectRefused(kName, Message(found, expected), replies);
    EXPECT_EQ(server_->Integer({"DBSIZE"}), 1);
  }
};

struct OtherKind : OtherKindFixture, ::testing::WithParamInterface<LockKind> {
  OtherKind() : OtherKindFixture(GetParam()) {}

  bool is_string() const { return InWords(kind_) == "a simple lock" || kind_.name == "quorum"; }

  void ExpectRefusedByAll(const Found& found) {
    Put(found);
    std::vector<std::string> replies = OfMost();
    const bool quorum = kind_.name == "quorum";
    // A reader's plain release does not read the lock's key, and the owner of a quorum's grant is
    // not found in any string.
    const bool any_string = quorum && found.command[0] == "SET";
    if (kind_.name != "read" && !any_string) replies.push_back(Released(kind_.release_args));
    if (!quorum) replies.push_back(Released({"0 0 5000", By('a').owner}));
    if (!any_string) replies.push_back(Renewed());
    ExpectRefusals(found, InWords(kind_), replies);
  }
};
// The acquire proposes a token, as most acquires at a node do.
LockKind ProposingKind() {
  LockKind kind = QuorumKind();
  kind.more_args = {"1700000000000000"};
  return kind;
}
INSTANTIATE_TEST_SUITE_P(OfEachKind, OtherKind,
                         ::testing::Values(SimpleKind(), ElectionKind(), ReentrantKind(),
                                           WriteKind(), ReadKind(), SemaphoreKind(),
                                           ProposingKind()),
                         NameOfKind);

TEST_P(OtherKind, IsNamedAndLeftAlone) {
  for (const Found& found : HashesAndData()) {
    if (found.words != InWords(kind_)) ExpectRefusedByAll(found);
  }
  for (const Found& found : Strings()) {
    // A simple lock takes other strings for those of foreign owners.
    if (!is_string() || !found.instead.empty()) ExpectRefusedByAll(found);
  }
}

using ForeignString = OtherKind;
INSTANTIATE_TEST_SUITE_P(OfEachKind, ForeignString, ::testing::Values(SimpleKind(), ElectionKind()),
                         NameOfKind);

TEST_P(ForeignString, WithTtlOrTextIsForeignOwner) {
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"SET", kName, "3", "PX", "30000"}, {"SET", kName, "worker-3"}, {"SET", kName, ""}}) {
    server_->Do({"FLUSHALL"});
    server_->Do(command);
    EXPECT_EQ(Acquire(Impatient(By('a'))), "[\"busy\", -1]");
    EXPECT_EQ(Release(By('a')), "[\"not_held\"]");
  }
}

struct OtherKindLatch : LatchScripts {
  void TearDown() override { server_->Do({"FLUSHALL"}); }
};

TEST_F(OtherKindLatch, IsNamedAndLeftAlone) {
  std::vector<Found> all = HashesAndData();
  for (const Found& found : Strings()) all.push_back(found);
  for (const Found& found : all) {
    if (found.words == "a latch") continue;
    SCOPED_TRACE(absl::StrJoin(found.command, " "));
    server_->Do({"FLUSHALL"});
    server_->Do(found.command);
    ExpectRefused(kName, Message(found, "a latch"),
                  {Create(1), CountDown("job"), CountDown("job", 0), Count(), Ask(Waiter('b')).text,
                   Ask(Impatient(Waiter('b'))).text});
    EXPECT_EQ(server_->Integer({"DBSIZE"}), 1);
  }
}

struct OtherKindMulti : MultiScriptsFixture {
  void TearDown() override { server_->Do({"FLUSHALL"}); }
};

TEST_F(OtherKindMulti, NamesTheKeyThatIsInUse) {
  const Names names = {"free", kName};
  std::vector<Found> all = HashesAndData();
  all.push_back(Strings().front());
  for (const Found& found : all) {
    SCOPED_TRACE(absl::StrJoin(found.command, " "));
    server_->Do({"FLUSHALL"});
    server_->Do(found.command);
    const std::string message = Message(found, "a simple lock");
    for (const std::string& reply :
         {Ask(names, By('a')), Release(names, By('a')), Release(names, By('a'), 5000),
          Cancel(names, By('a')), Inspect(names).text, Force(names).text}) {
      EXPECT_THAT(reply, HasSubstr(message));
    }
    EXPECT_EQ(Renew(names, By('a')), "not_held") << "the first name is free";
    EXPECT_THAT(Renew({kName, "free"}, By('a')), HasSubstr(message));
    EXPECT_EQ(server_->Integer({"DBSIZE"}), 1);
  }
}

TEST_F(OtherKindMulti, ForeignStringIsForeignOwner) {
  server_->Do({"SET", kName, "3", "PX", "30000"});
  EXPECT_THAT(Ask({"free", kName}, By('a')), HasSubstr("queued"));
}

struct FoundKind : OtherKindFixture {
  FoundKind() : OtherKindFixture(ReentrantKind()) {}
};

TEST_F(FoundKind, HashIsGuessedWithoutPermission) {
  server_->Do({"HSET", kName, absl::StrCat(kJavaId, ":77"), "1"});
  server_->Forbid("hrandfield");
  EXPECT_THAT(Inspected(), HasSubstr("in use as a Redisson lock or another program's hash, not as "
                                     "a reentrant lock"));
}

TEST_F(FoundKind, OtherErrorsAreRepliedAsTheyAre) {
  server_->Forbid("hmget");
  EXPECT_THAT(Acquired(By('a')), ::testing::StartsWith("NOPERM"));
}

}  // namespace
}  // namespace redlatch
