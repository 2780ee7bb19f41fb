// What went wrong with TLS, in words that say how to mend it.
#ifndef REDLATCH_SRC_REDIS_TRANSPORT_TLS_ERRORS_H_
#define REDLATCH_SRC_REDIS_TRANSPORT_TLS_ERRORS_H_

#include <openssl/x509_vfy.h>

#include <string>

#include "src/redis/transport/tls_options.h"

namespace redlatch::redis {

// What OpenSSL says of the last thing that failed on this thread, which it then forgets.
std::string TakeTlsError();

// Why the certificate at which the verification of a chain has stopped is not accepted.
std::string CertificateFault(X509_STORE_CTX* chain, const TlsOptions& options,
                             const std::string& name);

struct TlsFault {
  std::string why;
  bool lasting = false;  // until somebody mends something
};

// Why a step failed, by what OpenSSL says on this thread. `fault`: of the server's certificate, if
// there was one. `greeting`: in the handshake.
TlsFault TakeTlsFault(const std::string& fault, const TlsOptions& options, bool greeting);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_TRANSPORT_TLS_ERRORS_H_
