#include "src/engine/plan.h"

#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "src/base/sha1.h"

namespace redlatch::engine {
namespace {

constexpr size_t kLongestName = 65536;
constexpr std::array<std::string_view, 3> kSuffixes = {":queue", ":waiters", ":fence"};

// Redis hashes what stands between the first { and the } after it, where that is not empty.
enum class Tag { kNone, kWhole, kSpoiled };

Tag FindTag(std::string_view key) {
  const size_t open = key.find('{');
  const size_t close = key.find('}', open == std::string_view::npos ? 0 : open);
  if (open != std::string_view::npos && close != std::string_view::npos && close > open + 1) {
    return Tag::kWhole;
  }
  // In braces, it would end at the first one of its own.
  return key.find('}') == std::string_view::npos ? Tag::kNone : Tag::kSpoiled;
}

bool SameScript(const LuaScript& a, const LuaScript& b) {
  return a.body.data() == b.body.data() || a.body == b.body;
}

}  // namespace

bool Plan::SameAs(const Plan& other) const {
  return traits.kind == other.traits.kind && sharing == other.sharing &&
         traits.reentrant == other.traits.reentrant &&
         SameScript(scripts.acquire, other.scripts.acquire) &&
         SameScript(scripts.release, other.scripts.release) &&
         SameScript(scripts.renew, other.scripts.renew) &&
         SameScript(scripts.cancel, other.scripts.cancel) && extra_keys == other.extra_keys &&
         extra_args == other.extra_args;
}

Plan Complete(Plan plan) {
  plan.digests.reserve(6);
  for (LuaScript* script :
       {&plan.scripts.acquire, &plan.scripts.release, &plan.scripts.renew, &plan.scripts.cancel,
        &plan.scripts.inspect, &plan.scripts.force_release}) {
    if (!script->sha1.empty()) continue;
    script->sha1 = plan.digests.emplace_back(base::Sha1Hex(script->body));
  }
  return plan;
}

absl::StatusOr<KeySet> KeySet::Make(std::string_view prefix, std::string_view name) {
  if (name.empty()) return absl::InvalidArgumentError("the name of a lock must not be empty");
  const std::string main = absl::StrCat(std::string(prefix), std::string(name));
  if (main.size() > kLongestName) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a lock's name of ", main.size(), " bytes is too long; ", kLongestName, " are the most"));
  }
  const Tag tag = FindTag(main);
  if (tag == Tag::kSpoiled) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the lock's name \"", absl::CHexEscape(main),
        "\" has braces that are no hash tag, so that its keys could not share a cluster slot; "
        "leave them out, or put something between them"));
  }
  KeySet keys;
  keys.prefix_size_ = prefix.size();
  keys.main_size_ = main.size();
  keys.tagged_ = tag == Tag::kWhole;
  const std::string stem = keys.tagged_ ? main : absl::StrCat("{", main, "}");
  keys.text_ = main;
  for (const std::string_view suffix : kSuffixes) {
    absl::StrAppend(&keys.text_, stem, std::string(suffix));
  }
  keys.text_.shrink_to_fit();
  return keys;
}

std::string_view KeySet::stem() const {
  return std::string_view(text_).substr(main_size_, main_size_ + (tagged_ ? 0U : 2U));
}

std::string_view KeySet::Part(size_t index) const {
  const size_t stem_size = stem().size();
  size_t begin = main_size_;
  for (size_t i = 0; i < index; ++i) begin += stem_size + kSuffixes[i].size();
  return std::string_view(text_).substr(begin, stem_size + kSuffixes[index].size());
}

std::string KeySet::Auxiliary(std::string_view suffix) const {
  std::string key;
  const std::string_view start = stem();
  key.reserve(start.size() + suffix.size() + 1);
  key.append(start);
  key += ':';
  key.append(suffix);
  return key;
}

}  // namespace redlatch::engine
