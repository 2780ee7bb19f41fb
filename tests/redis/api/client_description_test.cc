// The key in which a client describes itself: when it exists, what it says, and when it is deleted.
#include <errno.h>

#include "absl/strings/string_view.h"
#include "lua/scripts.h"
#include "src/lock/client_core.h"
#include "src/lock/description.h"
#include "src/lock/lock_handle.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

struct ClientDescription : ::testing::Test {
  std::vector<std::string> Keys() const {
    std::vector<std::string> keys;
    for (const redis::Reply& key : server_->Command({"KEYS", "redlatch:client:*"}).elements) {
      keys.push_back(key.text);
    }
    return keys;
  }
  // The description of the only client.
  std::optional<LockInfo::Process> Described() const {
    const std::vector<std::string> keys = Keys();
    EXPECT_THAT(keys, SizeIs(1));
    return keys.empty() ? std::nullopt
                        : internal::ReadDescription(server_->Text({"GET", keys.front()}));
  }
  // Sets the permissions of "alice", and connects as that user.
  absl::StatusOr<Client> ConnectAs(const std::string& rules) const {
    server_->Command({"ACL", "SETUSER", "alice", "reset", "on", ">sesame", "&*", "+@all"});
    for (const absl::string_view rule : absl::StrSplit(rules, ' ')) {
      server_->Command({"ACL", "SETUSER", "alice", std::string(rule)});
    }
    return Client::Connect(absl::StrCat("redis://alice:sesame@127.0.0.1:", server_->port()),
                           {.on_warning = [](std::string_view text) { ADD_FAILURE() << text; }});
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
};

TEST_F(ClientDescription, IsWrittenAtFirstConnectionAndExpires) {
  const Client client = Connect(server_->url(), {.key_prefix = "app:"});
  const auto process = Described();
  ASSERT_TRUE(process.has_value());
  std::array<char, 256> host{};
  ASSERT_EQ(gethostname(host.data(), host.size()), 0);
  EXPECT_EQ(process->host, host.data());
  EXPECT_EQ(process->pid, getpid());
  EXPECT_EQ(process->program, program_invocation_short_name);
  const int64_t ttl = server_->Integer({"PTTL", Keys().front()});
  EXPECT_GT(ttl, 59 * 60'000);
  EXPECT_LE(ttl, 60 * 60'000);
}

TEST_F(ClientDescription, IsWrittenByEveryConnection) {
  const Client client = Connect(server_->url());
  const std::vector<std::string> before = Keys();
  server_->Command({"FLUSHALL"});
  server_->KillClients();
  EXPECT_TRUE(Await([&] { return client.Ping().ok(); }));
  EXPECT_EQ(Keys(), before);
}

TEST_F(ClientDescription, IsDeletedWithLastUserOfClient) {
  std::optional<absl::StatusOr<Lease>> lease;
  {
    const Client client = Connect(server_->url());
    lease = SimpleLock(client, "job").Acquire();
  }
  ASSERT_TRUE((*lease).ok()) << (*lease).status();
  EXPECT_THAT(Keys(), SizeIs(1));
  lease.reset();
  EXPECT_TRUE(Await([&] { return Keys().empty(); }));
  EXPECT_THAT(server_->LockKeys(), ::testing::ElementsAre("redlatch:2:{job}:fence"));
}

TEST_F(ClientDescription, IsNotWrittenIfSwitchedOff) {
  server_->Command({"CONFIG", "SET", "maxmemory", "100mb"});
  server_->Command({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  EXPECT_FALSE(Client::Connect(server_->url()).ok());
  EXPECT_THAT(Keys(), IsEmpty());
}

TEST_F(ClientDescription, SurvivesForkedChild) {
  std::optional<absl::StatusOr<Client>> client = Client::Connect(server_->url());
  ASSERT_TRUE(client->ok()) << client->status();
  const int code = support::CodeOfFork([&] {
    client.reset();
    return 0;
  });
  ASSERT_EQ(code, 0);
  EXPECT_TRUE((*client)->Ping().ok());
  EXPECT_THAT(Keys(), SizeIs(1));
}

// Under a sanitizer, a forked child must not start threads, and a client starts some.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST_F(ClientDescription, ForkedChildHasItsOwn) {
  const Client client = Connect(server_->url());
  SimpleLock ours(client, "ours");
  const auto lease = Must(ours.Acquire());
  const int code = support::CodeOfFork([&] {
    const auto own = Client::Connect(server_->url());
    if (!own.ok() || Keys().size() != 2) return 1;
    SimpleLock theirs(*own, "theirs");
    const auto held = theirs.Acquire();
    const auto info = theirs.Inspect();
    const auto of_parent = SimpleLock(*own, "ours").Inspect();
    const bool told = info.ok() && info->holders.at(0).process.pid == getpid() && of_parent.ok() &&
                      of_parent->holders.at(0).process.pid == getppid();
    return told ? 0 : 2;
  });
  ASSERT_EQ(code, 0);
  EXPECT_TRUE(Await([&] { return Keys().size() == 1; }));
  EXPECT_EQ(ours.Inspect()->holders.at(0).process.pid, getpid());
}
#endif

TEST_F(ClientDescription, MissingPermissionIsHarmless) {
  const Client client = *ConnectAs("~job ~redlatch:2:{job}:*");
  SimpleLock lock(client, "job");
  const auto lease = Must(lock.Acquire());
  EXPECT_THAT(Keys(), IsEmpty());
  const auto info = Must(lock.Inspect());
  ASSERT_EQ(info.holders.size(), 1);
  EXPECT_EQ(info.holders[0].process.pid, 0);
}

TEST_F(ClientDescription, FullMemoryIsHarmless) {
  server_->Command({"CONFIG", "SET", "maxmemory", "1"});
  const Client client = Connect(server_->url());
  EXPECT_TRUE(client.Ping().ok());
  EXPECT_THAT(Keys(), IsEmpty());
}

TEST_F(ClientDescription, ForeignTextIsIgnored) {
  const Client client = Connect(server_->url());
  SimpleLock lock(client, "job");
  const auto lease = lock.Acquire();
  for (const std::vector<std::string>& nonsense : std::vector<std::vector<std::string>>{
           {"SET", Keys().front(), "7 1 host"}, {"LPUSH", Keys().front(), "a list"}}) {
    const std::string key = nonsense[1];
    server_->Command({"DEL", key});
    server_->Command(nonsense);
    const auto info = Must(lock.Inspect());
    EXPECT_EQ(info.holders.at(0).process.pid, 0);
  }
}

// Only the refresh can write the key again, since no lease is due for hours.
TEST_F(ClientDescription, KeepsHolderOfLongLeaseKnown) {
  const auto core = internal::ClientCore::Make(
      Must(redis::ParseUrl(server_->url())), ClientOptions(), /*make_quorum=*/nullptr,
      {.lifetime = absl::Seconds(30), .refresh = absl::Milliseconds(20)});
  std::vector<std::string> warnings;
  ASSERT_TRUE(core->server_group().Connect(base::Now() + absl::Seconds(10), warnings).ok());
  const auto session = Must(internal::LockHandle::Attach(core, "job", {},
                                                         {.scripts = lua::kSimpleScripts,
                                                          .traits = {.kind = "simple"},
                                                          .keys = internal::KeyNames("simple")}));
  const auto held = Must(session->Acquire(
      {.terms = {.lease = absl::Hours(24)}, .options = std::make_shared<LockOptions>()}));
  for (int i = 0; i < 2; ++i) {
    server_->Command({"DEL", Keys().empty() ? "none" : Keys().front()});
    EXPECT_TRUE(Await([&] { return Keys().size() == 1; })) << i;
  }
  EXPECT_TRUE(session->Release(held.hold, {}).ok());
}

}  // namespace
}  // namespace redlatch
