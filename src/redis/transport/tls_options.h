#ifndef REDLATCH_SRC_REDIS_TRANSPORT_TLS_OPTIONS_H_
#define REDLATCH_SRC_REDIS_TRANSPORT_TLS_OPTIONS_H_

#include <string>

namespace redlatch::redis {

// What a URL says of TLS. All files are PEM.
struct TlsOptions {
  // The authorities that may sign the server's certificate, none else: a file, or a directory as
  // `openssl rehash` makes it. Empty: those that the system trusts.
  std::string ca;
  // This client's certificate, and those that lead from it to its authority. Empty: it has none.
  std::string cert;
  std::string key;          // of `cert`; empty: in the same file
  std::string server_name;  // whom the certificate must be for; empty: the host of the URL
  bool insecure = false;    // any certificate will do

  friend bool operator==(const TlsOptions&, const TlsOptions&) = default;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_TRANSPORT_TLS_OPTIONS_H_
