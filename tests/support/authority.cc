#include "tests/support/authority.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/redis/transport/tls.h"
#include "tests/support/fatal.h"

namespace redlatch::support {
namespace {

using redis::FreeBy;
using Key = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreeBy<X509_free>>;
using Revocations = std::unique_ptr<X509_CRL, FreeBy<X509_CRL_free>>;
using Time = std::unique_ptr<ASN1_TIME, FreeBy<ASN1_TIME_free>>;

void Check(bool good, const char* what) {
  if (!good) Fatal(absl::StrCat("OpenSSL: ", what));
}

void Name(X509_NAME* name, const std::string& common_name) {
  const auto* const text = reinterpret_cast<const unsigned char*>(common_name.c_str());
  Check(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, text, -1, -1, 0) == 1, "a name");
}

void Extend(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
  Check(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1, "an extension");
  X509_EXTENSION_free(extension);
}

Certificate Draft(EVP_PKEY* key, const std::string& subject, absl::Duration from,
                  absl::Duration until) {
  Certificate certificate(X509_new());
  uint32_t serial = 0;
  Check(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) == 1, "a number");
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial >> 1);
  X509_set_version(certificate.get(), 2);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), absl::ToInt64Seconds(from));
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), absl::ToInt64Seconds(until));
  X509_set_pubkey(certificate.get(), key);
  Name(X509_get_subject_name(certificate.get()), subject);
  return certificate;
}

void Write(const std::string& path, X509* certificate, EVP_PKEY* key) {
  FILE* const file = fopen(path.c_str(), "w");
  Check(file != nullptr && PEM_write_X509(file, certificate) == 1 &&
            (key == nullptr ||
             PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr) == 1) &&
            fclose(file) == 0,
        "a file");
}

// Does what EVP_EC_gen does; that macro casts const away.
EVP_PKEY* NewKey() { return EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"); }

}  // namespace

struct Authority::Signer {
  Key key;
  Certificate certificate;
};

Authority::Authority(const std::string& name)
    : file_(directory_.path() + "/authority.pem"), signer_(std::make_unique<Signer>()) {
  signer_->key.reset(NewKey());
  Check(signer_->key != nullptr, "a key");
  signer_->certificate = Draft(signer_->key.get(), name, -absl::Hours(1), absl::Hours(24));
  X509* const own = signer_->certificate.get();
  X509_set_issuer_name(own, X509_get_subject_name(own));
  Extend(own, own, NID_basic_constraints, "critical,CA:TRUE");
  Check(X509_sign(own, signer_->key.get(), EVP_sha256()) > 0, "a signature");
  Write(file_, own, nullptr);
}

Authority::~Authority() = default;

std::string Authority::Certify(const CertificateWish& wish) {
  const Key key(NewKey());
  X509* const issuer = signer_->certificate.get();
  const Certificate certificate = Draft(key.get(), wish.subject, wish.valid_from, wish.valid_until);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer));
  if (!wish.names.empty()) {
    const std::string names = absl::StrJoin(wish.names, ",", [](std::string* out, const auto& n) {
      const bool address = n.find(':') != std::string::npos ||
                           n.find_last_not_of("0123456789.") == std::string::npos;
      absl::StrAppend(out, n.starts_with("DNS:") ? "" : address ? "IP:" : "DNS:", n);
    });
    Extend(certificate.get(), issuer, NID_subject_alt_name, names);
  }
  Check(X509_sign(certificate.get(), signer_->key.get(), EVP_sha256()) > 0, "a signature");
  std::string path = absl::StrCat(directory_.path(), "/", ++certified_, ".pem");
  Write(path, certificate.get(), key.get());
  return path;
}

std::shared_ptr<X509_CRL> Authority::ListOf(const std::vector<std::string>& certificates,
                                            absl::Duration valid_for) const {
  Revocations list(X509_CRL_new());
  const Time began(X509_gmtime_adj(nullptr, -7200));
  const Time ends(X509_gmtime_adj(nullptr, absl::ToInt64Seconds(valid_for)));
  X509_CRL_set_version(list.get(), 1);
  X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(signer_->certificate.get()));
  X509_CRL_set1_lastUpdate(list.get(), began.get());
  X509_CRL_set1_nextUpdate(list.get(), ends.get());
  for (const std::string& path : certificates) {
    FILE* const file = fopen(path.c_str(), "r");
    const Certificate revoked(PEM_read_X509(file, nullptr, nullptr, nullptr));
    fclose(file);
    X509_REVOKED* const entry = X509_REVOKED_new();
    X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(revoked.get()));
    X509_REVOKED_set_revocationDate(entry, began.get());
    X509_CRL_add0_revoked(list.get(), entry);
  }
  X509_CRL_sort(list.get());
  Check(X509_CRL_sign(list.get(), signer_->key.get(), EVP_sha256()) > 0, "a signature");
  return list;
}

std::string Authority::FileWithRevoked(const std::vector<std::string>& certificates,
                                       absl::Duration valid_for) {
  const auto list = ListOf(certificates, valid_for);
  std::string path = absl::StrCat(directory_.path(), "/", ++certified_, ".pem");
  FILE* const file = fopen(path.c_str(), "w");
  Check(PEM_write_X509(file, signer_->certificate.get()) == 1 &&
            PEM_write_X509_CRL(file, list.get()) == 1 && fclose(file) == 0,
        "a file");
  return path;
}

std::string Authority::HashedName(const std::string& type) const {
  const unsigned long hash = X509_subject_name_hash(signer_->certificate.get());
  return absl::StrCat("/", absl::Hex(static_cast<uint32_t>(hash), absl::kZeroPad8), type);
}

std::string Authority::Directory() {
  std::string path = absl::StrCat(directory_.path(), "/", ++certified_);
  std::filesystem::create_directory(path);
  std::filesystem::copy_file(file_, path + HashedName(".0"));
  return path;
}

void Authority::RevokeIn(const std::string& directory, const std::vector<std::string>& certificates,
                         absl::Duration valid_for) {
  const std::string path = directory + HashedName(".r0");
  const auto list = ListOf(certificates, valid_for);
  std::error_code none_before;
  const auto before = std::filesystem::last_write_time(path, none_before);
  do {  // repeats until the file has a later time of modification
    FILE* const file = fopen(path.c_str(), "w");
    Check(PEM_write_X509_CRL(file, list.get()) == 1 && fclose(file) == 0, "a file");
  } while (!none_before && std::filesystem::last_write_time(path) == before);
}

std::string Authority::File(const std::string& name, const std::string& text) {
  std::string path = absl::StrCat(directory_.path(), "/", name);
  std::ofstream(path) << text;
  return path;
}

}  // namespace redlatch::support
