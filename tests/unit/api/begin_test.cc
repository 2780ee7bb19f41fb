// The script with which a connection begins if there is a quarantine or a restart delay.

#include "lua/scripts.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "tests/support/fake_server.h"
#include "tests/support/testing.h"

namespace redlatch {
namespace {

using support::FakeServer;

constexpr char kNoReplicas[] = "-NOREPLICAS Not enough good replicas to write.\r\n";

// It may refuse the first script of each connection, and executes all others.
class Server {
 public:
  std::string url() const { return server_.url() + "?quarantine=60s"; }
  int connections() const { return server_.connections(); }
  // Locks' commands on connections whose first script was not accepted before.
  int too_soon() const { return too_soon_; }
  // What it answers to a first script.
  void AnswerFirst(const std::string& answer) {
    const base::MutexLock lock(mu_);
    answer_ = answer;
  }
  // A failover: each connection ends with the next command of a lock.
  void HangUp() { last_ = connections(); }

 private:
  static bool Has(const FakeServer::Asked& asked, std::string_view word) {
    return std::ranges::find(asked.command, word) != asked.command.end();
  }

  std::optional<std::string> Answer(const FakeServer::Asked& asked) {
    const std::string& verb = asked.command[0];
    if (verb == "INFO" && Has(asked, "replication")) {
      return FakeServer::Bulk(absl::StrCat("role:master\r\nmaster_replid:a", last_ + 1, "\r\n"));
    }
    if (verb == "CONFIG") return "*2\r\n" + FakeServer::Bulk("lag") + FakeServer::Bulk("1");
    if (verb == "WAIT") return ":1\r\n";
    if (verb == "EVAL" && (Has(asked, "redlatch:reign") || Has(asked, "redlatch:quorum")) &&
        !Has(asked, "lock")) {
      const base::MutexLock lock(mu_);
      if (answer_.front() == ':') begun_.insert(asked.connection);
      return answer_;
    }
    if (!Has(asked, "lock")) return FakeServer::Polite(asked);
    if (asked.connection <= last_) return std::nullopt;
    const base::MutexLock lock(mu_);
    if (!begun_.contains(asked.connection)) ++too_soon_;
    const std::string& script = asked.command[1];
    return FakeServer::Bulk(script == lua::kSimpleRenew.sha1 ? "held"
                            : Has(asked, "30000")            ? "granted 7 30000 0"
                                                             : "released");
  }

  base::Mutex mu_;
  std::string answer_ ABSL_GUARDED_BY(mu_) = ":0\r\n";
  std::set<int> begun_ ABSL_GUARDED_BY(mu_);
  std::atomic<int> too_soon_ = 0;
  std::atomic<int> last_ = 0;
  FakeServer server_{[this](const FakeServer::Asked& asked) { return Answer(asked); }};
};

// A server that was just promoted accepts no writes until it has a replica. Its record of the
// quarantine is its predecessor's, so it would take commands composed for that one for its own.
TEST(FirstScript, IsAcceptedBeforeAnyCommandOfALock) {
  Server server;
  const Client client = *Client::Connect(server.url());
  SimpleLock lock(client, "lock");
  {
    absl::StatusOr<Lease> lease = lock.Acquire();
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_TRUE(lease->Release().ok());
  }

  server.AnswerFirst(kNoReplicas);
  server.HangUp();
  const int before = server.connections();
  const base::Instant begun = base::Now();
  const absl::Status refused = lock.Acquire({.wait = absl::Milliseconds(300)}).status();
  EXPECT_LT(base::Now() - begun, absl::Seconds(5));
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(refused.message(),
              ::testing::AllOf(HasSubstr("NOREPLICAS"), HasSubstr("min-replicas-to-write"),
                               HasSubstr("begin its quarantine")));
  EXPECT_LT(server.connections() - before, 40) << "it connects without a pause";
  EXPECT_EQ(server.too_soon(), 0);

  server.AnswerFirst(":0\r\n");
  EXPECT_TRUE(lock.Acquire({.wait = absl::Seconds(10)}).ok());
  EXPECT_EQ(server.too_soon(), 0);
}

TEST(FirstScript, IsAcceptedBeforeCommandsThatReplicasConfirm) {
  Server server;
  const Client client = *Client::Connect(server.url());
  SimpleLock lock(client, "lock", {.acks = {.replicas = 1}});
  EXPECT_TRUE(lock.Acquire({.wait = absl::Seconds(10)}).ok());
  EXPECT_EQ(server.too_soon(), 0);
}

// Clients that ask for different quarantines still release what they have.
TEST(FirstScript, MayFindThatOthersAskForAnotherLength) {
  Server server;
  server.AnswerFirst("-REFUSED this program asks for a quarantine of 60000 ms\r\n");
  EXPECT_TRUE(Client::Connect(server.url()).ok());
}

}  // namespace
}  // namespace redlatch
