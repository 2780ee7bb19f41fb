// What is said to people about one lock of a client.
#ifndef REDLATCH_SRC_ENGINE_RUNTIME_ABOUT_H_
#define REDLATCH_SRC_ENGINE_RUNTIME_ABOUT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "src/engine/machine/effects.h"
#include "src/engine/runtime/core.h"
#include "src/engine/runtime/entry.h"

namespace redlatch::engine {

// The status, with the name of the lock and its server; if memory is lacking, its code alone.
absl::Status About(Core& core, const Entry& entry, absl::StatusCode code, absl::string_view message,
                   absl::string_view more = "") noexcept;
inline absl::Status About(Core& core, const Entry& entry, const absl::Status& status) {
  return About(core, entry, status.code(), status.message());
}

// What a release came to.
absl::Status StatusOf(Core& core, const Entry& entry, const Released& released) noexcept;

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_RUNTIME_ABOUT_H_
