#include "tests/sim/redis/keyspace.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace redlatch::sim {

namespace {

constexpr size_t kSmall = 64;

}  // namespace

std::optional<size_t> Hash::IndexOf(std::string_view name) const {
  if (!index_.empty()) {
    const auto found = index_.find(name);
    return found == index_.end() ? std::nullopt : std::optional(found->second);
  }
  for (size_t i = 0; i < fields_.size(); ++i) {
    if (fields_[i].first == name) return i;
  }
  return std::nullopt;
}

const std::string* Hash::Find(std::string_view name) const {
  const auto index = IndexOf(name);
  return index ? &fields_[*index].second : nullptr;
}

bool Hash::Set(std::string_view name, std::string_view value) {
  if (const auto index = IndexOf(name)) {
    fields_[*index].second = value;
    return false;
  }
  fields_.emplace_back(name, value);
  if (!index_.empty()) {
    index_.emplace(name, fields_.size() - 1);
  } else if (fields_.size() > kSmall) {
    for (size_t i = 0; i < fields_.size(); ++i) index_.emplace(fields_[i].first, i);
  }
  return true;
}

bool Hash::Remove(std::string_view name) {
  const auto index = IndexOf(name);
  if (!index) return false;
  if (index_.empty()) {
    fields_.erase(fields_.begin() + static_cast<ptrdiff_t>(*index));
    return true;
  }
  index_.erase(name);
  if (*index + 1 < fields_.size()) {
    fields_[*index] = std::move(fields_.back());
    index_[fields_[*index].first] = *index;
  }
  fields_.pop_back();
  return true;
}

const double* SortedSet::Score(std::string_view text) const {
  if (!scores_.empty()) {
    const auto found = scores_.find(text);
    return found == scores_.end() ? nullptr : &found->second;
  }
  for (const Member& member : members_) {
    if (member.text == text) return &member.score;
  }
  return nullptr;
}

std::vector<SortedSet::Member>::iterator SortedSet::Locate(std::string_view text, double score) {
  return std::lower_bound(members_.begin(), members_.end(), std::pair(score, text),
                          [](const Member& member, const std::pair<double, std::string_view>& at) {
                            return std::pair(member.score, std::string_view(member.text)) < at;
                          });
}

bool SortedSet::Set(std::string_view text, double score) {
  const double* const old = Score(text);
  const bool is_new = old == nullptr;
  if (!is_new) {
    if (*old == score) return false;
    members_.erase(Locate(text, *old));
  }
  members_.insert(Locate(text, score), Member{score, std::string(text)});
  if (!scores_.empty()) {
    scores_[text] = score;
  } else if (members_.size() > kSmall) {
    for (const Member& member : members_) scores_.emplace(member.text, member.score);
  }
  return is_new;
}

bool SortedSet::Remove(std::string_view text) {
  const double* const score = Score(text);
  if (score == nullptr) return false;
  members_.erase(Locate(text, *score));
  scores_.erase(text);
  return true;
}

void SortedSet::RemoveRange(size_t first, size_t last) {
  const auto begin = members_.begin() + static_cast<ptrdiff_t>(first);
  const auto end = members_.begin() + static_cast<ptrdiff_t>(last);
  for (auto each = begin; each != end; ++each) scores_.erase(each->text);
  members_.erase(begin, end);
}

size_t SortedSet::Rank(std::string_view text) const {
  const Member probe{*Score(text), std::string(text)};
  return static_cast<size_t>(std::lower_bound(members_.begin(), members_.end(), probe) -
                             members_.begin());
}

size_t SortedSet::CountBelow(Bound from) const {
  const auto begin =
      std::partition_point(members_.begin(), members_.end(), [from](const Member& member) {
        return from.exclusive ? member.score <= from.score : member.score < from.score;
      });
  return static_cast<size_t>(begin - members_.begin());
}

size_t SortedSet::CountUpTo(Bound to) const {
  const auto end =
      std::partition_point(members_.begin(), members_.end(), [to](const Member& member) {
        return to.exclusive ? member.score < to.score : member.score <= to.score;
      });
  return static_cast<size_t>(end - members_.begin());
}

namespace {

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", absl::CEscape(text), "\"");
}

}  // namespace

std::string DumpValue(const Value& value) {
  std::string text;
  if (const auto* const string = std::get_if<std::string>(&value)) return Quoted(*string);
  if (const auto* const hash = std::get_if<Hash>(&value)) {
    std::vector<Hash::Field> fields = hash->fields();
    std::sort(fields.begin(), fields.end());
    for (const auto& [name, field] : fields) {
      absl::StrAppend(&text, " ", Quoted(name), "=", Quoted(field));
    }
  } else if (const auto* const set = std::get_if<SortedSet>(&value)) {
    for (const auto& member : set->members()) {
      absl::StrAppend(&text, " ", FormatScore(member.score), ":", Quoted(member.text));
    }
  } else {
    for (const std::string& element : std::get<List>(value)) {
      absl::StrAppend(&text, " ", Quoted(element));
    }
  }
  return text.empty() ? text : text.substr(1);
}

std::string_view TypeName(const Value& value) {
  constexpr std::string_view kNames[] = {"string", "hash", "zset", "list"};
  return kNames[value.index()];
}

std::string FormatScore(double score) {
  if (std::isinf(score)) return score > 0 ? "inf" : "-inf";
  if (std::abs(score) < 1e17 && score == std::floor(score)) {
    return score == 0 && std::signbit(score) ? "-0" : absl::StrCat(static_cast<int64_t>(score));
  }
  char text[40];
  return std::string(text, static_cast<size_t>(std::snprintf(text, sizeof text, "%.17g", score)));
}

Keyspace::Database& Keyspace::Current() {
  if (dbs_.size() <= static_cast<size_t>(db_)) dbs_.resize(static_cast<size_t>(db_) + 1);
  return dbs_[static_cast<size_t>(db_)];
}

void Keyspace::Select(int db) {
  db_ = db;
  Current();
}

Keyspace::Entry* Keyspace::FindEntry(std::string_view key) {
  Database& keys = Current();
  const auto found = keys.find(key);
  if (found == keys.end()) return nullptr;
  if (found->second.expires_ms >= now_ms_) return &found->second;
  if (deletes_expired_) {
    keys.erase(found);
    Changed(key);
  }
  return nullptr;
}

const Value* Keyspace::Find(std::string_view key) {
  const Entry* const entry = FindEntry(key);
  return entry == nullptr ? nullptr : entry->value.get();
}

Value* Keyspace::FindMutable(std::string_view key) {
  Entry* const entry = FindEntry(key);
  if (entry == nullptr) return nullptr;
  if (entry->value.use_count() > 1) entry->value = std::make_shared<Value>(*entry->value);
  return entry->value.get();
}

Value& Keyspace::Set(std::string_view key, Value value, bool keep_expiry) {
  Entry* entry = FindEntry(key);
  if (entry == nullptr) entry = &(Current()[key] = Entry());
  if (!keep_expiry) entry->expires_ms = kNoExpiry;
  if (entry->value != nullptr && entry->value.use_count() == 1) {
    *entry->value = std::move(value);
  } else {
    entry->value = std::make_shared<Value>(std::move(value));
  }
  Changed(key);
  return *entry->value;
}

bool Keyspace::Erase(std::string_view key) {
  if (FindEntry(key) == nullptr) return false;
  Changed(key);
  Current().erase(key);
  return true;
}

int64_t Keyspace::Expiry(std::string_view key) {
  const Entry* const entry = FindEntry(key);
  return entry == nullptr ? kNoExpiry : entry->expires_ms;
}

int64_t Keyspace::Expiry(std::string_view key) const {
  if (size() == 0) return kNoExpiry;
  const auto found = Current().find(key);
  const bool there = found != Current().end() && found->second.expires_ms >= now_ms_;
  return there ? found->second.expires_ms : kNoExpiry;
}

void Keyspace::SetExpiry(std::string_view key, int64_t expires_ms) {
  FindEntry(key)->expires_ms = expires_ms;
  constexpr int64_t kLeastMs = 5;  // a forced release leaves one of 10 ms
  if (expires_ms < now_ms_ + kLeastMs && key.find(".gone.") != key.npos) brief_tombstone_ = key;
  Changed(key);
}

bool Keyspace::Rename(std::string_view from, std::string_view to) {
  const Entry* const entry = FindEntry(from);
  if (entry == nullptr) return false;
  Entry moved = *entry;
  Current().erase(from);
  Current()[to] = std::move(moved);
  Changed(from);
  Changed(to);
  return true;
}

void Keyspace::Changed(std::string_view key) {
  static uint64_t changes = 0;
  last_change_ = ++changes;
  has_changed_ = true;
  if (!remembers_) return;
  for (const auto& [db, name] : changed_) {
    if (db == db_ && name == key) return;
  }
  changed_.emplace_back(db_, key);
}

std::vector<std::string> Keyspace::Keys() const {
  std::vector<std::string> keys;
  ForEach([&](const std::string& key, int64_t, const Value&) { keys.push_back(key); });
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::vector<KeyChange> Keyspace::TakeChanges() {
  std::vector<KeyChange> changes;
  const int selected = db_;
  for (auto& [db, key] : changed_) {
    db_ = db;
    const Database& keys = Current();
    const auto found = keys.find(key);
    KeyChange change{.db = db, .key = std::move(key)};
    if (found != keys.end()) {
      change.value = found->second.value;
      change.expires_ms = found->second.expires_ms;
    }
    changes.push_back(std::move(change));
  }
  db_ = selected;
  changed_.clear();
  has_changed_ = false;
  return changes;
}

void Keyspace::Apply(const KeyChange& change) {
  const int selected = db_;
  db_ = change.db;
  if (change.value == nullptr) {
    Current().erase(change.key);
  } else {
    // No caller changes the shared value: FindMutable() copies it first.
    Current()[change.key] = {std::const_pointer_cast<Value>(change.value), change.expires_ms};
  }
  Changed(change.key);
  db_ = selected;
}

std::string Keyspace::Dump() {
  std::string text;
  const int selected = db_;
  for (db_ = 0; db_ < databases(); ++db_) {
    for (const std::string& key : Keys()) {
      const Entry& entry = Current().find(key)->second;
      absl::StrAppend(&text, db_ == 0 ? "" : absl::StrCat("db", db_, " "), Quoted(key), " ",
                      std::string(TypeName(*entry.value)), " ",
                      entry.expires_ms == kNoExpiry ? "-" : absl::StrCat(entry.expires_ms), " ",
                      DumpValue(*entry.value), "\n");
    }
  }
  db_ = selected;
  return text;
}

}  // namespace redlatch::sim
