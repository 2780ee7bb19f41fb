#include "src/lock/key_set.h"

#include "absl/container/flat_hash_map.h"
#include "src/redis/wire/codec.h"
#include "tests/support/test_scale.h"
#include "tests/unit/lock/random_names.h"

namespace redlatch::internal {
namespace {

// The key of a lock with that prefix and suffix.
std::string KeyOf(std::string_view name, std::string_view suffix, std::string_view prefix = "") {
  const absl::StatusOr<KeySet> keys = KeySet::Make(prefix, name);
  EXPECT_TRUE(keys.ok()) << keys.status();
  return AuxiliaryKey(keys->main(), suffix);
}
std::string QueueOf(std::string_view name, std::string_view prefix = "") {
  return KeyOf(name, KeyNames("simple").queue, prefix);
}

// Why a name is refused, or "".
std::string Refused(std::string_view name, std::string_view prefix = "") {
  const absl::Status status = KeySet::Make(prefix, name).status();
  if (status.ok()) return "";
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(KeyNames, BeginWithTheKind) {
  const KeyNames names("rw", {"rw.readers", "rw.writers"});
  EXPECT_EQ(names.queue, "rw.queue");
  EXPECT_EQ(names.waiters, "rw.waiters");
  EXPECT_EQ(names.gone, "rw.gone.");
  EXPECT_THAT(names.extras, ElementsAre("rw.readers", "rw.writers"));
}

TEST(KeySet, KeysShareTheSlotOfTheNameOrItsHashTag) {
  const KeySet keys = *KeySet::Make("", "orders:42");
  EXPECT_EQ(keys.main(), "orders:42");
  EXPECT_EQ(keys.name(), "orders:42");
  EXPECT_EQ(KeyOf("orders:42", "fence"), "redlatch:2:{orders:42}:fence");
  EXPECT_EQ(KeyOf("orders:42", "rw.queue"), "redlatch:2:{orders:42}:rw.queue");
  EXPECT_EQ(KeyOf("orders:42", "rw.readers"), "redlatch:rw:{orders:42}:readers") << "no version";
  EXPECT_EQ(KeySet::Make("", "a{b}c")->main(), "a{b}c");
  EXPECT_EQ(KeyOf("a{b}c", "rw.queue"), "redlatch:2.tag:a{b}c:rw.queue");
  EXPECT_EQ(KeyOf("a{b}c", "rw.readers"), "redlatch:rw.tag:a{b}c:readers");
}

// The examples in docs/protocol.md.
TEST(KeySet, QueueKeysMatchProtocolExamples) {
  EXPECT_EQ(QueueOf("x"), "redlatch:2:{x}:simple.queue");
  EXPECT_EQ(QueueOf("{x}"), "redlatch:2.tag:{x}:simple.queue");
  EXPECT_EQ(QueueOf("x}{y}"), "redlatch:2.tag:x}{y}:simple.queue");
  EXPECT_EQ(QueueOf("{x"), "redlatch:2:{{x}:simple.queue");
  EXPECT_EQ(QueueOf("{"), "redlatch:2:{{}:simple.queue");
  EXPECT_EQ(QueueOf("jobs", "{app}:"), "redlatch:2.tag:{app}:jobs:simple.queue");
  EXPECT_EQ(QueueOf("jobs:queue", "{app}:"), "redlatch:2.tag:{app}:jobs:queue:simple.queue");
  EXPECT_EQ(QueueOf("redlatch:x", "app:"), "redlatch:2:{app:redlatch:x}:simple.queue");
}

TEST(KeySet, RefusesBracesThatScatterKeys) {
  for (const char* name : {"a}", "}", "a{}b", "{}", "}a{b", "{}{x}", "}{", "{}x", "a{}{b}"}) {
    EXPECT_THAT(Refused(name), AllOf(HasSubstr(name), HasSubstr("braces"))) << name;
  }
  EXPECT_NE(Refused("x", "app}"), "");
}

TEST(KeySet, RefusesNamesOfRedlatchKeys) {
  for (const char* name : {"redlatch:", "redlatch:x", "redlatch:2:{x}:fence", "redlatch:{x}"}) {
    EXPECT_THAT(Refused(name), HasSubstr("begins with \"redlatch:\"")) << name;
  }
  EXPECT_THAT(Refused(":x", "redlatch"), HasSubstr("begins with"));
  EXPECT_EQ(Refused("redlatch-bench:x"), "");
  EXPECT_EQ(Refused("redlatch"), "");
}

TEST(KeySet, RefusesEmptyAndTooLongNames) {
  EXPECT_THAT(Refused(""), HasSubstr("empty"));
  EXPECT_THAT(Refused("", "app:"), HasSubstr("empty"));
  EXPECT_EQ(Refused(std::string(4096, 'x')), "");
  EXPECT_THAT(Refused(std::string(4097, 'x')), HasSubstr("4096"));
  EXPECT_THAT(Refused(std::string(4093, 'x'), "app:"), HasSubstr("4097"));
}

TEST(KeySet, SurvivesMove) {
  KeySet keys("short");
  const KeySet moved = std::move(keys);
  EXPECT_EQ(moved.main(), "short");
}

TEST(KeyPrefix, IsRefusedOnlyIfEveryNameIs) {
  for (const char* prefix : {"", "app:", "{app}:", "app{", "}", "}{", "redlatch", "redlatch-"}) {
    EXPECT_TRUE(CheckKeyPrefix(prefix).ok()) << CheckKeyPrefix(prefix);
  }
  for (const std::string& prefix : std::vector<std::string>{"redlatch:", "redlatch:app:", "{}",
                                                            "a{}b{c}:", std::string(4096, 'x')}) {
    const absl::Status status = CheckKeyPrefix(prefix);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << prefix;
    EXPECT_THAT(std::string(status.message()), HasSubstr("key_prefix"));
  }
}

TEST(UsersKeyNames, BeginWithX) {
  const auto names = UsersKeyNames("cooldown", {"cooling", "queue", "a", "a.tag"});
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(names->queue, "x.cooldown.queue");
  EXPECT_THAT(names->extras, ElementsAre("x.cooling", "x.queue", "x.a", "x.a.tag"));
}

TEST(UsersKeyNames, RefuseTextThatCannotBePartOfKey) {
  for (const std::string& bad : std::vector<std::string>{"", "a:b", "A", "a b", "a{b}", "\xff",
                                                         "a\n", std::string(65, 'a')}) {
    EXPECT_EQ(UsersKeyNames(bad, {}).status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(UsersKeyNames("k", {bad}).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_TRUE(UsersKeyNames(std::string(64, 'a'), {std::string(64, 'b')}).ok());
}

TEST(UsersKeyNames, RefuseSuffixesOfQueueAndTombstone) {
  for (const char* bad : {"k.queue", "k.waiters", "k.gone.0123456789abcdef0123456789abcdef.7"}) {
    EXPECT_EQ(UsersKeyNames("k", {bad}).status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(UsersKeyNames("other", {bad}).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

// No two names share a key, whatever their lock types; see random_names.h.

constexpr size_t kNames = 5'000;  // 12 million pairs

TEST(KeyNames, AreUniquePerNameAndShareItsSlot) {
  const uint32_t seed = support::Seed();
  SCOPED_TRACE(seed);
  const std::vector<std::string> names = RandomMainKeys(kNames, seed);
  const std::vector<KeyNames> classes = AllKeyNames();
  struct Owner {
    std::string_view main;
    std::string_view queue;
  };
  absl::flat_hash_map<std::string, Owner> owners;
  for (const std::string& main : names) {
    EXPECT_TRUE(owners.emplace(main, Owner{main, ""}).second) << main;
    const redis::Slot slot = redis::SlotOf(main);
    for (const KeyNames& each : classes) {
      const std::vector<std::string> keys = OtherKeysOf(main, each);
      for (size_t i = 0; i < keys.size(); ++i) {
        const std::string& key = keys[i];
        EXPECT_EQ(redis::SlotOf(key), slot) << key << " of " << main;
        const auto [found, fresh] = owners.emplace(key, Owner{main, each.queue});
        // All types share the fence, and users' types may share the suffixes that they name
        // themselves.
        const bool shared = key.ends_with(":fence") ||
                            (i >= keys.size() - each.extras.size() &&
                             each.queue.starts_with("x.") && found->second.queue.starts_with("x."));
        EXPECT_TRUE(fresh || (found->second.main == main && shared))
            << key << " of " << main << " and " << found->second.main;
      }
    }
  }
  EXPECT_GE(names.size() * (names.size() - 1) / 2, 10'000'000U);
}

}  // namespace
}  // namespace redlatch::internal
