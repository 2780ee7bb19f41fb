#include "tests/sim/redis/hash.h"

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

}  // namespace redlatch::sim
