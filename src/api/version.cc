#include "redlatch/version.h"

namespace redlatch {

std::string_view Version() { return REDLATCH_VERSION_STRING; }

}  // namespace redlatch
