// No two names share a key, whatever classes of locks have them: see random_names.h.

#include "absl/container/flat_hash_map.h"
#include "src/redis/wire/slot.h"
#include "tests/support/test_scale.h"
#include "tests/unit/engine/protocol/random_names.h"

namespace redlatch::engine {
namespace {

constexpr size_t kNames = 5'000;  // 12 million pairs

TEST(KeyNames, NoTwoNamesShareAKeyAndThoseOfOneShareASlot) {
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
        // The fence is all classes' own, and users' classes may share what they themselves name.
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
}  // namespace redlatch::engine
