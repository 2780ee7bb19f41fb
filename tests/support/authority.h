#ifndef REDLATCH_TESTS_SUPPORT_AUTHORITY_H_
#define REDLATCH_TESTS_SUPPORT_AUTHORITY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/support/resources.h"

struct X509_crl_st;

namespace redlatch::support {

// What a certificate is to say.
struct CertificateWish {
  std::string subject = "redlatch test server";
  std::vector<std::string> names = {"localhost", "127.0.0.1", "::1"};  // whom it is for
  absl::Duration valid_from = -absl::Hours(1);                         // from now
  absl::Duration valid_until = absl::Hours(24);
};

// An authority of the test's own, which signs certificates. All files go with it.
class Authority {
 public:
  explicit Authority(const std::string& name = "redlatch test authority");
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  // Its own certificate: what `ca=` wants.
  const std::string& file() const { return file_; }

  // A new certificate, and its key, in one file; the path of it.
  std::string Certify(const CertificateWish& wish = {});
  // The same into a file that may be there already.
  void CertifyInto(const std::string& path, const CertificateWish& wish);

  // Makes a file for `ca=`: its own certificate, and a list, signed by it and valid for so long, of
  // the revoked certificates, which are given as files.
  std::string FileWithRevoked(const std::vector<std::string>& certificates,
                              absl::Duration valid_for = absl::Hours(24));

  // The same as a directory that `ca=` may name, each file under the name that OpenSSL looks for:
  // its own certificate alone, and then a list too, in the place of the last one.
  std::string Directory();
  void RevokeIn(const std::string& directory, const std::vector<std::string>& certificates,
                absl::Duration valid_for = absl::Hours(24));

  // A file in its directory, with this text in it.
  std::string File(const std::string& name, const std::string& text);

 private:
  struct Signer;

  // A list of revoked certificates, by its handle of OpenSSL.
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
