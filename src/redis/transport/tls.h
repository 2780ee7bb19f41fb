#ifndef REDLATCH_SRC_REDIS_TRANSPORT_TLS_H_
#define REDLATCH_SRC_REDIS_TRANSPORT_TLS_H_

#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "src/base/mutex.h"
#include "src/redis/transport/transport.h"

namespace redlatch::redis {

// The TLS settings of a URL. All files are PEM.
struct TlsOptions {
  // The only authorities that may sign the server's certificate: a file, or a directory as `openssl
  // rehash` makes it. Empty: those that the system trusts.
  std::string ca;
  // This client's certificate, followed by its chain. Empty: it has none.
  std::string cert;
  std::string key;          // of `cert`; empty: in the same file
  std::string server_name;  // the name that the certificate must be for; empty: the URL's host
  bool insecure = false;    // takes any certificate

  friend bool operator==(const TlsOptions&, const TlsOptions&) = default;
};

// True if a host is a numeric address, which needs no lookup.
bool IsAddress(const std::string& host);

template <auto kFree>
struct FreeBy {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using UniqueSsl = std::unique_ptr<SSL, FreeBy<SSL_free>>;
using UniqueSslContext = std::unique_ptr<SSL_CTX, FreeBy<SSL_CTX_free>>;
using UniqueSslSession = std::unique_ptr<SSL_SESSION, FreeBy<SSL_SESSION_free>>;

// The server of one connection. It must outlive the SSL object that it was given to.
struct TlsPeer {
  std::string name;   // the name that the certificate must be for
  std::string fault;  // why the certificate is not accepted; empty: no fault so far
};

// The TLS state that all connections of one URL share. Its files are read when the first connection
// is made, and again when they change, since certificates are renewed while programs run. A new
// connection resumes the session of the last one to a server of that name, which saves both sides
// most of the work. Thread-safe.
class Tls {
 public:
  explicit Tls(TlsOptions options) : options_(std::move(options)) {}
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  const TlsOptions& options() const { return options_; }

  // Returns an SSL object for a server that is called `host`, an address or a name. Its handshake
  // has not begun. kFailedPrecondition: a file is missing or of the wrong kind; the message names
  // it.
  absl::StatusOr<UniqueSsl> Begin(const std::string& host, TlsPeer& peer);

 private:
  // A file's time of change and inode, to see that it has changed.
  using Stamp = std::tuple<time_t, int64_t, ino_t>;

  static int OnNewSession(SSL* ssl, SSL_SESSION* session);
  static int OnCertificate(int good, X509_STORE_CTX* chain);
  std::vector<Stamp> Stamps() const;
  absl::Status LoadIfChanged() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<UniqueSslContext> Load();
  absl::Status LoadAuthorities(SSL_CTX* context) const;
  absl::Status LoadCertificate(SSL_CTX* context) const;

  const TlsOptions options_;
  base::Mutex mu_;
  UniqueSslContext context_ ABSL_GUARDED_BY(mu_);
  std::vector<Stamp> stamps_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, UniqueSslSession, std::less<>> sessions_ ABSL_GUARDED_BY(mu_);
};

// Returns TLS over `socket`, to a server that the URL calls `host`. Connect() connects the socket;
// the first Read() or Write() does the handshake, so the caller can tell which of the two takes
// time.
absl::StatusOr<std::unique_ptr<Transport>> OpenTls(std::shared_ptr<Tls> tls,
                                                   const std::string& host,
                                                   std::unique_ptr<Transport> socket);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_TRANSPORT_TLS_H_
