#ifndef REDLATCH_TESTS_SIM_TRACE_H_
#define REDLATCH_TESTS_SIM_TRACE_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/os/kernel.h"

namespace redlatch::sim {

// Prints in words what happens, if it is enabled.
class Trace {
 public:
  static void Enable() { enabled_ = true; }
  static bool enabled() { return enabled_; }
  // System calls, too.
  static void EnableCalls() { calls_ = true; }
  template <class... Parts>
  static void Call(const Parts&... parts) {
    if (!calls_) return;
    const Fibre* const fibre = Fibre::Current();
    Say("    ", fibre->process->name, " ", fibre->number, fibre->name, ": ", parts...);
  }

  template <class... Parts>
  static void Say(const Parts&... parts) {
    if (!enabled_) return;
    printf("%12.3f ms  %s\n",
           static_cast<double>(Kernel::Current()->now()) / static_cast<double>(kMilli),
           absl::StrCat(parts...).c_str());
  }

 private:
  static inline bool enabled_ = false;
  static inline bool calls_ = false;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_TRACE_H_
