#ifndef REDLATCH_SRC_BASE_WORDS_H_
#define REDLATCH_SRC_BASE_WORDS_H_

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

namespace redlatch::base {

// Returns the next word of a text, which ends at `separator`, and removes both from there.
inline std::string_view TakeWord(std::string_view& text, char separator = ' ') {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

// Reads a text that is a number and nothing else.
template <class Number>
bool ReadNumber(std::string_view text, Number& number, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size();
}

template <class Number>
bool TakeNumber(std::string_view& text, Number& number) {
  return ReadNumber(TakeWord(text), number);
}

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_WORDS_H_
