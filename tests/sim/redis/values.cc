#include "tests/sim/redis/values.h"

#include <algorithm>
#include <utility>

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

}  // namespace redlatch::sim
