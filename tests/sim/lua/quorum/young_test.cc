// A node that has started lately, and the restart delay.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "lua/scripts.h"
#include "tests/sim/lua/script_clients.h"

namespace redlatch {
namespace {

class YoungNode : public ::testing::Test {
 protected:
  std::string Take(const std::string& delay_ms) {
    std::vector<std::string> command = {"EVAL",  std::string(lua::kQuorumAcquire.body),
                                        "7",     "orders",
                                        "queue", "waiters",
                                        "fence", "gone",
                                        "turn",  "node"};
    for (std::string& arg : request_.Args()) command.push_back(std::move(arg));
    command.push_back("0 take " + delay_ms + " ab");  // an earlier run of the server
    return server_->Text(command);
  }

  const std::unique_ptr<ScriptServer> server_ = std::make_unique<ScriptServer>();
  Request request_ = Impatient({.grant = std::string(32, '1') + ":1"});
};

TEST_F(YoungNode, HasNoVoteDuringRestartDelay) {
  EXPECT_EQ(Take("4000"), "young 4000");
  server_->Pass(3000);
  EXPECT_EQ(Take("4000").substr(0, 6), "young ");
  EXPECT_EQ(server_->Integer({"EXISTS", "orders"}), 0);
  server_->Pass(1000);
  EXPECT_EQ(Take("4000").substr(0, 8), "granted ");
}

TEST_F(YoungNode, IsYoungAgainAfterRestartWithData) {
  server_->Command({"SET", "node", "cd 1 4000", "PX", "2000000"});
  EXPECT_EQ(Take("4000"), "young 4000");
}

TEST_F(YoungNode, RefusesClientsWithOtherDelay) {
  Take("4000");
  EXPECT_EQ(Take("5000").substr(0, 8), "REFUSED ");
}

}  // namespace
}  // namespace redlatch
