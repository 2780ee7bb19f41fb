// The code of recipes/cache-rebuild.md, and tests that run it.
#include <atomic>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "docs/code/expect.h"
#include "gtest/gtest.h"
#include "redlatch/fencing_token.h"

struct Entry {
  std::string page;
  absl::Time stale_at;
  redlatch::FencingToken token;
};

// Stands for a cache that all processes share.
class PageCache {
 public:
  std::optional<Entry> Get(const std::string& key) {
    const std::lock_guard<std::mutex> lock(mu_);
    const auto found = entries_.find(key);
    return found == entries_.end() ? std::nullopt : std::optional(found->second);
  }
  void Put(const std::string& key, Entry entry) {
    const std::lock_guard<std::mutex> lock(mu_);
    Entry& old = entries_[key];
    if (old.token <= entry.token) old = std::move(entry);
  }

 private:
  std::mutex mu_;
  std::map<std::string, Entry> entries_;
};

std::string Render(const std::string& key);

// [get_page]
#include <optional>
#include <string>

#include "absl/time/clock.h"
#include "redlatch/simple_lock.h"

// PageCache is yours. Its entries have a page, a time at which that is stale, and a fencing token.
absl::StatusOr<std::string> GetPage(const redlatch::Client& client, PageCache& cache,
                                    const std::string& key) {
  std::optional<Entry> entry = cache.Get(key);
  if (entry && absl::Now() < entry->stale_at) return entry->page;

  redlatch::SimpleLock lock(client, "rebuild:" + key, {.lease = absl::Seconds(10)});
  const absl::StatusOr<redlatch::Lease> lease =
      lock.Acquire({.wait = entry ? absl::ZeroDuration() : absl::Seconds(5)});
  if (!lease.ok() && entry) return entry->page;  // stale, but another process is rebuilding it
  if (!lease.ok()) return lease.status();

  entry = cache.Get(key);  // another process may have rebuilt it before this one got the lock
  if (entry && absl::Now() < entry->stale_at) return entry->page;
  const absl::Time begun = absl::Now();  // a pause below makes the page older, not fresher
  const std::string page = Render(key);
  cache.Put(key, {page, begun + absl::Minutes(1), lease->fencing_token()});
  return page;
}
// [/get_page]

std::atomic<int> renderings = 0;
std::string Render(const std::string& key) {
  return key + " rendering " + std::to_string(++renderings);
}

TEST(CacheRebuildRecipe, ManyCallersRenderAMissingPageOnce) {
  const redlatch::Client clients[] = {Connected(), Connected(), Connected(), Connected()};
  PageCache cache;
  std::vector<std::future<absl::StatusOr<std::string>>> pages;
  renderings = 0;
  for (int i = 0; i < 16; ++i) {
    pages.push_back(
        std::async(std::launch::async, [&, i] { return GetPage(clients[i % 4], cache, "/home"); }));
  }
  for (auto& page : pages) EXPECT_EQ(*page.get(), "/home rendering 1");
}

TEST(CacheRebuildRecipe, StalePageIsServedDuringARebuild) {
  const redlatch::Client client = Connected();
  const redlatch::Client other = Connected();
  PageCache cache;
  cache.Put("/news", {"old news", absl::InfinitePast(), redlatch::FencingToken(1)});
  renderings = 0;
  {
    redlatch::SimpleLock rebuilds(other, "rebuild:/news");
    const absl::StatusOr<redlatch::Lease> lease = rebuilds.TryAcquire();
    ExpectOk(lease.status());
    EXPECT_EQ(*GetPage(client, cache, "/news"), "old news");
  }
  const absl::Status freed = redlatch::SimpleLock(other, "rebuild:/news").ForceRelease();
  ExpectOk(freed);
  EXPECT_EQ(*GetPage(client, cache, "/news"), "/news rendering 1");
  EXPECT_EQ(*GetPage(client, cache, "/news"), "/news rendering 1");
}
