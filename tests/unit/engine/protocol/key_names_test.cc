// No two names share a key, whatever classes of locks have them: see random_names.h.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "gtest/gtest.h"
#include "tests/support/test_scale.h"
#include "tests/unit/engine/protocol/random_names.h"

namespace redlatch::engine {
namespace {

constexpr size_t kNames = 5'000;  // 12 million pairs

// As a cluster has it: CRC16 (XMODEM) of the tag, or of the whole key.
uint16_t SlotOf(std::string_view key) {
  const size_t open = key.find('{');
  const size_t close = open == std::string_view::npos ? open : key.find('}', open + 1);
  if (close != std::string_view::npos && close > open + 1) {
    key = key.substr(open + 1, close - open - 1);
  }
  uint32_t crc = 0;
  for (const char c : key) {
    crc ^= static_cast<uint32_t>(static_cast<unsigned char>(c)) << 8U;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 0x8000U) != 0 ? (crc << 1U) ^ 0x1021U : crc << 1U;
    }
    crc &= 0xFFFFU;
  }
  return static_cast<uint16_t>(crc % 16384);
}

TEST(KeyNames, SlotsAreThoseOfACluster) {
  EXPECT_EQ(SlotOf("123456789"), 12739);  // the example of the cluster specification
  EXPECT_EQ(SlotOf("{user1000}.following"), SlotOf("user1000"));
  EXPECT_EQ(SlotOf("foo{{bar}}zap"), SlotOf("{bar"));
}

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
    const uint16_t slot = SlotOf(main);
    for (const KeyNames& each : classes) {
      const std::vector<std::string> keys = OtherKeysOf(main, each);
      for (size_t i = 0; i < keys.size(); ++i) {
        const std::string& key = keys[i];
        EXPECT_EQ(SlotOf(key), slot) << key << " of " << main;
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
