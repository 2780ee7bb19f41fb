#include "src/engine/runtime/weak_map.h"

#include "tests/support/testing.h"

namespace redlatch::engine {
namespace {

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
