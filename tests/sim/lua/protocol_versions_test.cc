// Two versions of the protocol on one name: each is refused by name, and nothing is misread.

#include "tests/sim/lua/lock_scripts_fixture.h"

namespace redlatch {
namespace {

// The scripts of this version, and of one that writes another version wherever this one is written.
class TwoVersions : public LockScriptsFixture {
 protected:
  explicit TwoVersions(LockKind kind) : LockScriptsFixture(std::move(kind)) {
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
  Request By(char client) const {
    Request request = LockScriptsFixture::By(client);
    // Version 3 has another form of grant ids.
    if (version_ == 3) request.grant = absl::StrCat(request.client(), ":3:1");
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
    body = absl::StrReplaceAll(body, {{":%d+[knw]?$", ":3:%d+$"}, {":%d+([knw]?)$", ":3:%d+$"}});
    return {.name = script.name, .body = bodies_.emplace_back(std::move(body))};
  }

  int version_ = 2;
  std::deque<std::string> bodies_;
  LockScripts later_ = scripts_;
};

struct OtherVersion : TwoVersions, ::testing::WithParamInterface<LockKind> {
  OtherVersion() : TwoVersions(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(OfEachKind, OtherVersion,
                         ::testing::Values(ReentrantKind(), WriteKind(), ReadKind(),
                                           SemaphoreKind(3)),
                         NameOfKind);

TEST_P(OtherVersion, IsRefusedUntouchedNamingBoth) {
  for (const auto& [kind, version] : std::vector<std::pair<std::string, std::string>>{
           {"", "1"}, {"/1", "1"}, {"/3", "3"}, {"/10", "10"}}) {
    SCOPED_TRACE(GetParam().stored + kind);
    server_->Command({"FLUSHALL"});
    server_->Command({"HSET", name_, "kind", GetParam().stored + kind, "capacity", "3", "set_by",
                      "constructor", By('a').owner, "1", GrantId('a'), "9000000000000000 1"});
    server_->Command({"PEXPIRE", name_, "30000"});
    const auto before = Dump();
    EXPECT_THAT(Everything(By('a'), By('b')),
                Each(AllOf(HasSubstr("REFUSED"), HasSubstr("protocol " + version + ","),
                           HasSubstr("protocol 2;"), HasSubstr("drain"))));
    EXPECT_EQ(Dump(), before);
  }
}

// Readers do not write the main key: see ReadersOfVersions.
class OtherVersionWithGrant : public OtherVersion {};
INSTANTIATE_TEST_SUITE_P(OfEachKind, OtherVersionWithGrant,
                         ::testing::Values(ReentrantKind(), WriteKind(), SemaphoreKind(3)),
                         NameOfKind);

TEST_P(OtherVersionWithGrant, EachRefusesTheOther) {
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
    if (GetParam().stored == "semaphore") server_->Command({"DEL", name_});
    EXPECT_EQ(Outcome(By('b')), "granted");
  }
}

// Readers are seen by every version; their main key does not exist.
struct ReadersOfVersions : TwoVersions {
  ReadersOfVersions() : TwoVersions(ReadKind()) {}
  std::string Write(int version, char client) {
    Speak(version);
    Request request = By(client);
    request.owner = request.client();
    request.wait = false;
    request.more = {"writer_first"};
    return First(Eval(Of2Or3(writing_.acquire), {Gone(request.grant)}, request.Args()));
  }

  const LockScripts writing_ = WriteKind().scripts;
};

TEST_F(ReadersOfVersions, HoldBackWritersOfBothVersions) {
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

struct SimpleVersions : TwoVersions {
  SimpleVersions() : TwoVersions(SimpleKind()) {}
};

TEST_F(SimpleVersions, EachIsForeignToTheOtherAndPolled) {
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
    EXPECT_EQ(server_->Text({"GET", name_}), theirs.grant);
    EXPECT_THAT(Release(mine), HasSubstr("not_held"));
    EXPECT_EQ(server_->Text({"GET", name_}), theirs.grant);
    Speak(holder);
    EXPECT_THAT(Release(theirs), HasSubstr("released"));
    EXPECT_EQ(server_->Integer({"EXISTS", name_}), 0) << "no client of this version waits";
    Speak(5 - holder);
    EXPECT_EQ(Outcome(mine), "granted");
  }
}

struct LatchVersions : TwoVersions {
  LatchVersions() : TwoVersions(LatchKind()) {}
  std::string Say(const LuaScript& script, const std::vector<std::string>& args) {
    return Eval(Of2Or3(script), {}, args).DebugString();
  }
};

TEST_F(LatchVersions, EachRefusesTheOthers) {
  const std::string incarnation = GrantId('a');
  for (const int maker : {2, 3}) {
    SCOPED_TRACE(maker);
    server_->Command({"FLUSHALL"});
    Speak(maker);
    ASSERT_THAT(Say(lua::kLatchCreate, {"3", "60000", incarnation}), HasSubstr(incarnation));
    const auto before = Dump();
    Speak(5 - maker);
    Request waiter = By('b');
    waiter.owner = "latch:60000:" + incarnation;
    const std::vector<std::string> replies = {Say(lua::kLatchCreate, {"3", "60000", GrantId('b')}),
                                              Say(lua::kLatchCountDown, {waiter.owner, "me", "1"}),
                                              Say(lua::kLatchCount, {waiter.owner}),
                                              Acquire(waiter)};
    EXPECT_THAT(replies, Each(AllOf(HasSubstr("REFUSED"), HasSubstr("protocol 2"),
                                    HasSubstr("protocol 3"))));
    EXPECT_EQ(Dump(), before);
  }
}

// A record that a later version has written for a waiter of ours, or ours of its own.
struct LaterRecords : OtherVersion {
  void AddAWord(const std::string& grant) {
    const std::string record = Record(grant);
    ASSERT_NE(record, "");
    SetRecord(grant, record + " later:words 7");
  }
};
// Readers do not hand over to readers.
INSTANTIATE_TEST_SUITE_P(OfEachKind, LaterRecords,
                         ::testing::Values(SimpleKind(), ReentrantKind(), WriteKind(),
                                           SemaphoreKind(3)),
                         NameOfKind);

TEST_P(LaterRecords, ExtraWordsAreIgnored) {
  const Request one = By('a');
  ASSERT_EQ(Outcome(one), "granted");
  Inbox inbox(*server_, Channel('b'));
  const Request waiter = By('b');
  ASSERT_EQ(Outcome(waiter), "queued");
  AddAWord(waiter.grant);
  EXPECT_EQ(Outcome(waiter), "queued") << "its heartbeat";
  AddAWord(waiter.grant);
  EXPECT_THAT(Eval(ScriptsFor(one).inspect, {}, {"10"}).DebugString(),
              HasSubstr(waiter.grant + "\", \"" + waiter.owner + "\""));
  EXPECT_THAT(Release(one), HasSubstr("released"));
  EXPECT_THAT(inbox.Next(), StartsWith("grant " + waiter.grant));
  EXPECT_THAT(Renew(waiter), HasSubstr("\"held"));
}

}  // namespace
}  // namespace redlatch
