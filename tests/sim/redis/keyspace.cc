#include "tests/sim/redis/keyspace.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace redlatch::sim {
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

void Keyspace::SetExpiry(std::string_view key, int64_t expires_ms) {
  FindEntry(key)->expires_ms = expires_ms;
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
  has_changed_ = true;
  if (!remembers_) return;
  for (const auto& [db, name] : changed_) {
    if (db == db_ && name == key) return;
  }
  changed_.emplace_back(db_, key);
}

std::vector<std::string> Keyspace::Keys() {
  std::vector<std::string> keys;
  for (const auto& [key, entry] : Current()) {
    if (entry.expires_ms >= now_ms_) keys.push_back(key);
  }
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
    // Never written: FindMutable() copies a value that is shared.
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
