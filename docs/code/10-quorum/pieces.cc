// The pieces of 10-quorum.md, and a program that runs them.

// [clients]
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "redlatch/client.h"
#include "redlatch/red_lock.h"

absl::StatusOr<std::vector<redlatch::Client>> Servers(const std::vector<std::string>& urls) {
  std::vector<redlatch::Client> servers;
  for (const std::string& url : urls) {
    // kLazy: a server may be down when the program starts.
    absl::StatusOr<redlatch::Client> server =
        redlatch::Client::Connect(url, {.connect = redlatch::ConnectPolicy::kLazy});
    if (!server.ok()) return server.status();
    servers.push_back(*std::move(server));
  }
  return servers;
}

void Bill(const std::vector<redlatch::Client>& servers) {
  redlatch::RedLock lock(servers, "billing");
  std::scoped_lock guard(lock);
  // ... no other client has the lock
}
// [/clients]

// [url]
#include <cinttypes>
#include <cstdio>

#include "absl/status/status.h"
#include "absl/time/time.h"

// "redlock:redis://a:6379,redis://b:6379,redis://c:6379"
absl::StatusOr<redlatch::FencingToken> BillBy(const std::string& url) {
  absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect(url);
  if (!client.ok()) return client.status();
  redlatch::RedLock lock(*client, "billing");
  absl::StatusOr<redlatch::Lease> lease = lock.Acquire({.wait = absl::Seconds(5)});
  if (!lease.ok()) return lease.status();  // kUnavailable: too few servers have answered
  const redlatch::FencingToken token = lease->fencing_token();
  std::printf("billing under token %" PRIu64 "\n", token.value());
  return token;
}
// [/url]

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "docs/code/expect.h"

// Servers of this directory's own.
std::vector<std::string> UrlsOfThree() {
  char here[4096];
  Expect(getcwd(here, sizeof here) != nullptr);
  std::vector<std::string> urls;
  for (const char* name : {"a", "b", "c"}) {
    urls.push_back(absl::StrCat("embedded:", here, "/", name, "?idle_stop=1s"));
  }
  return urls;
}

// Output: billing under token [0-9]+
int main() {
  const std::vector<std::string> urls = UrlsOfThree();
  const auto servers = Servers(urls);
  ExpectOk(servers.status());
  Bill(*servers);

  const std::string url = absl::StrCat("redlock:", absl::StrJoin(urls, ","));
  const auto earlier = BillBy(url);
  ExpectOk(earlier.status());
  Bill(*servers);
  const auto later = BillBy(url);
  ExpectOk(later.status());
  Expect(earlier->value() < later->value());
}
