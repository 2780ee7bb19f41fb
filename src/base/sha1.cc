// The one-shot SHA1() would initialise all of OpenSSL, which programs without TLS do not need.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "src/base/sha1.h"

#include <openssl/sha.h>

#include "absl/strings/escaping.h"

namespace redlatch::base {

std::string Sha1Hex(std::string_view text) {
  std::string digest(SHA_DIGEST_LENGTH, '\0');
  SHA_CTX context;
  SHA1_Init(&context);
  SHA1_Update(&context, text.data(), text.size());
  SHA1_Final(reinterpret_cast<unsigned char*>(digest.data()), &context);
  return absl::BytesToHexString(digest);
}

}  // namespace redlatch::base
