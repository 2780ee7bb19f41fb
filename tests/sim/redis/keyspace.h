#ifndef REDLATCH_TESTS_SIM_REDIS_KEYSPACE_H_
#define REDLATCH_TESTS_SIM_REDIS_KEYSPACE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace redlatch::sim {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// A map with text as keys, which is searched without making a string. Do not iterate if the order
// is visible.
template <typename T>
using StringMap = absl::flat_hash_map<std::string, T, StringHash, std::equal_to<>>;

// The value of a hash key. A small hash lists its fields in the order in which they were added, as
// Redis does; a large one has an order of its own, the same in every run.
class Hash {
 public:
  using Field = std::pair<std::string, std::string>;

  const std::string* Find(std::string_view name) const;
  bool Set(std::string_view name, std::string_view value);  // whether the field is new
  bool Remove(std::string_view name);
  const std::vector<Field>& fields() const { return fields_; }

 private:
  std::optional<size_t> IndexOf(std::string_view name) const;

  std::vector<Field> fields_;
  StringMap<size_t> index_;  // of a large hash
};

// The value of a zset key: its members in the order of score and text.
class SortedSet {
 public:
  struct Member {
    double score;
    std::string text;
    friend bool operator<(const Member& a, const Member& b) {
      return a.score != b.score ? a.score < b.score : a.text < b.text;
    }
  };
  // An end of a range of scores.
  struct Bound {
    double score;
    bool exclusive = false;
  };

  const double* Score(std::string_view text) const;
  bool Set(std::string_view text, double score);  // whether the member is new
  bool Remove(std::string_view text);
  void RemoveRange(size_t first, size_t last);  // [first, last)
  size_t Rank(std::string_view text) const;     // of a member
  // How many members are below a range that begins there, and how many are up to its end.
  size_t CountBelow(Bound from) const;
  size_t CountUpTo(Bound to) const;
  const std::vector<Member>& members() const { return members_; }

 private:
  std::vector<Member>::iterator Locate(std::string_view text, double score);

  std::vector<Member> members_;
  StringMap<double> scores_;  // of a large set
};

// A list: the queue of one of Redisson's fair locks, or what a test puts at a lock's key.
using List = std::vector<std::string>;
using Value = std::variant<std::string, Hash, SortedSet, List>;

inline constexpr int64_t kNoExpiry = std::numeric_limits<int64_t>::max();

// What a key had after a command. Values are shared, and copied before they are written.
struct KeyChange {
  int db = 0;
  std::string key;
  std::shared_ptr<const Value> value;  // null: the key was deleted
  int64_t expires_ms = kNoExpiry;
};

// All keys of a server. Expired keys are invisible, and a primary deletes them when it meets them.
// Copying a keyspace copies no values.
class Keyspace {
 public:
  // The time that counts for expiry, and whether expired keys are deleted (a replica waits for its
  // primary to do so).
  void SetTime(int64_t now_ms, bool deletes_expired) {
    now_ms_ = now_ms;
    deletes_expired_ = deletes_expired;
  }
  int64_t now_ms() const { return now_ms_; }
  void Select(int db);
  int selected() const { return db_; }

  const Value* Find(std::string_view key);
  // The same, for writing. Changed() must follow.
  Value* FindMutable(std::string_view key);
  // Sets the key, and removes its expiry unless it is to be kept. Counts as a change.
  Value& Set(std::string_view key, Value value, bool keep_expiry = false);
  bool Erase(std::string_view key);
  // kNoExpiry if the key has none, or if there is no such key.
  int64_t Expiry(std::string_view key);
  int64_t Expiry(std::string_view key) const;  // leaves keys that have expired
  void SetExpiry(std::string_view key, int64_t expires_ms);
  bool Rename(std::string_view from, std::string_view to);
  void Changed(std::string_view key);

  // Calls `use` with each key that is not expired, its expiry and its value, in no order.
  template <class Use>
  void ForEach(const Use& use) const {
    if (size() == 0) return;
    for (const auto& [key, entry] : Current()) {
      if (entry.expires_ms >= now_ms_) use(key, entry.expires_ms, *entry.value);
    }
  }
  // The keys that are not expired, sorted.
  std::vector<std::string> Keys() const;
  size_t size() const { return dbs_.empty() ? 0 : Current().size(); }
  int databases() const { return static_cast<int>(dbs_.size()); }

  // If true, changes are recorded for replicas. Otherwise the keyspace only notes that something
  // changed.
  void Remember(bool remember) { remembers_ = remember; }
  bool has_changed() const { return has_changed_; }
  // A tombstone that was made to end at once, before a late request can find it.
  const std::string& brief_tombstone() const { return brief_tombstone_; }
  // Differs if keys, values or expiries may differ, also those of another keyspace.
  uint64_t last_change() const { return last_change_; }
  // What has changed since the last call, each key once, in the order of the first change.
  std::vector<KeyChange> TakeChanges();
  void Apply(const KeyChange& change);

  // All keys, values and expiries as sorted text: two servers are equal if their dumps are. Expired
  // keys are left out.
  std::string Dump();

 private:
  struct Entry {
    std::shared_ptr<Value> value;
    int64_t expires_ms = kNoExpiry;
  };
  using Database = StringMap<Entry>;

  Database& Current();
  const Database& Current() const { return dbs_[static_cast<size_t>(db_)]; }
  Entry* FindEntry(std::string_view key);

  std::vector<Database> dbs_;
  int db_ = 0;
  int64_t now_ms_ = 0;
  bool deletes_expired_ = true;
  bool remembers_ = false;
  bool has_changed_ = false;
  uint64_t last_change_ = 0;
  std::string brief_tombstone_;
  std::vector<std::pair<int, std::string>> changed_;
};

// A value as text.
std::string DumpValue(const Value& value);

// The type of a value as TYPE names it.
std::string_view TypeName(const Value& value);

// A score as Redis writes it.
std::string FormatScore(double score);

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_REDIS_KEYSPACE_H_
