#include "src/base/sha1.h"

#include <openssl/sha.h>

#include "absl/strings/escaping.h"

namespace redlatch::base {

std::string Sha1Hex(std::string_view text) {
  unsigned char digest[SHA_DIGEST_LENGTH];
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest), sizeof digest});
}

}  // namespace redlatch::base
