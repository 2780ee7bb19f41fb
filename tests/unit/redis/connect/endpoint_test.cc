// Looking up names. The name server here is this program's own getaddrinfo().
#include "src/redis/connect/endpoint.h"

#include <dlfcn.h>
#include <netdb.h>

#include "src/redis/connect/sentinel.h"
#include "src/redis/url/url.h"
#include "tests/support/await.h"
#include "tests/support/testing.h"

namespace {

std::atomic<bool> hangs{false};
std::atomic<int> under_way{0};
std::atomic<int> begun{0};

}  // namespace

extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** result) {
  using Function = int(const char*, const char*, const addrinfo*, addrinfo**);
  static auto* const next = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if (node == nullptr || !std::string_view(node).ends_with(".test")) {
    return next(node, service, hints, result);
  }
  // Refuses numeric addresses, which are tried first.
  if (hints != nullptr && (hints->ai_flags & AI_NUMERICHOST) != 0) return EAI_NONAME;
  ++begun;
  ++under_way;
  EXPECT_TRUE(redlatch::support::Await([] { return !hangs; }));
  --under_way;
  return next("127.0.0.1", service, nullptr, result);
}

namespace redlatch::redis {
namespace {

struct NameServer : ::testing::Test {
  NameServer() { begun = 0; }
  ~NameServer() override {
    hangs = false;
    EXPECT_TRUE(support::Await([] { return under_way == 0; }));
  }
  static Url UrlOf(std::string_view text) { return *ParseUrl(text); }
  static base::Instant InTime() { return base::Now() + absl::Seconds(20); }
};

TEST_F(NameServer, IsAskedOncePerHostWhileItHangs) {
  hangs = true;
  std::vector<Endpoint> endpoints;
  for (int i = 0; i < 20; ++i) {
    endpoints.push_back(MakeEndpoint(UrlOf("redis://hangs.test:7000")));
    EXPECT_TRUE(absl::IsDeadlineExceeded(endpoints.back()(base::Now()).status()));
    MakeEndpoint(UrlOf("redis://hangs.test:7000"))(base::Now()).status().IgnoreError();
  }
  const auto other = MakeEndpoint(UrlOf("redis://other.test:7001"));
  EXPECT_TRUE(absl::IsDeadlineExceeded(other(base::Now()).status()));
  EXPECT_TRUE(support::Await([] { return begun >= 2; }));
  hangs = false;
  for (const auto& endpoint : endpoints) {
    const auto targets = endpoint(InTime());
    ASSERT_TRUE(targets.ok()) << targets.status();
    EXPECT_EQ(targets->front().address.text, "127.0.0.1:7000");
    EXPECT_EQ(targets->front().host, "hangs.test");
  }
  EXPECT_TRUE(other(InTime()).ok());
  EXPECT_EQ(begun, 2);
}

TEST_F(NameServer, IsAskedAgainForLaterCall) {
  for (int i = 1; i <= 3; ++i) {
    EXPECT_TRUE(MakeEndpoint(UrlOf("redis://often.test:7000"))(InTime()).ok());
    EXPECT_EQ(begun, i);
  }
}

TEST_F(NameServer, IsAskedAgainForForgottenSentinel) {
  const Url url = UrlOf("redis-sentinel://127.0.0.1:7000/primary");
  const auto endpoint = MakeEndpointOfSentinels(url);
  const auto known = [&](const std::string& host) {
    url.sentinels->Learn({HostAndPort{.host = host, .port = 7000}});
    EXPECT_TRUE(endpoint(base::Now()).ok());
  };
  hangs = true;
  known("comes.test");
  EXPECT_TRUE(support::Await([] { return begun == 1; }));
  known("127.0.0.2");
  hangs = false;
  EXPECT_TRUE(support::Await([] { return under_way == 0; }));
  // The first lookup may be about to end, and serve once more.
  EXPECT_TRUE(support::Await([&] {
    known("127.0.0.2");
    known("comes.test");
    return begun >= 2;
  }));
}

}  // namespace
}  // namespace redlatch::redis
