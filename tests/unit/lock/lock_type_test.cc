#include "src/lock/lock_type.h"

#include <unistd.h>

#include "lua/scripts.h"
#include "src/base/sha1.h"
#include "src/lock/description.h"
#include "tests/support/testing.h"

namespace redlatch::internal {
namespace {

TEST(Assemble, LeavesScriptWithoutIncludesUnchanged) {
  for (const std::string script : {"return 1", "return 1\n", "", "\n\n", "--include: x\n"}) {
    EXPECT_EQ(*Assemble(script), script);
  }
}

TEST(Assemble, IncludesDependenciesOnceInOrder) {
  const std::string script = *Assemble(
      "local function take() end\n-- include: common/settle\n-- include: common/queue\nreturn 1");
  EXPECT_THAT(script, Not(HasSubstr("-- include")));
  const auto count = [&](const std::string& text) {
    return std::vector<absl::string_view>(absl::StrSplit(script, text)).size() - 1;
  };
  EXPECT_EQ(count("local function find_place("), 1U);
  EXPECT_EQ(count("local function settle("), 1U);
  EXPECT_LT(script.find("local function choose("), script.find("local function settle("));
  EXPECT_TRUE(script.ends_with("\nreturn 1"));
}

TEST(Assemble, IncludesWholeScripts) {
  EXPECT_EQ(*Assemble("-- include: simple/renew\n"), lua::kSimpleRenew.body);
  EXPECT_EQ(*Assemble("-- include: reentrant/release\r\n"), lua::kReentrantRelease.body);
}

TEST(Assemble, NamesUnknownPieces) {
  const auto script = Assemble("-- include: common/tmie\n");
  EXPECT_TRUE(absl::IsInvalidArgument(script.status()));
  EXPECT_THAT(script.status().message(), HasSubstr("\"common/tmie\""));
}

TEST(LockType, SeveralNamesAreApartFromOneAndFromOthers) {
  const LockType one{.keys = KeyNames("simple")};
  LockType two = one;
  two.others = {KeySet("b"), KeySet("c")};
  LockType three = one;
  three.others = {KeySet("b1:c")};
  EXPECT_TRUE(one.ApartFrom(two));
  EXPECT_TRUE(two.ApartFrom(three));
  EXPECT_FALSE(two.ApartFrom(two));
  EXPECT_FALSE(two.ApartFrom({.keys = KeyNames("reentrant")})) << "which a client may not mix";
  EXPECT_FALSE((*Complete(two)).SameAs(one));
  EXPECT_EQ(one.OthersId(), "");
  EXPECT_NE(two.OthersId(), three.OthersId());
}

TEST(LockType, ComparesScriptsTraitsKeysAndArguments) {
  const LockType type{.scripts = {.acquire = {.body = "a"}}, .traits = {.kind = "k"}};
  const LockType complete = *Complete(type);
  EXPECT_TRUE(complete.SameAs(type));
  LockType other = type;
  other.scripts.cancel.body = "c";
  EXPECT_FALSE(complete.SameAs(other));
  other = type;
  other.traits.reentrant = true;
  EXPECT_FALSE(complete.SameAs(other));
  other = type;
  other.keys.extras = {"x.more"};
  EXPECT_FALSE(complete.SameAs(other));
  other = type;
  other.extra_args = {"7"};
  EXPECT_FALSE(complete.SameAs(other));
}

TEST(LockType, AssemblesUserScriptsAndComparesOriginals) {
  const LockType told{
      .scripts = {.acquire = {.name = "my/acquire", .body = "-- include: simple/acquire\n"}}};
  const LockType type = *Complete(told);
  EXPECT_EQ(type.scripts.acquire.body.find("-- include"), std::string_view::npos);
  EXPECT_EQ(type.scripts.acquire.sha1, base::Sha1Hex(type.scripts.acquire.body));
  EXPECT_TRUE(type.SameAs(told));
  LockType broken = told;
  broken.scripts.renew.body = "-- include: common/nowhere\n";
  EXPECT_TRUE(absl::IsInvalidArgument(Complete(broken).status()));
}

using ::testing::Ge;

constexpr absl::Time kStart = absl::FromUnixMicros(1795227594499240);

std::string Line(const std::string& program) {
  return WriteDescription({.host = "db-1", .pid = 4711, .program = program}, kStart);
}

// The program's name as it is read back, or "?" if the line is not a description.
std::string Read(const std::string& line) {
  const auto process = ReadDescription(line);
  return process ? process->program : "?";
}

TEST(ClientOf, ReadsGrantIdsOfThisVersionOnly) {
  const std::string client = "0123456789abcdef0123456789abcdef";
  for (const char* rest : {":1", ":18446744073709551615", ":1k"}) {
    EXPECT_EQ(ClientOf(client + rest), client) << rest;
  }
  for (const char* rest : {"", ":", ":k", ":1kk", ":1K", ":1 ", ":1:2", ":-1", "0:1"}) {
    EXPECT_EQ(ClientOf(client + rest), "") << rest;
  }
  EXPECT_EQ(ClientOf("k"), "");
}

TEST(Description, IsWrittenAgainBeforeItEnds) {
  const DescriptionPace pace;
  EXPECT_GT(pace.lifetime, 2 * pace.refresh) << "one attempt may fail";
}

TEST(Description, IsOneLineOfTextAndSurvivesOddProgramNames) {
  EXPECT_EQ(Line("nightly report"), "4711 1795227594499240 db-1 nightly report");
  for (const std::string& name :
       {std::string(), std::string(" two  spaces "), std::string("\"quoted\\\""),
        std::string("gr\xC3\xBC\xC3\x9F \xE2\x82\xAC"), std::string("no \xFF utf-8")}) {
    EXPECT_EQ(Read(Line(name)), name);
  }
  // Control characters do not.
  EXPECT_EQ(Read(Line("a\nb\tc\x1b[2J\x7f")), "a?b?c?[2J?");
  EXPECT_EQ(Read(Line(std::string("nul\0inside", 10))), "nul?inside");
}

TEST(Description, WritesHostAsOneWord) {
  const auto process = ReadDescription(
      WriteDescription({.host = "my host", .pid = 1, .program = "nightly"}, kStart));
  ASSERT_TRUE(process.has_value());
  EXPECT_EQ(process->host, "my_host");
  EXPECT_EQ(process->program, "nightly");
}

TEST(Description, CutsLongProgramNames) {
  EXPECT_LT(Line(std::string(1 << 20, 'x')).size(), 600U);
  // No character is cut in two.
  std::string euros;
  for (int i = 0; i < 200; ++i) euros += "\xE2\x82\xAC";
  const std::string read = Read(Line(euros));
  EXPECT_GT(read.size(), 200U);
  EXPECT_EQ(read, euros.substr(0, read.size()));
  EXPECT_EQ(read.size() % 3, 0U);
}

TEST(Description, RefusesOtherText) {
  for (const std::string_view text :
       {"", " ", "7", "7 1", "7 1 host", "x 1 host program", "0 1 host program",
        "-1 1 host program", "7.5 1 host program", "7 x host program",
        "99999999999999999999 1 host program", "{\"pid\":7}"}) {
    EXPECT_FALSE(ReadDescription(text).has_value()) << text;
  }
}

TEST(Description, NamesThisProcess) {
  const LockInfo::Process process = ThisProcess("");
  EXPECT_EQ(process.pid, getpid());
  EXPECT_THAT(process.host.size(), Ge(1U));
  EXPECT_THAT(process.program, HasSubstr("unit_tests"));
  EXPECT_EQ(ThisProcess("nightly").program, "nightly");
}

}  // namespace
}  // namespace redlatch::internal
