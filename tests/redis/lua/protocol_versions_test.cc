// Two versions of the protocol on one name: each is refused by name, and nothing is misread.
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/redis/lua/lock_scripts_fixture.h"

namespace redlatch {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A kind of lock, and what its scripts are given beside what all are.
struct Kind {
  std::string name;
  LockScripts scripts;
  std::vector<std::string> own_keys = {};
  std::string owner = std::string(32, 'a');
  std::vector<std::string> more_args = {};
};

Kind Simple() { return {.name = "simple", .scripts = SimpleScripts()}; }

// Those whose main key is a hash.
std::vector<Kind> Kinds() {
  return {{.name = "reentrant", .scripts = ReentrantScripts(), .own_keys = {"holds"}},
          {.name = "read_write",
           .scripts = {.acquire = lua::kReadWriteAcquire,
                       .release = lua::kReadWriteRelease,
                       .renew = lua::kReadWriteRenew,
                       .cancel = lua::kReadWriteCancel,
                       .inspect = lua::kReadWriteInspect,
                       .force_release = lua::kReadWriteForceRelease},
           .own_keys = {"readers", "writers", "holds"},
           .more_args = {"writer_first"}},
          {.name = "read_write",
           .scripts = {.acquire = lua::kReadWriteAcquireRead,
                       .release = lua::kReadWriteReleaseRead,
                       .renew = lua::kReadWriteRenewRead,
                       .cancel = lua::kReadWriteCancelRead,
                       .inspect = lua::kReadWriteInspect,
                       .force_release = lua::kReadWriteForceRelease},
           .own_keys = {"readers", "writers", "holds"},
           .owner = "read:1:" + std::string(32, 'a')},
          {.name = "semaphore",
           .scripts = {.acquire = lua::kSemaphoreAcquire,
                       .release = lua::kSemaphoreRelease,
                       .renew = lua::kSemaphoreRenew,
                       .cancel = lua::kSemaphoreCancel,
                       .inspect = lua::kSemaphoreInspect,
                       .force_release = lua::kSemaphoreForceRelease},
           .own_keys = {"permits"},
           .more_args = {"3"}}};
}

// The scripts of this version, and of one that writes another version wherever this one is written.
class TwoVersions : public LockScriptsFixture {
 protected:
  explicit TwoVersions(Kind kind) : LockScriptsFixture(kind.scripts), kind_(std::move(kind)) {
    for (LuaScript* const script : {&later_.acquire, &later_.release, &later_.renew, &later_.cancel,
                                    &later_.inspect, &later_.force_release}) {
      *script = Later(*script);
    }
  }

  // From here on the scripts of that version are asked, with its keys.
  void Speak(int version) { version_ = version; }
  LuaScript Of2Or3(const LuaScript& script) { return version_ == 2 ? script : Later(script); }

  const LockScripts& ScriptsFor(const Request&) const override {
    return version_ == 2 ? scripts_ : later_;
  }
  std::string Auxiliary(const std::string& suffix) const override {
    if (suffix == "readers") return "redlatch:rw:{" + name_ + "}:readers";
    return absl::StrCat("redlatch:", version_, ":{", name_, "}:", suffix);
  }
  std::vector<std::string> OwnKeys() const override {
    std::vector<std::string> keys;
    for (const std::string& suffix : kind_.own_keys) keys.push_back(Auxiliary(suffix));
    return keys;
  }

  Request By(char client) const {
    Request request = Of(client);
    // Version 3 has another form of hold ids.
    if (version_ == 3) request.hold = absl::StrCat(request.client(), ":3:1");
    request.owner = absl::StrReplaceAll(kind_.owner, {{std::string(32, 'a'), request.client()}});
    request.more = kind_.more_args;
    return request;
  }
  // What each script answers.
  std::vector<std::string> Everything(const Request& theirs, const Request& mine) {
    return {Acquire(mine),
            Acquire(theirs),
            Release(theirs),
            Renew(theirs),
            Cancel(theirs),
            Eval(ScriptsFor(mine).inspect, {}, {"10"}).DebugString(),
            Eval(ScriptsFor(mine).force_release, {}, {"redlatch:"}).DebugString()};
  }
  std::map<std::string, std::string> Dump() {
    std::map<std::string, std::string> dump;
    for (const redis::Reply& key : server_->Command({"KEYS", "*"}).elements) {
      dump[key.text] = server_->Text({"DUMP", key.text});
    }
    return dump;
  }

 private:
  LuaScript Later(const LuaScript& script) {
    std::string body(script.body);
    for (const char* const kind : {"reentrant", "read_write", "semaphore", "latch"}) {
      body = absl::StrReplaceAll(body, {{absl::StrCat(kind, "/2"), absl::StrCat(kind, "/3")}});
    }
    body = absl::StrReplaceAll(body, {{":%d+k?$", ":3:%d+$"}});
    return {.name = script.name, .body = bodies_.emplace_back(std::move(body))};
  }

  const Kind kind_;
  int version_ = 2;
  std::deque<std::string> bodies_;
  LockScripts later_ = kind_.scripts;
};

class OtherVersion : public TwoVersions, public ::testing::WithParamInterface<Kind> {
 protected:
  OtherVersion() : TwoVersions(GetParam()) {}
};

std::string NameOf(const ::testing::TestParamInfo<Kind>& which) {
  return which.param.scripts.acquire.name == "read_write/acquire_read" ? "read" : which.param.name;
}
INSTANTIATE_TEST_SUITE_P(OfEachKind, OtherVersion, ::testing::ValuesIn(Kinds()), NameOf);

TEST_P(OtherVersion, IsRefusedByNameOfBothVersionsAndLeftAsItIs) {
  for (const auto& [kind, version] : std::vector<std::pair<std::string, std::string>>{
           {"", "1"}, {"/1", "1"}, {"/3", "3"}, {"/10", "10"}}) {
    SCOPED_TRACE(GetParam().name + kind);
    server_->Command({"FLUSHALL"});
    server_->Command({"HSET", name_, "kind", GetParam().name + kind, "capacity", "3", "set_by",
                      "constructor", By('a').owner, "1", Hold('a'), "9000000000000000 1"});
    server_->Command({"PEXPIRE", name_, "30000"});
    const auto before = Dump();
    EXPECT_THAT(Everything(By('a'), By('b')),
                Each(AllOf(HasSubstr("REFUSED"), HasSubstr("protocol " + version + ","),
                           HasSubstr("protocol 2;"), HasSubstr("drain"))));
    EXPECT_EQ(Dump(), before);
  }
}

TEST_P(OtherVersion, RefusesWhatThisOneHoldsAndTheOtherWayRound) {
  if (GetParam().scripts.acquire.name == "read_write/acquire_read") GTEST_SKIP() << "see Readers";
  for (const int holder : {2, 3}) {
    const int other = 5 - holder;
    SCOPED_TRACE(holder);
    server_->Command({"FLUSHALL"});
    Speak(holder);
    const Request theirs = By('a');
    ASSERT_EQ(Outcome(theirs), "granted");
    const auto before = Dump();
    Speak(other);
    EXPECT_THAT(Everything(theirs, By('b')),
                Each(AllOf(HasSubstr("REFUSED"), HasSubstr(absl::StrCat("protocol ", holder, ",")),
                           HasSubstr(absl::StrCat("protocol ", other, ";")))));
    EXPECT_EQ(Dump(), before);
    Speak(holder);
    EXPECT_THAT(Renew(theirs), HasSubstr("\"held"));
    EXPECT_THAT(Release(theirs), HasSubstr("\"released"));
    // Drained.
    Speak(other);
    if (GetParam().name == "semaphore") server_->Command({"DEL", name_});
    EXPECT_EQ(Outcome(By('b')), "granted");
  }
}

// Readers are seen by every version; their main key does not exist.
class Readers : public TwoVersions {
 protected:
  Readers() : TwoVersions(Kinds()[2]) {}
  std::string Write(int version, char client) {
    Speak(version);
    Request request = By(client);
    request.owner = request.client();
    request.wait = false;
    request.more = {"writer_first"};
    return First(Eval(Of2Or3(writing_.acquire), {Gone(request.hold)}, request.Args()));
  }

  const LockScripts writing_ = Kinds()[1].scripts;
};

TEST_F(Readers, OfEitherVersionHoldBackWritersOfBoth) {
  for (const int reader : {2, 3}) {
    SCOPED_TRACE(reader);
    server_->Command({"FLUSHALL"});
    Speak(reader);
    const Request mine = By('a');
    ASSERT_EQ(Outcome(mine), "granted");
    EXPECT_EQ(Write(2, 'b'), "busy");
    EXPECT_EQ(Write(3, 'c'), "busy");
    Speak(5 - reader);
    const Request theirs = By('d');
    EXPECT_EQ(Outcome(theirs), "granted");
    EXPECT_THAT(Release(theirs), HasSubstr("released"));
    EXPECT_EQ(Write(2, 'b'), "busy") << "one reads on";
    Speak(reader);
    EXPECT_THAT(Release(mine), HasSubstr("released"));
    EXPECT_EQ(Write(5 - reader, 'c'), "granted");
    Speak(reader);
    EXPECT_THAT(Acquire(By('a')), HasSubstr("REFUSED"));
  }
}

class SimpleVersions : public TwoVersions {
 protected:
  SimpleVersions() : TwoVersions(Simple()) {}
};

TEST_F(SimpleVersions, EachIsAForeignOwnerToTheOtherAndPolled) {
  for (const int holder : {2, 3}) {
    SCOPED_TRACE(holder);
    server_->Command({"FLUSHALL"});
    Speak(holder);
    const Request theirs = By('a');
    ASSERT_EQ(Outcome(theirs), "granted");
    Speak(5 - holder);
    const Request mine = By('b');
    for (int attempt = 1; attempt <= 2; ++attempt) {
      const redis::Reply reply = Ask(mine);
      EXPECT_EQ(First(reply), "queued");
      EXPECT_EQ(reply.elements[1].integer, -1) << "ask again soon";
    }
    EXPECT_EQ(server_->Text({"GET", name_}), theirs.hold);
    EXPECT_THAT(Release(mine), HasSubstr("not_held"));
    EXPECT_EQ(server_->Text({"GET", name_}), theirs.hold);
    Speak(holder);
    EXPECT_THAT(Release(theirs), HasSubstr("released"));
    EXPECT_EQ(server_->Integer({"EXISTS", name_}), 0) << "nobody of this version waits";
    Speak(5 - holder);
    EXPECT_EQ(Outcome(mine), "granted");
  }
}

class LatchVersions : public TwoVersions {
 protected:
  LatchVersions()
      : TwoVersions({.name = "latch",
                     .scripts = {.acquire = lua::kLatchAcquire, .cancel = lua::kLatchCancel},
                     .own_keys = {"counted"},
                     .owner = "latch:60000:" + std::string(32, 'a') + ":1"}) {}
  std::string Say(const LuaScript& script, const std::vector<std::string>& args) {
    return Eval(Of2Or3(script), {}, args).DebugString();
  }
};

TEST_F(LatchVersions, EachRefusesTheOthers) {
  const std::string incarnation = Hold('a');
  for (const int maker : {2, 3}) {
    SCOPED_TRACE(maker);
    server_->Command({"FLUSHALL"});
    Speak(maker);
    ASSERT_THAT(Say(lua::kLatchCreate, {"3", "60000", incarnation}), HasSubstr(incarnation));
    const auto before = Dump();
    Speak(5 - maker);
    Request waiter = By('b');
    waiter.owner = "latch:60000:" + incarnation;
    const std::vector<std::string> replies = {Say(lua::kLatchCreate, {"3", "60000", Hold('b')}),
                                              Say(lua::kLatchCountDown, {waiter.owner, "me", "1"}),
                                              Say(lua::kLatchCount, {waiter.owner}),
                                              Acquire(waiter)};
    EXPECT_THAT(replies, Each(AllOf(HasSubstr("REFUSED"), HasSubstr("protocol 2"),
                                    HasSubstr("protocol 3"))));
    EXPECT_EQ(Dump(), before);
  }
}

// A record that a later version has written for a waiter of ours, or ours of its own.
class LaterRecords : public OtherVersion {
 protected:
  void AddAWord(const std::string& hold) {
    const std::string record = server_->Text({"HGET", Waiters(), hold});
    ASSERT_NE(record, "");
    server_->Command({"HSET", Waiters(), hold, record + " later:words 7"});
  }
};
std::vector<Kind> KindsThatHandOver() {
  std::vector<Kind> kinds = Kinds();
  kinds.push_back(Simple());
  return kinds;
}
INSTANTIATE_TEST_SUITE_P(OfEachKind, LaterRecords, ::testing::ValuesIn(KindsThatHandOver()),
                         NameOf);

TEST_P(LaterRecords, WithAWordMoreAreThoseOfALiveWaiter) {
  if (GetParam().scripts.acquire.name == "read_write/acquire_read") {
    GTEST_SKIP() << "readers do not hand over to readers";
  }
  Request one = By('a');
  one.block = GetParam().name == "semaphore" ? 3 : 1;
  ASSERT_EQ(Outcome(one), "granted");
  Ear ear(*server_, Channel('b'));
  const Request waiter = By('b');
  ASSERT_EQ(Outcome(waiter), "queued");
  AddAWord(waiter.hold);
  EXPECT_EQ(Outcome(waiter), "queued") << "its heartbeat";
  AddAWord(waiter.hold);
  EXPECT_THAT(Eval(ScriptsFor(one).inspect, {}, {"10"}).DebugString(),
              HasSubstr(waiter.hold + "\", \"" + waiter.owner + "\""));
  EXPECT_THAT(Release(one), HasSubstr("released"));
  EXPECT_THAT(ear.Hear(), StartsWith("grant " + waiter.hold));
  EXPECT_THAT(Renew(waiter), HasSubstr("\"held"));
}

}  // namespace
}  // namespace redlatch
