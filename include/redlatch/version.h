// The version of these headers, and that of the library at run time.
#ifndef REDLATCH_VERSION_H_
#define REDLATCH_VERSION_H_

#include <string_view>

#include "redlatch/export.h"

#define REDLATCH_VERSION_MAJOR 0
#define REDLATCH_VERSION_MINOR 9
#define REDLATCH_VERSION_PATCH 0
#define REDLATCH_VERSION_STRING "0.9.0"

namespace redlatch {

// The version of the linked library, such as "0.9.0". It differs from REDLATCH_VERSION_STRING if a
// program runs with another shared library than the one that it was compiled against.
REDLATCH_EXPORT std::string_view Version();

}  // namespace redlatch

#endif  // REDLATCH_VERSION_H_
