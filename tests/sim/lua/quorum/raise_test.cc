
#include "lua/scripts.h"
#include "tests/sim/lua/script_server.h"

namespace redlatch {
namespace {

class RaiseTest : public ::testing::Test {
 protected:
  void Hold(const std::string& hold, int64_t fence) {
    server_->Command({"SET", "orders", hold + " 1", "PX", "30000"});
    server_->Command({"SET", "fence", absl::StrCat(fence), "PX", "30000"});
  }
  std::string Raise(const std::string& hold, int64_t last, int lease_ms = 0) {
    return server_->Text({"EVAL", std::string(lua::kQuorumRaise.body), "6", "orders", "queue",
                          "waiters", "fence", "gone", "turn", hold, absl::StrCat(last),
                          absl::StrCat(lease_ms), "1"});
  }
  std::string Fence() { return server_->Text({"GET", "fence"}); }

  const std::unique_ptr<ScriptServer> server_ = std::make_unique<ScriptServer>();
};

TEST_F(RaiseTest, CountsWhereTheHoldStands) {
  Hold("a", 7);
  EXPECT_EQ(Raise("a", 9), "raised");
  EXPECT_EQ(Raise("a", 9), "raised");  // again, since its answer was lost
  EXPECT_EQ(Raise("b", 11), "not_held");
  EXPECT_EQ(Fence(), "9");
}

TEST_F(RaiseTest, DoesNotCountWhereALargerTokenWasGiven) {
  Hold("a", 12);
  EXPECT_EQ(Raise("a", 9), "above");
  EXPECT_EQ(Fence(), "12");
}

TEST_F(RaiseTest, AHoldIsHealedWhateverTheFenceIs) {
  Hold("b", 12);
  EXPECT_EQ(Raise("a", 9, 1000), "not_held");
  server_->Command({"DEL", "orders"});
  EXPECT_EQ(Raise("a", 9, 1000), "raised");
  EXPECT_EQ(server_->Text({"GET", "orders"}), "a 1");
  EXPECT_EQ(Fence(), "12");
}

TEST_F(RaiseTest, ANodeThatKeepsItselfForSomebodyIsNotHealed) {
  server_->Command({"SET", "turn", "b 9999999999999999", "PX", "2000"});
  EXPECT_EQ(Raise("a", 9, 1000), "not_held");
  EXPECT_EQ(server_->Integer({"EXISTS", "orders"}), 0);
  server_->Command({"SET", "turn", "b 1", "PX", "2000"});  // who did not come
  EXPECT_EQ(Raise("a", 9, 1000), "raised");
}

TEST_F(RaiseTest, ReleasedHoldIsNotHealed) {
  server_->Command({"SET", "gone", "", "PX", "30000"});
  EXPECT_EQ(Raise("a", 9, 1000), "not_held");
  EXPECT_EQ(server_->Integer({"EXISTS", "orders"}), 0);
}

}  // namespace
}  // namespace redlatch
