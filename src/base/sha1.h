#ifndef REDLATCH_SRC_BASE_SHA1_H_
#define REDLATCH_SRC_BASE_SHA1_H_

#include <string>
#include <string_view>

namespace redlatch::base {

// Returns 40 lower-case hex digits: the name by which Redis knows a script. Not for secrets.
std::string Sha1Hex(std::string_view text);

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_SHA1_H_
