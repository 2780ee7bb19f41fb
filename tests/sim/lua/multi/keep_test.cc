// Locks of several names, some of which a client keeps.

#include "tests/sim/lua/multi/fixture.h"

namespace redlatch {
namespace {

using ::testing::StartsWith;

class MultiKeepersTest : public MultiScriptsFixture {};

TEST_F(MultiKeepersTest, AreCalledForEachNameThatTheyKeepByTheFirstInItsQueue) {
  Ear ear(*server_, Channel('a'));
  const Request x = Kept(By('a', 1)), y = Kept(By('a', 2));
  EXPECT_THAT(Ask({"x"}, x), StartsWith("granted"));
  EXPECT_THAT(Ask({"y"}, y), StartsWith("granted"));
  EXPECT_THAT(Ask({"x", "y", "z"}, By('b')), StartsWith("queued"));
  EXPECT_EQ(ear.Hear(), "wanted " + x.hold + " x");
  EXPECT_EQ(ear.Hear(), "wanted " + y.hold + " y");
  EXPECT_EQ(ear.Hear(), "");
  EXPECT_THAT(Ask({"x", "y", "z"}, By('c')), StartsWith("queued"));
  EXPECT_EQ(ear.Hear(), "") << "they have been called";
  EXPECT_THAT(Ask({"x", "y", "z"}, Again(By('b'))), StartsWith("queued"));
  EXPECT_EQ(ear.Hear(), "wanted " + x.hold + " x");
}

TEST_F(MultiKeepersTest, AreCalledByATryThatSaysSo) {
  Ear ear(*server_, Channel('a'));
  const Request y = Kept(By('a'));
  EXPECT_THAT(Ask({"y"}, y), StartsWith("granted"));
  EXPECT_THAT(Ask({"x", "y"}, Impatient(By('b'))), StartsWith("busy"));
  EXPECT_EQ(ear.Hear(), "");
  EXPECT_THAT(Ask({"x", "y"}, Calling(By('b'))), StartsWith("busy"));
  EXPECT_EQ(ear.Hear(), "tried " + y.hold + " y");
}

}  // namespace
}  // namespace redlatch
