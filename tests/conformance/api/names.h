// What may be the name of a lock, semaphore or latch, and what may not.
#ifndef REDLATCH_TESTS_CONFORMANCE_API_NAMES_H_
#define REDLATCH_TESTS_CONFORMANCE_API_NAMES_H_

#include "tests/support/testing.h"

namespace redlatch::conformance {

// Any bytes whose keys can share a slot, as many as fit behind the prefix.
inline std::vector<std::string> GoodNames(std::string_view key_prefix) {
  using std::string_literals::operator""s;
  return {"a",
          "with spaces and\ttabs",
          "line\nbreak\r\n",
          "nul\0inside"s,
          "\0"s,
          "Grüße, 世界 🔒",
          "\xff\xfe\x80",
          "a:b:queue",
          "a:b:counted",
          "{tag}:rest",
          "rest:{tag}",
          "{a}{b}",
          "half {open",
          "x}{y}",
          "redlatch-bench:x",
          "a:redlatch:x",
          std::string(4096 - key_prefix.size(), 'y')};
}

// Behind no prefix, what begins as the library's own keys do is none either.
inline std::vector<std::string> BadNames(std::string_view key_prefix) {
  std::vector<std::string> names = {
      "", "{}", "{}a", "a}b", "}{", "a}b{c", "}", "a{}{b}", std::string(4097, 'z')};
  if (key_prefix.empty()) names.push_back("redlatch:2:{x}:fence");
  return names;
}

}  // namespace redlatch::conformance

#endif  // REDLATCH_TESTS_CONFORMANCE_API_NAMES_H_
