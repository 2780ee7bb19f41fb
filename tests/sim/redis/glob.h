#ifndef REDLATCH_TESTS_SIM_REDIS_GLOB_H_
#define REDLATCH_TESTS_SIM_REDIS_GLOB_H_

#include <string_view>

namespace redlatch::sim {

// Whether a pattern of KEYS or of an ACL matches; it may have * and ? and \, but no [sets].
inline bool MatchesGlob(std::string_view text, std::string_view pattern) {
  size_t t = 0, p = 0, star = std::string_view::npos, from = 0;
  while (t < text.size()) {
    const bool escaped = p + 1 < pattern.size() && pattern[p] == '\\';
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
    } else if (p < pattern.size() &&
               (escaped ? pattern[p + 1] == text[t] : pattern[p] == '?' || pattern[p] == text[t])) {
      p += escaped ? 2 : 1;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_REDIS_GLOB_H_
