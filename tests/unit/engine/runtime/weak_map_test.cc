#include "src/engine/runtime/weak_map.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace redlatch::engine {
namespace {

TEST(WeakMap, SharesAnObjectWhileItIsInUse) {
  WeakMap<int> map;
  const std::shared_ptr<int> first = map.Of("a", [] { return std::make_shared<int>(1); });
  EXPECT_EQ(map.Of("a", [] { return std::make_shared<int>(2); }), first);
  EXPECT_EQ(*map.Of("b", [] { return std::make_shared<int>(3); }), 3);
  EXPECT_EQ(*map.Of("b", [] { return std::make_shared<int>(4); }), 4);
}

TEST(WeakMap, SizeFollowsLiveObjects) {
  WeakMap<int> map;
  const auto made = [&](int name) {
    return map.Of(absl::StrCat(name), [] { return std::make_shared<int>(); });
  };
  for (int name = 0; name < 1000; ++name) made(name);
  EXPECT_LE(map.size(), 16);
  std::vector<std::shared_ptr<int>> kept;
  for (int name = 0; name < 100; ++name) kept.push_back(made(name));
  for (int name = 100; name < 2000; ++name) made(name);
  EXPECT_LE(map.size(), 200);
  for (int name = 0; name < 100; ++name) EXPECT_EQ(made(name), kept[static_cast<size_t>(name)]);
}

}  // namespace
}  // namespace redlatch::engine
