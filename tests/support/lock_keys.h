// The names of a lock's keys, written again from docs/protocol.md, so that tests can check them.
#ifndef REDLATCH_TESTS_SUPPORT_LOCK_KEYS_H_
#define REDLATCH_TESTS_SUPPORT_LOCK_KEYS_H_

#include <string>

namespace redlatch::support {

// The key with that suffix ("fence", "simple.queue") of the lock whose main key is `main`.
inline std::string AuxiliaryKey(const std::string& main, const std::string& suffix) {
  const size_t open = main.find('{');
  const size_t close = open == std::string::npos ? open : main.find('}', open);
  const bool tagged = close != std::string::npos && close > open + 1;
  const bool readers = suffix == "rw.readers";
  return std::string(readers ? "redlatch:rw" : "redlatch:2") + (tagged ? ".tag:" : ":{") + main +
         (tagged ? ":" : "}:") + (readers ? "readers" : suffix);
}

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_LOCK_KEYS_H_
