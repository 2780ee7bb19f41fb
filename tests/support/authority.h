#ifndef REDLATCH_TESTS_SUPPORT_AUTHORITY_H_
#define REDLATCH_TESTS_SUPPORT_AUTHORITY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/support/resources.h"

struct X509_crl_st;

namespace redlatch::support {

// The content of a certificate.
struct CertificateWish {
  std::string subject = "redlatch test server";
  std::vector<std::string> names = {"localhost", "127.0.0.1", "::1"};  // of the server
  absl::Duration valid_from = -absl::Hours(1);                         // from now
  absl::Duration valid_until = absl::Hours(24);
};

// An authority that signs certificates for one test. The destructor removes its files.
class Authority {
 public:
  explicit Authority(const std::string& name = "redlatch test authority");
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  // The authority's own certificate, for `ca=`.
  const std::string& file() const { return file_; }

  // Writes a new certificate and its key into one file, and returns its path.
  std::string Certify(const CertificateWish& wish = {});

  // Makes a file for `ca=` with its own certificate, and a list of these revoked certificates,
  // given as files. The authority signs the list, which is valid for `valid_for`.
  std::string FileWithRevoked(const std::vector<std::string>& certificates,
                              absl::Duration valid_for = absl::Hours(24));

  // Directory() makes a directory for `ca=` with its own certificate. RevokeIn() then adds a list
  // of revoked certificates, or replaces it. Each file has the name that OpenSSL expects.
  std::string Directory();
  void RevokeIn(const std::string& directory, const std::vector<std::string>& certificates,
                absl::Duration valid_for = absl::Hours(24));

  // Writes a file with this text into its directory, and returns the path.
  std::string File(const std::string& name, const std::string& text);

 private:
  struct Signer;

  // A signed list of revoked certificates.
  std::shared_ptr<X509_crl_st> ListOf(const std::vector<std::string>& certificates,
                                      absl::Duration valid_for) const;
  std::string HashedName(const std::string& type) const;

  const TempDir directory_;
  const std::string file_;
  std::unique_ptr<Signer> signer_;
  int certified_ = 0;
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_AUTHORITY_H_
