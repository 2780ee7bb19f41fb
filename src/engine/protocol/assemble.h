#ifndef REDLATCH_SRC_ENGINE_PROTOCOL_ASSEMBLE_H_
#define REDLATCH_SRC_ENGINE_PROTOCOL_ASSEMBLE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace redlatch::engine {

// A user's script with each line `-- include: <piece>` replaced by that piece of redlatch's own
// (lua/README.md), the first time it is asked for, as the build does with redlatch's scripts.
// kInvalidArgument for a piece that there is not.
absl::StatusOr<std::string> Assemble(std::string_view script);

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_PROTOCOL_ASSEMBLE_H_
