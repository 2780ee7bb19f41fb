// The contract of lua/README.md, from the client's side.
#include "src/lock/script_codec.h"

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "src/redis/wire/errors.h"
#include "tests/support/testing.h"

namespace redlatch::internal {
namespace {

using redis::Reply;

const Identity kIdentity{.client = "00112233445566778899aabbccddeeff"};
const std::string kHold7 = kIdentity.client + ":7";

constexpr absl::Duration kLease = absl::Seconds(30);

AcquireRequest SomeAcquire(GrantId grant = 7) {
  return {.grant = grant,
          .terms = {.lease = kLease},
          .attempt = 3,
          .wait = true,
          .amount = 64,
          .ticket = 1795227594499240};
}

// A release of a grant of which one token was used and `last` was the last.
ReleaseRequest Release(uint64_t last = 9) { return {.last_used = 9, .last_reserved = last}; }

struct EncodedRequestTest : ::testing::Test {
  // The call's keys and arguments, with short names for those of this lock and client. A word that
  // contains spaces is in quotes.
  std::string Words(const Request& request, absl::Duration claim = absl::InfiniteDuration()) {
    EncodedRequest encoded(
        {.identity = kIdentity, .keys = keys_, .type = plan_, .owner = owner_, .claim = claim},
        request);
    const redis::ScriptCall call = encoded.call();
    script_ = call.script == nullptr ? "" : call.script->name;
    native_ = call.native;
    std::vector<std::string> words(call.keys.begin(), call.keys.end());
    words.emplace_back("|");
    words.insert(words.end(), call.args.begin(), call.args.end());
    for (std::string& word : words) {
      if (word.find(' ') != word.npos) word = "'" + word + "'";
    }
    return absl::StrReplaceAll(absl::StrJoin(words, " "),
                               {{"redlatch:2:{N}:simple.", ""},
                                {"redlatch:2:{N}:", ""},
                                {"redlatch:" + kIdentity.client, "CHANNEL"},
                                {kIdentity.client, "CLIENT"},
                                {"1795227594499240", "TICKET"}});
  }
  template <class What>
  std::string Of(What what, GrantId grant = 7, absl::Duration lease = kLease) {
    return Words({.what = std::move(what), .grant = grant, .lease = lease});
  }

  const KeySet keys_ = *KeySet::Make("", "N");
  LockType plan_{.scripts = {.acquire = {.name = "acquire"},
                             .release = {.name = "release"},
                             .renew = {.name = "renew"},
                             .cancel = {.name = "cancel"},
                             .inspect = {.name = "inspect"},
                             .force_release = {.name = "force_release"}},
                 .keys = KeyNames("simple")};
  std::string owner_ = kIdentity.client;
  std::string script_;
  redis::Native native_ = redis::Native::kNo;
};

// What every script takes, and an acquire and a release with all their arguments.
constexpr char kPlain[] = "N queue waiters fence | ";
constexpr char kAsking[] = "N queue waiters fence gone.CLIENT.7 | ";
constexpr char kReleasing[] = "N queue waiters fence gone.CLIENT.7 gone.CLIENT.7 | ";
constexpr char kTerms[] = "'64 3 1 10000 0 TICKET 30000 0 CHANNEL'";

TEST_F(EncodedRequestTest, Acquire) {
  owner_ = "me";
  EXPECT_EQ(Of(SomeAcquire()), absl::StrCat(kAsking, "CLIENT:7 30000 ", kTerms, " me"));
  EXPECT_EQ(script_, "acquire");
}

TEST_F(EncodedRequestTest, ClaimIsShorterThanLease) {
  const Request request{.what = SomeAcquire(), .grant = 7, .lease = kLease};
  EXPECT_THAT(Words(request, absl::Seconds(2)), HasSubstr(" TICKET 2000 0 CHANNEL"));
}

// And by what the client leaves of the margin unused.
TEST_F(EncodedRequestTest, ClaimIsLongerByMargin) {
  AcquireRequest acquire = SomeAcquire();
  acquire.terms.margin = PackedDuration(absl::Seconds(5));
  const Request request{.what = acquire, .grant = 7, .lease = kLease};
  EXPECT_THAT(Words(request, absl::Seconds(2)), HasSubstr(" TICKET 7050 0 CHANNEL"));
}

TEST_F(EncodedRequestTest, RoundsLeasesUp) {
  AcquireRequest acquire = SomeAcquire();
  acquire.terms = {.lease = absl::Microseconds(1500001), .manual = true};
  acquire.wait = false;
  acquire.ticket = 0;
  EXPECT_EQ(Of(acquire), absl::StrCat(kAsking, "CLIENT:7 1501 '64 3 0 501 1 0 1501 0 CHANNEL'"));
}

TEST_F(EncodedRequestTest, ThreadRequestsOmitOwner) {
  EXPECT_EQ(Of(SomeAcquire()), absl::StrCat(kAsking, "CLIENT:7 30000 ", kTerms));
  EXPECT_EQ(Of(Release()), absl::StrCat(kPlain, "CLIENT:7"));
  EXPECT_EQ(script_, "release");
}

TEST_F(EncodedRequestTest, ReleaseSaysUntilWhenTheLockStaysTaken) {
  ReleaseRequest release = Release();
  release.taken_until = 1795227594499240;
  release.taken_for = absl::Microseconds(4500);
  EXPECT_EQ(Of(release), absl::StrCat(kReleasing, "CLIENT:7 '9 9 0 TICKET 5' CLIENT"));
}

TEST_F(EncodedRequestTest, FirstLeaseIsAtLeastAsLongAsLockStaysTaken) {
  AcquireRequest acquire = SomeAcquire();
  acquire.terms.at_least = PackedDuration(absl::Minutes(1));
  EXPECT_THAT(Of(acquire), HasSubstr("CLIENT:7 60000 "));
}

TEST_F(EncodedRequestTest, ExplicitOwnersReleaseNamesOwner) {
  owner_ = "me";
  EXPECT_EQ(Of(Release()), absl::StrCat(kReleasing, "CLIENT:7 '9 9 0' me"));
}

TEST_F(EncodedRequestTest, ReleaseGivesTokensBackAndLeavesTombstone) {
  ReleaseRequest release = Release(72);
  release.tombstone = true;
  EXPECT_EQ(Of(release), absl::StrCat(kReleasing, "CLIENT:7 '9 72 30000' CLIENT"));
}

TEST_F(EncodedRequestTest, SeveralNamesPutOtherKeysLastAndWaitAsTwo) {
  plan_.others = {*KeySet::Make("", "O"), *KeySet::Make("", "P")};
  std::string others;
  for (const std::string name : {"O", "P"}) {
    const std::string stem = " redlatch:2:{" + name + "}:";
    absl::StrAppend(&others, " ", name, stem, "simple.queue", stem, "simple.waiters", stem,
                    "fence");
  }
  EXPECT_EQ(Of(SomeAcquire()),
            absl::StrCat("N queue waiters fence gone.CLIENT.7", others,
                         " | CLIENT:7 30000 '64 3 2 10000 0 TICKET 30000 0 CHANNEL'"));
  EXPECT_EQ(Of(ReleaseRequest()), absl::StrCat("N queue waiters fence", others, " | CLIENT:7"));
}

TEST_F(EncodedRequestTest, ExtraKeysAndArgumentsComeLast) {
  plan_.keys = KeyNames("simple", {"simple.more"});
  plan_.extra_args = {"x", "y"};
  EXPECT_EQ(
      Of(ReleaseRequest{.next = SomeAcquire(8)}),
      absl::StrCat("N queue waiters fence gone.CLIENT.7 gone.CLIENT.8 more | CLIENT:7 '0 0 0' "
                   "CLIENT CLIENT:8 30000 ",
                   kTerms, " CLIENT x y"));
  EXPECT_EQ(Of(ReleaseRequest()), "N queue waiters fence more | CLIENT:7");
}

TEST_F(EncodedRequestTest, ReadersReleaseOmitsOwner) {
  owner_ = "me";
  plan_.use = GrantUse::kShared;
  EXPECT_EQ(Of(ReleaseRequest()), absl::StrCat(kPlain, "CLIENT:7"));
}

TEST_F(EncodedRequestTest, AcquireOfPermitsNamesCapacity) {
  plan_.use = GrantUse::kPermit;
  AcquireRequest acquire = SomeAcquire();
  acquire.amount = 3;
  acquire.terms.capacity = 8;
  EXPECT_EQ(Of(acquire), absl::StrCat(kAsking,
                                      "CLIENT:7 30000 '3 3 1 10000 0 TICKET 30000 0 CHANNEL' "
                                      "CLIENT 8"));
}

TEST_F(EncodedRequestTest, LatchWaiterReportsKnownCounts) {
  plan_.use = GrantUse::kLatch;
  owner_ = "latch:1000:x";
  AcquireRequest acquire = SomeAcquire();
  const std::string words = Of(acquire);
  acquire.counted = {.counts = 2, .last = 1795227594499240};
  EXPECT_EQ(Of(acquire), words + " '2 TICKET'");
}

TEST_F(EncodedRequestTest, RenewAndCancel) {
  EXPECT_EQ(Of(RenewRequest()), absl::StrCat(kPlain, "CLIENT:7 30000"));
  EXPECT_EQ(script_, "renew");
  EXPECT_EQ(Of(CancelRequest{.amount = 64}), absl::StrCat(kAsking, "CLIENT:7 0 64"));
  EXPECT_EQ(script_, "cancel");
}

TEST_F(EncodedRequestTest, MarksCacheableGrantButNotItsTombstone) {
  constexpr GrantId kGrant = 7 | kCacheable;
  ReleaseRequest release = Release(72);
  release.tombstone = true;
  EXPECT_EQ(Of(SomeAcquire(kGrant), kGrant), absl::StrCat(kAsking, "CLIENT:7k 30000 ", kTerms));
  EXPECT_EQ(Of(RenewRequest{.last_token = 72}, kGrant),
            absl::StrCat(kPlain, "CLIENT:7k 30000 CHANNEL 72"));
  EXPECT_EQ(Of(RenewRequest(), kGrant), absl::StrCat(kPlain, "CLIENT:7k 30000 CHANNEL -1"));
  EXPECT_EQ(Of(release, kGrant), absl::StrCat(kReleasing, "CLIENT:7k '9 72 30000' CLIENT"));
  EXPECT_EQ(Of(CancelRequest{.amount = 64}, kGrant), absl::StrCat(kAsking, "CLIENT:7k 0 64"));
}

constexpr GrantId kNativeGrant = 7 | kNative;

TEST_F(EncodedRequestTest, NativeAcquireIsValueAndClaim) {
  AcquireRequest acquire = SomeAcquire(kNativeGrant);
  EXPECT_EQ(Of(acquire, kNativeGrant), "N | CLIENT:7n 2000");
  EXPECT_EQ(native_, redis::Native::kSetIfNone);
  acquire.terms.lease = absl::Seconds(1);
  EXPECT_EQ(Of(acquire, kNativeGrant, absl::Seconds(1)), "N | CLIENT:7n 1000");
}

TEST_F(EncodedRequestTest, NativeReleaseHasScriptForOldServers) {
  EXPECT_EQ(Of(ReleaseRequest{.native = true}, kNativeGrant), "N | CLIENT:7n");
  EXPECT_EQ(native_, redis::Native::kDeleteIfEqual);
  EXPECT_EQ(script_, "simple/release_natively");
  EXPECT_EQ(Of(ReleaseRequest(), kNativeGrant), absl::StrCat(kPlain, "CLIENT:7n"));
  EXPECT_EQ(native_, redis::Native::kNo);
}

TEST_F(EncodedRequestTest, OtherRequestsForNativeGrantAreScripts) {
  EXPECT_EQ(Of(RenewRequest{.draws_token = true}, kNativeGrant),
            absl::StrCat(kPlain, "CLIENT:7n 30000 token"));
  EXPECT_EQ(Of(CancelRequest{.tombstone = true}, kNativeGrant),
            absl::StrCat(kAsking, "CLIENT:7n 30000 1"));
}

TEST_F(EncodedRequestTest, TryThatRecallsCachedGrantSaysThree) {
  AcquireRequest acquire = SomeAcquire();
  acquire.wait = false;
  acquire.recalls = true;
  EXPECT_THAT(Of(acquire), HasSubstr("'64 3 3 10000 0 TICKET 30000 0 CHANNEL'"));
}

TEST_F(EncodedRequestTest, ToolScriptsHaveOwnKeysAndArguments) {
  EXPECT_EQ(Words({.what = ScriptRequest{&plan_.scripts.inspect, {"100"}}}),
            absl::StrCat(kPlain, "100"));
  EXPECT_EQ(Words({.what = ScriptRequest{&plan_.scripts.force_release, {"redlatch:"}, "own"}}),
            "N queue waiters fence own | redlatch:");
}

Reply Text(std::string text) { return {.type = Reply::Type::kString, .text = std::move(text)}; }
Reply Number(int64_t number) { return {.type = Reply::Type::kInteger, .integer = number}; }
Reply List(std::vector<Reply> elements) {
  return {.type = Reply::Type::kArray, .elements = std::move(elements)};
}

template <class What, class Variant>
bool Is(const Variant& variant) {
  return std::holds_alternative<What>(variant);
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
  EXPECT_TRUE(Is<AcquireNotMade>(std::get<Freed>(Read<ReleaseRequest>("released").what).next));
  EXPECT_TRUE(Is<NotHeld>(Read<ReleaseRequest>("not_held").what));
  EXPECT_TRUE(Is<StillHeld>(Read<RenewRequest>("held").what));
  EXPECT_TRUE(Is<NotHeld>(Read<RenewRequest>("not_held").what));
  EXPECT_TRUE(Is<AcquireBusy>(Read<AcquireRequest>("busy 12").acquire()));
  EXPECT_TRUE(Is<AcquireCancelled>(Read<AcquireRequest>("gone").acquire()));
  EXPECT_TRUE(Is<Cancelled>(Read<CancelRequest>("left").what));
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
  EXPECT_TRUE(Is<AcquireTaken>(ReadNative(true, {}).acquire()));
}

TEST(ReadResult, NativeReleaseFreesOrFindsAnotherValue) {
  EXPECT_TRUE(Is<Freed>(ReadNative(false, Number(1)).what));
  EXPECT_TRUE(Is<NotHeld>(ReadNative(false, Number(0)).what));
}

TEST(ReadResult, RefusedNativeCommandLeavesTheRestToScripts) {
  const auto error = [](std::string text) {
    return Reply{.type = Reply::Type::kError, .text = std::move(text)};
  };
  const Result denied = ReadNative(true, error("NOPERM this user has no permissions to run 'set'"));
  EXPECT_TRUE(Is<AcquireTaken>(denied.acquire()));
  EXPECT_TRUE(denied.no_native);
  const Result unknown = ReadNative(false, error("ERR unknown command 'DELIFEQ'"));
  EXPECT_TRUE(Is<NotHeld>(unknown.what));
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

// A holder or waiter in the reply to an inspection: its grant, its owner, and its other fields.
Reply Party(const char* grant, const char* owner, std::vector<Reply> more) {
  more.insert(more.begin(), {Text(grant), Text(owner)});
  return List(std::move(more));
}

TEST(ReadInspection, ReadsHoldersAndWaiters) {
  const auto info =
      ReadInspection(List({Text("simple"), Text("99"), List({Party("h", "o", {Number(1500)})}),
                           Number(2), List({Party("w", "p", {Text("1795227594499240")})})}));
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
  const auto info =
      ReadInspection(List({Text("cooldown"), Text("99"), List({Party("h", "o", {Number(-1)})}),
                           Number(1), List({Party("w", "p", {Text("0")})})}));
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
                                           List({Party("w", "p", {Text(ticket)})})}));
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->waiters[0].since, absl::FromUnixMicros(1795227594499240)) << ticket;
  }
}

TEST(ReadInspection, ReadsTimesAndNumberOfFurtherWaiters) {
  const auto info =
      ReadInspection(List({Text("semaphore"), Text("0"),
                           List({Party("a", "o", {Number(9), Number(3), Text("1795227594499240")}),
                                 Party("b", "o", {Number(9), Number(2), Text("0")}),
                                 Party("c", "o", {Number(9), Number(1), Text("nan")})}),
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
