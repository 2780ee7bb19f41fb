#include "src/cli/look/lock_finder.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "src/cli/look/lock_keys.h"
#include "src/lock/description.h"

namespace redlatch::cli {
namespace {

// So few that a page takes the server a fraction of a millisecond.
constexpr std::string_view kPage = "250";
// Of a string, to see whether it is a hold: no more, since it may be anybody's and huge.
constexpr std::string_view kLongestHold = "79";

class Finder {
 public:
  Finder(Server& server, std::string_view pattern) : server_(server), pattern_(pattern) {}

  // False: that was the last page of this part.
  absl::StatusOr<bool> TakePage(size_t part) {
    const absl::StatusOr<redis::Reply> page =
        server_.AskPart(part, redis::Command{"SCAN", cursor_, "COUNT", kPage});
    if (!page.ok()) {
      cursor_ = "0";
      if (server_.PassesOver(page.status())) return false;
      return page.status();
    }
    if (page->elements.size() != 2) return absl::InternalError("SCAN answered no page");
    std::vector<Candidate> candidates;
    for (const redis::Reply& key : page->elements[1].elements) Sort(key.text, candidates);
    keys_ += static_cast<int64_t>(page->elements[1].elements.size());
    if (absl::Status sifted = Sift(candidates); !sifted.ok()) return sifted;
    cursor_ = page->elements[0].text;
    return cursor_ != "0";
  }

  int64_t keys() const { return keys_; }

  std::vector<FoundLock> Result() {
    std::vector<FoundLock> found;
    found.reserve(found_.size());
    for (auto& [name, lock] : found_) found.push_back(std::move(lock));
    std::ranges::sort(found, {}, &FoundLock::name);
    return found;
  }

 private:
  // A key that may be a lock's own, or anything else.
  struct Candidate {
    std::string name;
    std::string type;
    bool is_lock = false;
  };

  void Sort(const std::string& key, std::vector<Candidate>& candidates) {
    const LockKey of = ReadLockKey(key);
    if (of.part == kNoPart || !MatchesGlob(of.name, pattern_)) return;
    if (of.part == kMain) {
      candidates.push_back({.name = key, .type = {}});
    } else {
      FoundLock& lock = Named(of.name);
      lock.parts |= of.part;
      // SCAN may show a key twice.
      if (of.part == kQueue && std::ranges::find(lock.queues, of.suffix) == lock.queues.end()) {
        lock.queues.emplace_back(of.suffix);
      }
    }
  }

  FoundLock& Named(std::string_view name) {
    FoundLock& lock = found_[std::string(name)];
    if (lock.name.empty()) lock.name = name;
    return lock;
  }

  // Others are found by their other keys, which come with all keys of the server.
  absl::Status Sift(std::vector<Candidate>& candidates) {
    Questions about_all;
    for (Candidate& each : candidates) {
      about_all.Add({"TYPE", each.name},
                    [&each](const redis::Reply& reply) { each.type = reply.text; });
    }
    if (absl::Status asked = about_all.Ask(server_); !asked.ok()) return asked;
    Questions about_contents;
    for (Candidate& each : candidates) {
      if (each.type == "string") {
        about_contents.Add(
            {"GETRANGE", each.name, "0", kLongestHold}, [&each](const redis::Reply& reply) {
              each.is_lock =
                  !internal::ClientOf(reply.text).empty() || !QuorumHoldIn(reply.text).empty();
            });
      } else if (each.type == "hash") {
        about_contents.Add({"HGET", each.name, "kind"}, [&each](const redis::Reply& reply) {
          each.is_lock = !reply.is_nil() && IsKindOfOurs(reply.text);
        });
      }
    }
    if (absl::Status asked = about_contents.Ask(server_); !asked.ok()) return asked;
    for (const Candidate& each : candidates) {
      if (each.is_lock) Named(each.name).parts |= kMain;
    }
    return absl::OkStatus();
  }

  Server& server_;
  const std::string pattern_;
  std::string cursor_ = "0";
  int64_t keys_ = 0;
  absl::flat_hash_map<std::string, FoundLock> found_;  // by name
};

}  // namespace

absl::StatusOr<std::vector<FoundLock>> FindLocks(
    Server& server, std::string_view pattern, const std::function<void(int64_t keys)>& progress) {
  Finder finder(server, pattern);
  server.FindAllParts();
  for (size_t part = 0; part < server.parts(); ++part) {  // more may show on the way
    for (;;) {
      const absl::StatusOr<bool> more = finder.TakePage(part);
      if (!more.ok()) return more.status();
      if (!*more) break;
      progress(finder.keys());
    }
  }
  return finder.Result();
}

}  // namespace redlatch::cli
