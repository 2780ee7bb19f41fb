#include "src/redis/transport/tls_errors.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace redlatch::redis {
namespace {

constexpr size_t kMostNames = 5;

// Whoever is there wrote it, and it goes into logs.
std::string Printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return !absl::ascii_isprint(static_cast<unsigned char>(c)); }, '?');
  return text;
}

std::string CommonName(const X509_NAME* name) {
  char text[256] = "";
  X509_NAME_get_text_by_NID(name, NID_commonName, text, sizeof text);
  return text[0] != '\0' ? Printable(text) : "somebody without a name";
}

std::string Day(const ASN1_TIME* time) {
  std::tm parts = {};
  char text[32] = "a day that cannot be read";
  if (ASN1_TIME_to_tm(time, &parts) == 1) strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

std::string NameOf(const GENERAL_NAME& name) {
  if (name.type == GEN_DNS) {
    const ASN1_STRING* const text = name.d.dNSName;
    return Printable(std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                                 static_cast<size_t>(ASN1_STRING_length(text))));
  }
  if (name.type != GEN_IPADD) return "";
  const ASN1_OCTET_STRING* const address = name.d.iPAddress;
  const int size = ASN1_STRING_length(address);
  if (size != 4 && size != 16) return "";
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(size == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(address), text, sizeof text);
  return text;
}

// Whom a certificate is for.
std::vector<std::string> NamesOf(const X509* certificate) {
  std::vector<std::string> names;
  auto* const found = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(found); ++i) {
    std::string name = NameOf(*sk_GENERAL_NAME_value(found, i));
    if (!name.empty()) names.push_back(std::move(name));
  }
  GENERAL_NAMES_free(found);
  if (names.size() > kMostNames) {
    names.resize(kMostNames);
    names.emplace_back("...");
  }
  return names;
}

std::string Untrusted(const X509* certificate, const TlsOptions& options) {
  const std::string issuer = CommonName(X509_get_issuer_name(certificate));
  const std::string where = options.ca.empty() ? "nobody whom this system trusts"
                                               : absl::StrCat("none of those in ca=", options.ca);
  return absl::StrCat("its certificate is signed by '", issuer, "', ", where,
                      " (name the file with that authority's certificate: ca=/path/to/ca.pem)");
}

// What the server says of this client's certificate.
bool IsOfClientCertificate(int reason) {
  switch (reason) {
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_SSLV3_ALERT_NO_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return true;
    default:
      return false;
  }
}

bool IsNoTls(int reason) {
  return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_PACKET_LENGTH_TOO_LONG ||
         reason == SSL_R_HTTP_REQUEST || reason == SSL_R_ENCRYPTED_LENGTH_TOO_LONG;
}

bool IsOfVersion(int reason) {
  return reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION || reason == SSL_R_UNSUPPORTED_PROTOCOL;
}

std::string Text(unsigned long error) {  // NOLINT(google-runtime-int): OpenSSL's
  const char* const reason = ERR_reason_error_string(error);
  if (reason != nullptr) return reason;
  return error == 0 ? "no reason is given" : absl::StrCat("error ", error);
}

}  // namespace

std::string TakeTlsError() {
  std::string text = Text(ERR_peek_last_error());
  ERR_clear_error();
  return text;
}

std::string CertificateFault(X509_STORE_CTX* chain, const TlsOptions& options,
                             const std::string& name) {
  const X509* const certificate = X509_STORE_CTX_get_current_cert(chain);
  const int error = X509_STORE_CTX_get_error(chain);
  const std::string whose = X509_STORE_CTX_get_error_depth(chain) == 0
                                ? "its certificate"
                                : "the certificate of its certificate's authority";
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return absl::StrCat(whose, " has expired, on ", Day(X509_get0_notAfter(certificate)),
                          " (renew it)");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::StrCat(whose, " is not valid before ", Day(X509_get0_notBefore(certificate)),
                          " (is this machine's clock right?)");
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      if (NamesOf(certificate).empty()) {
        return absl::StrCat("its certificate, of '", CommonName(X509_get_subject_name(certificate)),
                            "', is for no host (issue one that names ", name,
                            " as a subjectAltName: a common name does not count)");
      }
      if (const auto names = NamesOf(certificate);
          std::find(names.begin(), names.end(), name) != names.end()) {
        return absl::StrCat("its certificate names ", name,
                            " as a host, not as an IP address (issue one with IP:", name,
                            " as a subjectAltName)");
      }
      return absl::StrCat("its certificate is for ", absl::StrJoin(NamesOf(certificate), ", "),
                          ", and not for ", name,
                          " (connect to a name that it is for, or, where this is the right server, "
                          "say which: servername=",
                          NamesOf(certificate).front(), ")");
    case X509_V_ERR_CERT_REVOKED:
      return absl::StrCat("the authority has revoked ", whose, " (issue a new one)");
    case X509_V_ERR_UNABLE_TO_GET_CRL:
    case X509_V_ERR_CRL_HAS_EXPIRED:
    case X509_V_ERR_CRL_NOT_YET_VALID:
      return absl::StrCat(
          "whether ", whose, " is revoked is not known: ", X509_verify_cert_error_string(error),
          " (as ca=", options.ca, " has a CRL, it must have a valid one of each authority)");
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return Untrusted(certificate, options);
    default:
      return absl::StrCat(whose, " is not accepted: ", X509_verify_cert_error_string(error));
  }
}

TlsFault TakeTlsFault(const std::string& fault, const TlsOptions& options, bool greeting) {
  const auto first = ERR_peek_error();
  const int reason = ERR_GET_LIB(first) == ERR_LIB_SSL ? ERR_GET_REASON(first) : 0;
  const std::string text = Text(first);
  ERR_clear_error();
  if (!fault.empty()) return {.why = fault, .lasting = true};
  if (greeting && IsNoTls(reason)) {
    return {.why =
                "it does not speak TLS there (Redis does at the port that tls-port names; where "
                "it has none, write redis://)",
            .lasting = true};
  }
  if (greeting && IsOfVersion(reason)) {
    return {.why = "it speaks neither TLS 1.2 nor 1.3, and older ones are not safe",
            .lasting = true};
  }
  if (!IsOfClientCertificate(reason)) {
    return {.why = absl::StrCat(greeting ? "the TLS handshake failed: " : "TLS: ", text)};
  }
  if (options.cert.empty()) {
    return {.why =
                "it wants to see a certificate of this client (name the files: "
                "cert=/path/to/client.pem&key=/path/to/client.key)",
            .lasting = true};
  }
  return {.why = absl::StrCat("it does not accept this client's certificate, cert=", options.cert,
                              ": ", text),
          .lasting = true};
}

}  // namespace redlatch::redis
