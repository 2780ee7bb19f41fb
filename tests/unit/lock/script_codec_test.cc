// The contract of lua/README.md, from the client's side.
#include "src/lock/script_codec.h"

#include "src/redis/wire/errors.h"
#include "tests/support/testing.h"

namespace redlatch::internal {
namespace {

using redis::Reply;

const Identity kIdentity{.client = "00112233445566778899aabbccddeeff"};
const std::string kChannel = "redlatch:00112233445566778899aabbccddeeff";
const std::string kHold7 = kIdentity.client + ":7";
const std::string kHold8 = kIdentity.client + ":8";
constexpr char kQueue[] = "redlatch:2:{N}:simple.queue";
constexpr char kWaiters[] = "redlatch:2:{N}:simple.waiters";
constexpr char kFence[] = "redlatch:2:{N}:fence";
constexpr char kMore[] = "redlatch:2:{N}:simple.more";
const std::string kGone7 = "redlatch:2:{N}:simple.gone." + kIdentity.client + ".7";
const std::string kGone8 = "redlatch:2:{N}:simple.gone." + kIdentity.client + ".8";

class EncodedRequestTest : public ::testing::Test {
 protected:
  std::vector<std::string> Words(const Request& send) {
    EncodedRequest request({.identity = kIdentity, .keys = keys_, .type = plan_, .owner = owner_},
                           send);
    return Words(request);
  }
  std::vector<std::string> Words(EncodedRequest& request) {
    const redis::ScriptCall call = request.call();
    script_ = call.script == nullptr ? "" : call.script->name;
    native_ = call.native;
    std::vector<std::string> words(call.keys.begin(), call.keys.end());
    words.emplace_back("|");
    words.insert(words.end(), call.args.begin(), call.args.end());
    return words;
  }

  const KeySet keys_ = *KeySet::Make("", "N");
  LockType plan_{.scripts = {.acquire = {.name = "acquire"},
                             .release = {.name = "release"},
                             .renew = {.name = "renew"},
                             .cancel = {.name = "cancel"},
                             .inspect = {.name = "inspect"},
                             .force_release = {.name = "force_release"}},
                 .keys = KeyNames("simple")};
  std::string owner_ = "me";
  std::string script_;
  redis::Native native_ = redis::Native::kNo;
};

constexpr absl::Duration kLease = absl::Seconds(30);

AcquireRequest SomeBid(GrantId grant) {
  return {.grant = grant,
          .terms = {.lease = kLease},
          .attempt = 3,
          .wait = true,
          .amount = 64,
          .ticket = 1795227594499240};
}

TEST_F(EncodedRequestTest, Acquire) {
  EXPECT_THAT(Words({.what = AcquireRequest{SomeBid(7)}, .grant = 7, .lease = kLease}),
              ElementsAre("N", kQueue, kWaiters, kFence, kGone7, "|", kHold7, "30000",
                          "64 3 1 10000 0 1795227594499240 30000 0 " + kChannel, "me"));
  EXPECT_EQ(script_, "acquire");
}

TEST_F(EncodedRequestTest, ClaimIsShorterThanLease) {
  EncodedRequest request({.identity = kIdentity,
                          .keys = keys_,
                          .type = plan_,
                          .owner = owner_,
                          .claim = absl::Seconds(2)},
                         {.what = AcquireRequest{SomeBid(7)}, .grant = 7, .lease = kLease});
  EXPECT_THAT(Words(request), Contains("64 3 1 10000 0 1795227594499240 2000 0 " + kChannel));
}

// And by what the client leaves of the margin unused.
TEST_F(EncodedRequestTest, ClaimIsLongerByMargin) {
  AcquireRequest acquire = SomeBid(7);
  acquire.terms.margin = PackedDuration(absl::Seconds(5));
  EncodedRequest request({.identity = kIdentity,
                          .keys = keys_,
                          .type = plan_,
                          .owner = owner_,
                          .claim = absl::Seconds(2)},
                         {.what = acquire, .grant = 7, .lease = kLease});
  EXPECT_THAT(Words(request), Contains("64 3 1 10000 0 1795227594499240 7050 0 " + kChannel));
}

TEST_F(EncodedRequestTest, RoundsLeasesUp) {
  AcquireRequest acquire = SomeBid(7);
  acquire.terms = {.lease = absl::Microseconds(1500001), .manual = true};
  acquire.wait = false;
  acquire.ticket = 0;
  EXPECT_THAT(Words({.what = acquire, .grant = 7}),
              ElementsAre("N", kQueue, kWaiters, kFence, kGone7, "|", kHold7, "1501",
                          "64 3 0 501 1 0 1501 0 " + kChannel, "me"));
}

TEST_F(EncodedRequestTest, ThreadRequestsOmitOwner) {
  owner_ = kIdentity.client;
  EXPECT_THAT(Words({.what = AcquireRequest{SomeBid(7)}, .grant = 7, .lease = kLease}),
              ElementsAre("N", kQueue, kWaiters, kFence, kGone7, "|", kHold7, "30000",
                          "64 3 1 10000 0 1795227594499240 30000 0 " + kChannel));
  EXPECT_THAT(Words({.what = ReleaseRequest{.last_used = 9, .last_reserved = 9},
                     .grant = 7,
                     .lease = kLease}),
              ElementsAre("N", kQueue, kWaiters, kFence, "|", kHold7));
  EXPECT_EQ(script_, "release");
}

TEST_F(EncodedRequestTest, ReleaseSaysUntilWhenTheLockStaysTaken) {
  owner_ = kIdentity.client;
  EXPECT_THAT(Words({.what = ReleaseRequest{.last_used = 9,
                                            .last_reserved = 9,
                                            .taken_until = 1795227594499240,
                                            .taken_for = absl::Microseconds(4500)},
                     .grant = 7,
                     .lease = kLease}),
              ElementsAre("N", kQueue, kWaiters, kFence, kGone7, kGone7, "|", kHold7,
                          "9 9 0 1795227594499240 5", kIdentity.client));
}

TEST_F(EncodedRequestTest, FirstLeaseIsAtLeastAsLongAsLockStaysTaken) {
  AcquireRequest acquire = SomeBid(7);
  acquire.terms.at_least = PackedDuration(absl::Minutes(1));
  EXPECT_THAT(Words({.what = acquire, .grant = 7, .lease = kLease}), Contains("60000"));
}

TEST_F(EncodedRequestTest, ExplicitOwnersReleaseNamesOwner) {
  EXPECT_THAT(
      Words({.what = ReleaseRequest{.last_used = 9, .last_reserved = 9},
             .grant = 7,
             .lease = kLease}),
      ElementsAre("N", kQueue, kWaiters, kFence, kGone7, kGone7, "|", kHold7, "9 9 0", "me"));
}

TEST_F(EncodedRequestTest, ReleaseGivesTokensBackAndLeavesTombstone) {
  owner_ = kIdentity.client;
  EXPECT_THAT(Words({.what = ReleaseRequest{.tombstone = true, .last_used = 9, .last_reserved = 72},
                     .grant = 7,
                     .lease = kLease}),
              ElementsAre("N", kQueue, kWaiters, kFence, kGone7, kGone7, "|", kHold7, "9 72 30000",
                          kIdentity.client));
}

TEST_F(EncodedRequestTest, SeveralNamesPutOtherKeysLastAndWaitAsTwo) {
  plan_.others = {*KeySet::Make("", "O"), *KeySet::Make("", "P")};
  const auto with_others = [](std::vector<std::string> words) {
    for (const std::string name : {"O", "P"}) {
      const std::string stem = "redlatch:2:{" + name + "}:";
      for (const std::string& key :
           {name, stem + "simple.queue", stem + "simple.waiters", stem + "fence"}) {
        words.push_back(key);
      }
    }
    return words;
  };
  auto expected = with_others({"N", kQueue, kWaiters, kFence, kGone7});
  for (const std::string& word :
       {std::string("|"), kHold7, std::string("30000"),
        "64 3 2 10000 0 1795227594499240 30000 0 " + kChannel, std::string("me")}) {
    expected.push_back(word);
  }
  EXPECT_EQ(Words({.what = AcquireRequest{SomeBid(7)}, .grant = 7, .lease = kLease}), expected);
  owner_ = kIdentity.client;
  expected = with_others({"N", kQueue, kWaiters, kFence});
  expected.insert(expected.end(), {"|", kHold7});
  EXPECT_EQ(Words({.what = ReleaseRequest(), .grant = 7, .lease = kLease}), expected);
}

TEST_F(EncodedRequestTest, ExtraKeysAndArgumentsComeLast) {
  owner_ = kIdentity.client;
  plan_.keys = KeyNames("simple", {"simple.more"});
  plan_.extra_args = {"x", "y"};
  EXPECT_THAT(Words({.what = ReleaseRequest{.next = SomeBid(8)}, .grant = 7, .lease = kLease}),
              ElementsAre("N", kQueue, kWaiters, kFence, kGone7, kGone8, kMore, "|", kHold7,
                          "0 0 0", kIdentity.client, kHold8, "30000",
                          "64 3 1 10000 0 1795227594499240 30000 0 " + kChannel, kIdentity.client,
                          "x", "y"));
  EXPECT_THAT(Words({.what = ReleaseRequest(), .grant = 7, .lease = kLease}),
              ElementsAre("N", kQueue, kWaiters, kFence, kMore, "|", kHold7));
}

TEST_F(EncodedRequestTest, ReadersReleaseOmitsOwner) {
  plan_.use = GrantUse::kShared;
  EXPECT_THAT(Words({.what = ReleaseRequest(), .grant = 7, .lease = kLease}),
              ElementsAre("N", kQueue, kWaiters, kFence, "|", kHold7));
}

TEST_F(EncodedRequestTest, AcquireOfPermitsNamesCapacity) {
  plan_.use = GrantUse::kPermit;
  owner_ = kIdentity.client;
  AcquireRequest acquire = SomeBid(7);
  acquire.amount = 3;
  acquire.terms.capacity = 8;
  EXPECT_THAT(
      Words({.what = acquire, .grant = 7, .lease = kLease}),
      ElementsAre("N", kQueue, kWaiters, kFence, kGone7, "|", kHold7, "30000",
                  "3 3 1 10000 0 1795227594499240 30000 0 " + kChannel, kIdentity.client, "8"));
}

TEST_F(EncodedRequestTest, LatchWaiterReportsKnownCounts) {
  plan_.use = GrantUse::kLatch;
  owner_ = "latch:1000:x";
  AcquireRequest acquire = SomeBid(7);
  const size_t words = Words({.what = acquire, .grant = 7, .lease = kLease}).size();
  acquire.counted = {.counts = 2, .last = 1795227594499240};
  const auto told = Words({.what = acquire, .grant = 7, .lease = kLease});
  EXPECT_EQ(told.size(), words + 1);
  EXPECT_EQ(told.back(), "2 1795227594499240");
}

TEST_F(EncodedRequestTest, RenewAndCancel) {
  EXPECT_THAT(Words({.what = RenewRequest(), .grant = 7, .lease = kLease}),
              ElementsAre("N", kQueue, kWaiters, kFence, "|", kHold7, "30000"));
  EXPECT_EQ(script_, "renew");
  EXPECT_THAT(Words({.what = CancelRequest{.amount = 64}, .grant = 7, .lease = kLease}),
              ElementsAre("N", kQueue, kWaiters, kFence, kGone7, "|", kHold7, "0", "64"));
  EXPECT_EQ(script_, "cancel");
}

TEST_F(EncodedRequestTest, MarksCacheableGrantButNotItsTombstone) {
  const std::string cacheable = kHold7 + "k";
  AcquireRequest acquire = SomeBid(7 | kCacheable);
  EXPECT_THAT(Words({.what = acquire, .grant = acquire.grant, .lease = kLease}),
              ElementsAre("N", kQueue, kWaiters, kFence, kGone7, "|", cacheable, "30000",
                          "64 3 1 10000 0 1795227594499240 30000 0 " + kChannel, "me"));
  EXPECT_THAT(
      Words({.what = RenewRequest{.last_token = 72}, .grant = acquire.grant, .lease = kLease}),
      ElementsAre("N", kQueue, kWaiters, kFence, "|", cacheable, "30000", kChannel, "72"));
  EXPECT_THAT(Words({.what = RenewRequest(), .grant = acquire.grant, .lease = kLease}),
              ElementsAre("N", kQueue, kWaiters, kFence, "|", cacheable, "30000", kChannel, "-1"));
  EXPECT_THAT(Words({.what = ReleaseRequest{.tombstone = true, .last_used = 9, .last_reserved = 72},
                     .grant = acquire.grant,
                     .lease = kLease}),
              ElementsAre("N", kQueue, kWaiters, kFence, kGone7, kGone7, "|", cacheable,
                          "9 72 30000", "me"));
  EXPECT_THAT(Words({.what = CancelRequest{.amount = 64}, .grant = acquire.grant, .lease = kLease}),
              ElementsAre("N", kQueue, kWaiters, kFence, kGone7, "|", cacheable, "0", "64"));
}

TEST_F(EncodedRequestTest, NativeAcquireIsValueAndClaim) {
  const std::string native = kHold7 + "n";
  AcquireRequest acquire = SomeBid(7 | kNative);
  EXPECT_THAT(Words({.what = acquire, .grant = acquire.grant, .lease = kLease}),
              ElementsAre("N", "|", native, "2000"));
  EXPECT_EQ(native_, redis::Native::kSetIfNone);
  acquire.terms.lease = absl::Seconds(1);
  EXPECT_THAT(Words({.what = acquire, .grant = acquire.grant, .lease = absl::Seconds(1)}),
              ElementsAre("N", "|", native, "1000"));
}

TEST_F(EncodedRequestTest, NativeReleaseHasScriptForOldServers) {
  owner_ = kIdentity.client;
  const std::string native = kHold7 + "n";
  EXPECT_THAT(
      Words({.what = ReleaseRequest{.native = true}, .grant = 7 | kNative, .lease = kLease}),
      ElementsAre("N", "|", native));
  EXPECT_EQ(native_, redis::Native::kDeleteIfEqual);
  EXPECT_EQ(script_, "simple/release_natively");
  EXPECT_THAT(Words({.what = ReleaseRequest(), .grant = 7 | kNative, .lease = kLease}),
              ElementsAre("N", kQueue, kWaiters, kFence, "|", native));
  EXPECT_EQ(native_, redis::Native::kNo);
}

TEST_F(EncodedRequestTest, OtherRequestsForNativeGrantAreScripts) {
  const std::string native = kHold7 + "n";
  EXPECT_THAT(
      Words({.what = RenewRequest{.draws_token = true}, .grant = 7 | kNative, .lease = kLease}),
      ElementsAre("N", kQueue, kWaiters, kFence, "|", native, "30000", "token"));
  EXPECT_THAT(
      Words({.what = CancelRequest{.tombstone = true}, .grant = 7 | kNative, .lease = kLease}),
      ElementsAre("N", kQueue, kWaiters, kFence, kGone7, "|", native, "30000", "1"));
}

TEST_F(EncodedRequestTest, TryThatRecallsCachedGrantSaysThree) {
  AcquireRequest acquire = SomeBid(7);
  acquire.wait = false;
  acquire.recalls = true;
  EXPECT_THAT(Words({.what = acquire, .grant = 7, .lease = kLease}),
              Contains("64 3 3 10000 0 1795227594499240 30000 0 " + kChannel));
}

TEST_F(EncodedRequestTest, ToolScriptsHaveOwnKeysAndArguments) {
  EXPECT_THAT(Words({.what = ScriptRequest{&plan_.scripts.inspect, {"100"}}}),
              ElementsAre("N", kQueue, kWaiters, kFence, "|", "100"));
  EXPECT_THAT(
      Words({.what = ScriptRequest{&plan_.scripts.force_release, {"redlatch:"}, "own"}}),
      ElementsAre("N", kQueue, kWaiters, kFence, AuxiliaryKey("N", "own"), "|", "redlatch:"));
}

Reply Text(std::string text) { return {.type = Reply::Type::kString, .text = std::move(text)}; }
Reply Number(int64_t number) { return {.type = Reply::Type::kInteger, .integer = number}; }
Reply List(std::vector<Reply> elements) {
  return {.type = Reply::Type::kArray, .elements = std::move(elements)};
}

template <class What>
Result Read(std::string text) {
  return ReadResult({.what = What()}, Text(std::move(text)));
}

TEST(ReadResult, ReadsQueuedAndReleasedWithNextAcquire) {
  const Result result = Read<ReleaseRequest>("released queued -1 3 1795227594499241");
  const auto* const queued = std::get_if<AcquireQueued>(&std::get<Freed>(result.what).next);
  ASSERT_NE(queued, nullptr);
  EXPECT_LT(queued->retry_after, absl::ZeroDuration());
  EXPECT_EQ(queued->position, 3);
  EXPECT_EQ(queued->ticket, 1795227594499241U);
  EXPECT_TRUE(std::holds_alternative<AcquireNotMade>(
      std::get<Freed>(Read<ReleaseRequest>("released").what).next));
  EXPECT_TRUE(std::holds_alternative<NotHeld>(Read<ReleaseRequest>("not_held").what));
  EXPECT_TRUE(std::holds_alternative<StillHeld>(Read<RenewRequest>("held").what));
  EXPECT_TRUE(std::holds_alternative<NotHeld>(Read<RenewRequest>("not_held").what));
  EXPECT_TRUE(std::holds_alternative<AcquireBusy>(Read<AcquireRequest>("busy 12").acquire()));
  EXPECT_TRUE(std::holds_alternative<AcquireCancelled>(Read<AcquireRequest>("gone").acquire()));
  EXPECT_TRUE(std::holds_alternative<Cancelled>(Read<CancelRequest>("left").what));
}

Result ReadNative(bool acquires, const Reply& reply) {
  Request request{.grant = 7 | kNative, .lease = kLease};
  if (acquires) request.what = AcquireRequest{.grant = 7 | kNative, .terms = {.lease = kLease}};
  if (!acquires) request.what = ReleaseRequest{.native = true};
  return ReadResult(request, reply);
}

TEST(ReadResult, NativeAcquireIsGrantedForClaimOrTaken) {
  const Result got = ReadNative(true, {.type = Reply::Type::kStatus, .text = "OK"});
  EXPECT_EQ(std::get<AcquireGranted>(got.acquire()).lease, absl::Seconds(2));
  EXPECT_TRUE(std::holds_alternative<AcquireTaken>(ReadNative(true, {}).acquire()));
}

TEST(ReadResult, NativeReleaseFreesOrFindsAnotherValue) {
  const Reply one{.type = Reply::Type::kInteger, .integer = 1};
  const Reply none{.type = Reply::Type::kInteger, .integer = 0};
  EXPECT_TRUE(std::holds_alternative<Freed>(ReadNative(false, one).what));
  EXPECT_TRUE(std::holds_alternative<NotHeld>(ReadNative(false, none).what));
}

TEST(ReadResult, RefusedNativeCommandLeavesTheRestToScripts) {
  const auto error = [](std::string text) {
    return Reply{.type = Reply::Type::kError, .text = std::move(text)};
  };
  const Result denied = ReadNative(true, error("NOPERM this user has no permissions to run 'set'"));
  EXPECT_TRUE(std::holds_alternative<AcquireTaken>(denied.acquire()));
  EXPECT_TRUE(denied.no_native);
  const Result unknown = ReadNative(false, error("ERR unknown command 'DELIFEQ'"));
  EXPECT_TRUE(std::holds_alternative<NotHeld>(unknown.what));
  EXPECT_TRUE(unknown.no_native);
  EXPECT_FALSE(ReadNative(true, error("LOADING Redis is loading")).no_native);
}

TEST(ReadResult, RenewalOfCachedGrantReportsWaitersAndTokens) {
  const Result result = Read<RenewRequest>("held 2 1795227594499240 deaf");
  const auto* const held = std::get_if<StillHeld>(&result.what);
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(held->others, 2);
  EXPECT_EQ(held->last_token, 1795227594499240U);
  EXPECT_TRUE(result.unsubscribed);
  const Result read = Read<RenewRequest>("held 1 deaf");
  EXPECT_EQ(std::get<StillHeld>(read.what).others, 1);
  EXPECT_EQ(std::get<StillHeld>(read.what).last_token, 0U);
  EXPECT_TRUE(read.unsubscribed);
  EXPECT_FALSE(Read<RenewRequest>("held 0 17").unsubscribed);
  EXPECT_NE(Read<RenewRequest>("held x").failed(), nullptr);
  EXPECT_NE(Read<RenewRequest>("held 1 17x").failed(), nullptr);
}

TEST(ReadResult, ReadsImmediateAndLaterHandoverChecks) {
  const Result busy = Read<AcquireRequest>("busy 17 look 1 look 2000 missed");
  EXPECT_TRUE(busy.unfinished);
  EXPECT_EQ(busy.check_after, absl::Seconds(2));
  EXPECT_TRUE(busy.missed);
  const Result released = Read<ReleaseRequest>("released look 2000");
  EXPECT_FALSE(released.unfinished);
  EXPECT_EQ(released.check_after, absl::Seconds(2));
}

TEST(ReadResult, PartialToolScriptSaysHowToContinue) {
  const auto part = [](std::string said, int64_t check_after) {
    return ReadPart(List({Text(std::move(said)), Number(check_after)}));
  };
  EXPECT_EQ(part("released", 1).next, "more");
  EXPECT_EQ(part("more 17", 1).next, "more 17");
  EXPECT_TRUE(part("more 17", 1).unfinished);
  EXPECT_FALSE(part("set", 2000).unfinished);
  EXPECT_EQ(part("set", 2000).check_after, absl::Seconds(2));
  EXPECT_EQ(ReadPart(Text("set")).check_after, absl::ZeroDuration());
}

TEST(ReadResult, ReplyOutsideContractIsFailure) {
  for (const Request& send :
       {Request{.what = AcquireRequest()}, Request{.what = RenewRequest()},
        Request{.what = ReleaseRequest()}, Request{.what = CancelRequest()}}) {
    for (const Reply& reply :
         {List({}), List({Text("granted")}), Number(1), Reply(), Text(""), Text("yes"),
          Text("granted"), Text("granted 12x 1 0"), Text("released granted")}) {
      const Result result = ReadResult(send, reply);
      ASSERT_NE(result.failed(), nullptr) << reply.DebugString();
      EXPECT_EQ(result.failed()->why.code(), absl::StatusCode::kInternal);
      EXPECT_TRUE(result.failed()->may_have_executed);
    }
  }
}

TEST(ReadResult, FailureSaysIfItMayHaveExecuted) {
  const absl::Status sent = redis::MarkMayHaveExecuted(absl::UnavailableError("x"));
  EXPECT_TRUE(ReadResult({}, sent).failed()->may_have_executed);
  EXPECT_FALSE(ReadResult({}, absl::UnavailableError("x")).failed()->may_have_executed);
  EXPECT_FALSE(ReadResult({}, sent).failed()->not_sent);
  EXPECT_TRUE(
      ReadResult({}, redis::MarkNotSent(absl::PermissionDeniedError("x"))).failed()->not_sent);
}

TEST(ReadMessage, ReadsGrantWithSpacesInName) {
  const std::string text = absl::StrCat("grant ", kHold7, " 3 1795227594499240 30000 5 a b ");
  const auto message = ReadMessage(kIdentity, text);
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->kind, Message::Kind::kGrant);
  EXPECT_EQ(message->news.grant, 7U);
  EXPECT_EQ(message->news.attempt, 3U);
  EXPECT_EQ(message->news.token, 1795227594499240U);
  EXPECT_EQ(message->news.lease, absl::Seconds(30));
  EXPECT_EQ(message->news.others, 5);
  EXPECT_EQ(message->key, "a b ");
}

TEST(ReadMessage, ReadsRecallAndTry) {
  for (const bool tried : {false, true}) {
    const std::string text = absl::StrCat(tried ? "tried " : "wanted ", kHold7, "k a b");
    const auto message = ReadMessage(kIdentity, text);
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->kind, tried ? Message::Kind::kTried : Message::Kind::kRecall);
    EXPECT_EQ(message->news.grant, 7U | kCacheable);
    EXPECT_EQ(message->key, "a b");
  }
}

TEST(ReadMessage, IgnoresTokenTooLargeForFence) {
  EXPECT_TRUE(ReadMessage(kIdentity, absl::StrCat("grant ", kHold7, " 3 9000000000000000 5 6 N")));
  for (const char* token : {"9000000000000001", "18446744073709551616", "18446744073709551615",
                            "-1", "+5", "0x10", "1e3", "5.0", ""}) {
    EXPECT_FALSE(ReadMessage(kIdentity, absl::StrCat("grant ", kHold7, " 3 ", token, " 5 6 N")))
        << token;
  }
}

TEST(ReadResult, ReadsLatchCounts) {
  const Result result = Read<AcquireRequest>("queued 1000 0 17 deaf told 2 1795227594499240");
  EXPECT_TRUE(result.unsubscribed);
  EXPECT_EQ(std::get<AcquireQueued>(result.acquire()).counted.counts, 2U);
  EXPECT_EQ(std::get<AcquireQueued>(result.acquire()).counted.last, 1795227594499240U);
}

TEST(ReadMessage, IgnoresOtherText) {
  const std::string other(32, 'f');
  for (const std::string& text :
       {std::string(), std::string("grant"), std::string("hello world"),
        absl::StrCat("told ", kHold7, " 2 1795227594499240 N"),
        absl::StrCat("grant ", other, ":7 3 4 5 6 N"), absl::StrCat("forced ", other, ":7 N"),
        absl::StrCat("grant ", kIdentity.client, "7 3 4 5 6 N"),
        absl::StrCat("grant ", kIdentity.client, ": 3 4 5 6 N"),
        absl::StrCat("grant ", kHold7, " 3 -4 5 6 N"), absl::StrCat("grant ", kHold7, " 3 4"),
        absl::StrCat("grant ", kHold7, "x 3 4 5 6 N")}) {
    EXPECT_FALSE(ReadMessage(kIdentity, text).has_value()) << text;
  }
}

TEST(ReadInspection, ReadsHoldersAndWaiters) {
  const auto info = ReadInspection(
      List({Text("simple"), Text("99"), List({List({Text("h"), Text("o"), Number(1500)})}),
            Number(2), List({List({Text("w"), Text("p"), Text("1795227594499240")})})}));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->kind, "simple");
  EXPECT_EQ(info->last_token, FencingToken(99));
  ASSERT_EQ(info->holders.size(), 1U);
  EXPECT_EQ(info->holders[0].remaining, absl::Milliseconds(1500));
  EXPECT_EQ(info->waiting, 2);
  ASSERT_EQ(info->waiters.size(), 1U);
  EXPECT_EQ(info->waiters[0].owner, "p");
  EXPECT_EQ(info->waiters[0].since, absl::FromUnixMicros(1795227594499240));
  EXPECT_FALSE(ReadInspection(List({Text("simple")})).ok());
  EXPECT_FALSE(ReadInspection(Number(1)).ok());
}

TEST(ReadInspection, FillsInOmittedFields) {
  const auto info = ReadInspection(
      List({Text("cooldown"), Text("99"), List({List({Text("h"), Text("o"), Number(-1)})}),
            Number(1), List({List({Text("w"), Text("p"), Text("0")})})}));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->holding, 1);
  EXPECT_EQ(info->holders[0].permits, 1);
  EXPECT_EQ(info->holders[0].since, absl::InfinitePast());
  EXPECT_EQ(info->waiters[0].since, absl::InfinitePast());
  EXPECT_EQ(info->capacity, 0);
}

TEST(ReadInspection, ReadsArrivalFromReorderingTicket) {
  for (const char* ticket : {"795227594499240", "1795227594499240", "4795227594499240"}) {
    const auto info = ReadInspection(List({Text("priority"), Text("99"), List({}), Number(1),
                                           List({List({Text("w"), Text("p"), Text(ticket)})})}));
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->waiters[0].since, absl::FromUnixMicros(1795227594499240)) << ticket;
  }
}

TEST(ReadInspection, ReadsTimesAndNumberOfFurtherWaiters) {
  const auto info = ReadInspection(
      List({Text("semaphore"), Text("0"),
            List({List({Text("a"), Text("o"), Number(9), Number(3), Text("1795227594499240")}),
                  List({Text("b"), Text("o"), Number(9), Number(2), Text("0")}),
                  List({Text("c"), Text("o"), Number(9), Number(1), Text("nan")})}),
            Number(0), List({}), Number(100'000), Number(7), Number(6)}));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->holders[0].permits, 3);
  EXPECT_EQ(info->holders[0].since, absl::FromUnixMicros(1795227594499240));
  EXPECT_EQ(info->holders[1].since, absl::InfinitePast());
  EXPECT_EQ(info->holders[2].since, absl::InfinitePast());
  EXPECT_EQ(info->holding, 100'000);
  EXPECT_EQ(info->capacity, 7);
  EXPECT_EQ(info->used, 6);
}

}  // namespace
}  // namespace redlatch::internal
