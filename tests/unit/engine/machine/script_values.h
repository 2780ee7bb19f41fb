#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_SCRIPT_VALUES_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_SCRIPT_VALUES_H_

#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "src/engine/machine/script_io.h"

namespace redlatch::engine {

// What a script is for, where it must be for this.
template <class What>
const What& As(const Send& send) {
  return std::get<What>(send.what);
}

// The bid that a script makes, where it must make one.
inline const Bid& BidOf(const Send& send) {
  const Bid* const bid = send.bid();
  if (bid == nullptr) throw std::bad_variant_access();
  return *bid;
}

// For what a model says when it is asked to tell all.
inline std::string Name(const Send& send) {
  static constexpr const char* kNames[] = {"acquire", "renew", "release", "cancel"};
  std::string name = absl::StrCat(kNames[send.what.index()], " of ", send.grant);
  if (const Bid* const bid = send.bid()) {
    absl::StrAppend(&name, " bid ", bid->grant, "/", bid->attempt, bid->wait ? " waits" : "");
  }
  return name + (send.leaves_tombstone() ? " tombstone" : "");
}
inline std::string Name(const Answer& answer) {
  static constexpr const char* kNames[] = {"failed",   "bid",      "held",
                                           "released", "not held", "cancelled"};
  static constexpr const char* kBids[] = {"", " granted", " queued", " busy", " gone"};
  return absl::StrCat(kNames[answer.what.index()], kBids[answer.bid().index()]);
}

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_SCRIPT_VALUES_H_
