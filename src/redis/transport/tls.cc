#include "src/redis/transport/tls.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "src/base/atomic.h"
#include "src/base/fork_guard.h"
#include "src/base/no_cancellation.h"

namespace redlatch::redis {

bool IsAddress(const std::string& host) {
  in6_addr ignored;
  return inet_pton(AF_INET, host.c_str(), &ignored) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

namespace {

constexpr size_t kMostNames = 5;

// The other side chose this text, and it goes into logs.
std::string Printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return !absl::ascii_isprint(static_cast<unsigned char>(c)); }, '?');
  return text;
}

std::string CommonName(const X509_NAME* name) {
  char text[256] = "";
  X509_NAME_get_text_by_NID(name, NID_commonName, text, sizeof text);
  return text[0] != '\0' ? Printable(text) : "(no common name)";
}

std::optional<absl::Time> TimeOf(const ASN1_TIME* time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return std::nullopt;
  return absl::FromTM(parts, absl::UTCTimeZone());
}

std::string Day(const ASN1_TIME* time) {
  const std::optional<absl::Time> at = TimeOf(time);
  if (!at) return "a day that cannot be read";
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", *at, absl::UTCTimeZone());
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

// The names that a certificate is for.
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
  const std::string where = options.ca.empty() ? "which this system does not trust"
                                               : absl::StrCat("which is not in ca=", options.ca);
  return absl::StrCat("its certificate is signed by '", issuer, "', ", where,
                      " (name the file with that authority's certificate: ca=/path/to/ca.pem)");
}

std::string Text(unsigned long error) {  // NOLINT(google-runtime-int): OpenSSL's
  const char* const reason = ERR_reason_error_string(error);
  if (reason != nullptr) return reason;
  return error == 0 ? "no reason is given" : absl::StrCat("error ", error);
}

// Returns OpenSSL's text for the last failure on this thread, and clears it.
std::string TakeTlsError() {
  std::string text = Text(ERR_peek_last_error());
  ERR_clear_error();
  return text;
}

// Says what is wrong with a certificate that is not for `name`.
std::string Misnamed(const X509* certificate, const std::string& name) {
  const std::vector<std::string> names = NamesOf(certificate);
  if (names.empty()) {
    return absl::StrCat("its certificate, of '", CommonName(X509_get_subject_name(certificate)),
                        "', is for no host (issue one that names ", name,
                        " as a subjectAltName: a common name does not count)");
  }
  if (std::find(names.begin(), names.end(), name) != names.end()) {
    return absl::StrCat("its certificate names ", name,
                        " as a host, not as an IP address (issue one with IP:", name,
                        " as a subjectAltName)");
  }
  return absl::StrCat("its certificate is for ", absl::StrJoin(names, ", "), ", and not for ", name,
                      " (connect to a name that it is for, or, if this is the right server, say "
                      "which: servername=",
                      names.front(), ")");
}

// Says why a certificate is not accepted: the one at which the verification of its chain stopped.
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
      return Misnamed(certificate, name);
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

struct TlsFault {
  std::string why;
  bool lasting = false;  // retrying does not help
};

// Says why a step failed, from OpenSSL's errors on this thread. `fault`: of the server's
// certificate, if there was one. `greeting`: the handshake was in progress.
TlsFault TakeTlsFault(const std::string& fault, const TlsOptions& options, bool greeting) {
  const auto first = ERR_peek_error();
  const int reason = ERR_GET_LIB(first) == ERR_LIB_SSL ? ERR_GET_REASON(first) : 0;
  const std::string text = Text(first);
  ERR_clear_error();
  if (!fault.empty()) return {.why = fault, .lasting = true};
  switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_ENCRYPTED_LENGTH_TOO_LONG:
      if (!greeting) break;
      return {.why =
                  "it does not speak TLS there (Redis does at the port that tls-port names; if it "
                  "has none, write redis://)",
              .lasting = true};
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_UNSUPPORTED_PROTOCOL:
      if (!greeting) break;
      return {.why = "it speaks neither TLS 1.2 nor 1.3, and older ones are not safe",
              .lasting = true};
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
      return {.why = options.cert.empty()
                         ? "it wants to see a certificate of this client (name the files: "
                           "cert=/path/to/client.pem&key=/path/to/client.key)"
                         : absl::StrCat("it does not accept this client's certificate, cert=",
                                        options.cert, ": ", text),
              .lasting = true};
    default:
      break;
  }
  return {.why = absl::StrCat(greeting ? "the TLS handshake failed: " : "TLS: ", text)};
}

using std::filesystem::directory_iterator;

// True if there is a CRL. One in a file is loaded by now; one in a directory is a file such as
// 5ed36f99.r0.
bool HasRevocations(X509_STORE* store, const std::string& path) {
  std::error_code ignored;
  for (const auto& each : directory_iterator(path, ignored)) {
    if (each.path().extension() == ".r0") return true;
  }
  const auto* const objects = X509_STORE_get0_objects(store);
  for (int i = 0; i < sk_X509_OBJECT_num(objects); ++i) {
    if (X509_OBJECT_get_type(sk_X509_OBJECT_value(objects, i)) == X509_LU_CRL) return true;
  }
  return false;
}

absl::Status CheckReadable(const std::string& option, const std::string& path) {
  if (access(path.c_str(), R_OK) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("TLS: cannot read ", option, "=", path, ": ", std::strerror(errno)));
}

absl::Status Unusable(const std::string& option, const std::string& path, const std::string& is) {
  return absl::FailedPreconditionError(
      absl::StrCat("TLS: ", option, "=", path, " ", is, ": ", TakeTlsError()));
}

}  // namespace

std::vector<Tls::Stamp> Tls::Stamps() const {
  std::vector<std::string> paths = {options_.ca, options_.cert, options_.key};
  std::error_code ignored;
  for (const auto& each : directory_iterator(options_.ca, ignored)) paths.push_back(each.path());
  std::vector<Stamp> stamps;
  for (const std::string& path : paths) {
    struct stat found = {};
    stat(path.c_str(), &found);
    stamps.emplace_back(found.st_mtim.tv_sec, found.st_mtim.tv_nsec, found.st_ino);
  }
  return stamps;
}

absl::Status Tls::LoadAuthorities(SSL_CTX* context) const {
  if (options_.insecure) return absl::OkStatus();
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, &Tls::OnCertificate);
  if (options_.ca.empty()) {
    SSL_CTX_set_default_verify_paths(context);
    return absl::OkStatus();
  }
  if (absl::Status s = CheckReadable("ca", options_.ca); !s.ok()) return s;
  std::error_code ignored;
  const int loaded = std::filesystem::is_directory(options_.ca, ignored)
                         ? SSL_CTX_load_verify_dir(context, options_.ca.c_str())
                         : SSL_CTX_load_verify_file(context, options_.ca.c_str());
  if (loaded != 1) return Unusable("ca", options_.ca, "holds no certificate");
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  if (HasRevocations(store, options_.ca)) {
    X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
  }
  return absl::OkStatus();
}

absl::Status Tls::LoadCertificate(SSL_CTX* context) const {
  if (options_.cert.empty()) return absl::OkStatus();
  const std::string& key = options_.key.empty() ? options_.cert : options_.key;
  const std::string key_option = options_.key.empty() ? "cert" : "key";
  if (absl::Status s = CheckReadable("cert", options_.cert); !s.ok()) return s;
  if (absl::Status s = CheckReadable(key_option, key); !s.ok()) return s;
  if (SSL_CTX_use_certificate_chain_file(context, options_.cert.c_str()) != 1) {
    return Unusable("cert", options_.cert, "holds no certificate");
  }
  // A library does not ask the terminal for a pass phrase.
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return -1; });
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) == 1 &&
      SSL_CTX_check_private_key(context) == 1) {
    return absl::OkStatus();
  }
  return Unusable(key_option, key,
                  "holds no key of that certificate that can be used without a pass phrase");
}

absl::StatusOr<UniqueSslContext> Tls::Load() {
  // A program may end while connections are open, or in a forked child: OpenSSL must not clean up
  // under them.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr);
  ERR_clear_error();
  UniqueSslContext context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("TLS: no memory: ", TakeTlsError()));
  }
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(context.get(), 1);  // a record's header and the rest in one system call
  SSL_CTX_set_session_cache_mode(context.get(),
                                 SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
  SSL_CTX_set_ex_data(context.get(), 0, this);
  SSL_CTX_sess_set_new_cb(context.get(), &Tls::OnNewSession);
  if (absl::Status s = LoadAuthorities(context.get()); !s.ok()) return s;
  if (absl::Status s = LoadCertificate(context.get()); !s.ok()) return s;
  return context;
}

absl::Status Tls::LoadIfChanged() {
  std::vector<Stamp> stamps = Stamps();
  if (context_ != nullptr && stamps == stamps_) return absl::OkStatus();
  absl::StatusOr<UniqueSslContext> loaded = Load();
  // A file that is just being written will be complete when the next connection is made.
  if (!loaded.ok()) return context_ != nullptr ? absl::OkStatus() : loaded.status();
  context_ = *std::move(loaded);
  stamps_ = std::move(stamps);
  sessions_.clear();  // the new files may not allow them
  return absl::OkStatus();
}

absl::StatusOr<UniqueSsl> Tls::Begin(const std::string& host, TlsPeer& peer) {
  peer.name = options_.server_name.empty() ? host.substr(0, host.find('%')) : options_.server_name;
  if (peer.name.size() > 1 && peer.name.back() == '.') peer.name.pop_back();  // as in certificates
  const base::MutexLock lock(mu_);
  if (absl::Status loaded = LoadIfChanged(); !loaded.ok()) return loaded;
  ERR_clear_error();
  UniqueSsl ssl(SSL_new(context_.get()));
  bool good = ssl != nullptr && SSL_set_ex_data(ssl.get(), 0, &peer) == 1;
  if (good && IsAddress(peer.name)) {
    good = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl.get()), peer.name.c_str()) == 1;
  } else if (good) {
    SSL_set_hostflags(ssl.get(),
                      X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    good = SSL_set1_host(ssl.get(), peer.name.c_str()) == 1 &&
           SSL_set_tlsext_host_name(ssl.get(), peer.name.c_str()) == 1;
  }
  if (!good) {
    return absl::FailedPreconditionError(
        absl::StrCat("TLS: cannot begin to speak to '", peer.name, "': ", TakeTlsError()));
  }
  if (const auto kept = sessions_.find(peer.name); kept != sessions_.end()) {
    SSL_set_session(ssl.get(), kept->second.get());
  }
  SSL_set_connect_state(ssl.get());
  return ssl;
}

// OpenSSL calls this in SSL_read().
int Tls::OnNewSession(SSL* ssl, SSL_SESSION* session) {
  SSL_CTX* const context = SSL_get_SSL_CTX(ssl);
  auto* const tls = static_cast<Tls*>(SSL_CTX_get_ex_data(context, 0));
  const auto* const peer = static_cast<const TlsPeer*>(SSL_get_ex_data(ssl, 0));
  const base::MutexLock lock(tls->mu_);
  if (tls->context_.get() != context) return 0;  // the files have changed since
  tls->sessions_[peer->name].reset(session);
  return 1;  // it is ours now
}

// OpenSSL calls this in the handshake, for each certificate of the chain and for each fault.
int Tls::OnCertificate(int good, X509_STORE_CTX* chain) {
  if (good == 1) return 1;
  const auto* const ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* const tls = static_cast<Tls*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), 0));
  auto* const peer = static_cast<TlsPeer*>(SSL_get_ex_data(ssl, 0));
  peer->fault = CertificateFault(chain, tls->options_, peer->name);
  return 0;
}

namespace {

// The transport that OpenSSL reads and writes through, and the result of its last step.
struct Below {
  std::unique_ptr<Transport> socket;
  IoResult last;
};

// Tells OpenSSL the result of a step.
int Tell(BIO* bio, const IoResult& result, size_t* bytes) {
  BIO_clear_retry_flags(bio);
  if (result.kind == IoResult::Kind::kWantRead) BIO_set_retry_read(bio);
  if (result.kind == IoResult::Kind::kWantWrite) BIO_set_retry_write(bio);
  *bytes = result.bytes;
  return result.kind == IoResult::Kind::kDone ? 1 : -1;
}

int ReadBelow(BIO* bio, char* buffer, size_t size, size_t* got) {
  auto& below = *static_cast<Below*>(BIO_get_data(bio));
  below.last = below.socket->Read(buffer, size);
  return Tell(bio, below.last, got);
}

int WriteBelow(BIO* bio, const char* bytes, size_t size, size_t* put) {
  auto& below = *static_cast<Below*>(BIO_get_data(bio));
  below.last = below.socket->Write({bytes, size});
  return Tell(bio, below.last, put);
}

long ControlBelow(BIO*, int command, long, void*) {  // NOLINT(google-runtime-int): OpenSSL's
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

const BIO_METHOD* Method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "redlatch");
    BIO_meth_set_read_ex(made, &ReadBelow);
    BIO_meth_set_write_ex(made, &WriteBelow);
    BIO_meth_set_ctrl(made, &ControlBelow);
    return made;
  }();
  return method;
}

class TlsTransport final : public Transport {
 public:
  TlsTransport(std::shared_ptr<Tls> tls, std::unique_ptr<Transport> socket)
      : tls_(std::move(tls)), below_{.socket = std::move(socket), .last = {}} {}

  // Sends the closing alert if the socket takes it at once. In a forked child OpenSSL is not
  // called, since a thread of the parent may have been inside it during the fork.
  ~TlsTransport() override {
    if (fork_guard_.InForkedChild()) {
      static_cast<void>(ssl_.release());
      return;
    }
    if (ssl_ == nullptr) return;
    ERR_clear_error();
    if (!ended_ && SSL_is_init_finished(ssl_.get()) == 1) {
      SSL_shutdown(ssl_.get());
      ERR_clear_error();
    }
    // Otherwise OpenSSL would not resume the session.
    SSL_set_shutdown(ssl_.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
  }

  absl::Status Begin(const std::string& host) {
    absl::StatusOr<UniqueSsl> ssl = tls_->Begin(host, peer_);
    if (!ssl.ok()) return ssl.status();
    BIO* const bio = BIO_new(Method());
    if (bio == nullptr) return absl::ResourceExhaustedError("TLS: no memory");
    BIO_set_data(bio, &below_);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl->get(), bio, bio);
    ssl_ = *std::move(ssl);
    return absl::OkStatus();
  }

  IoResult Connect() override { return below_.socket->Connect(); }

  IoResult Read(char* buffer, size_t size) override {
    IoResult got = Step([&](size_t* done) { return SSL_read_ex(ssl_.get(), buffer, size, done); });
    // The rest may be only a part of a record: then the next Read() wants more.
    taken_in_.store(got.kind == IoResult::Kind::kDone && SSL_has_pending(ssl_.get()) == 1,
                    std::memory_order_relaxed);
    return got;
  }

  IoResult Write(std::string_view bytes) override {
    IoResult put = Step(
        [&](size_t* done) { return SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), done); });
    // The handshake may have read bytes that follow it.
    if (put.kind == IoResult::Kind::kDone && SSL_has_pending(ssl_.get()) == 1) {
      taken_in_.store(true, std::memory_order_relaxed);
    }
    return put;
  }

  Polled BeginPoll(Interest interest) override {
    const bool ended = ended_.load(std::memory_order_relaxed);
    const bool taken_in = taken_in_.load(std::memory_order_relaxed);
    const Readiness already{.readable = ended || taken_in, .writable = ended};
    return already.Meets(interest) ? Polled{.already = already}
                                   : below_.socket->BeginPoll(interest);
  }

  // REQUIRES: the handshake is over.
  std::optional<absl::Time> certificate_until() const override {
    const std::unique_ptr<X509, FreeBy<X509_free>> shown(SSL_get1_peer_certificate(ssl_.get()));
    return shown == nullptr ? std::nullopt : TimeOf(X509_get0_notAfter(shown.get()));
  }

  void DiscardUnsent() override {
    ended_ = true;
    below_.socket->DiscardUnsent();
  }

 private:
  template <class SslStep>
  IoResult Step(SslStep step) {
    if (ended_) return end_;
    const base::NoCancellation no_cancellation;
    if (ERR_peek_error() != 0) ERR_clear_error();  // clearing takes longer than checking
    below_.last = {};
    size_t bytes = 0;
    const int outcome = step(&bytes);
    if (outcome == 1) return {.kind = IoResult::Kind::kDone, .bytes = bytes};
    const int error = SSL_get_error(ssl_.get(), outcome);
    if (error == SSL_ERROR_WANT_READ) return {.kind = IoResult::Kind::kWantRead};
    if (error == SSL_ERROR_WANT_WRITE) return {.kind = IoResult::Kind::kWantWrite};
    if (error == SSL_ERROR_ZERO_RETURN) return {.kind = IoResult::Kind::kClosed};
    return Failed();
  }

  // Returns the socket's failure if there is one: received bytes can still be read. If TLS refused
  // something, such as a certificate, the socket's failure only follows from that, and the
  // connection ends.
  IoResult Failed() {
    const bool greeting = SSL_is_init_finished(ssl_.get()) == 0;
    TlsFault fault = TakeTlsFault(peer_.fault, tls_->options(), greeting);
    const bool failed_below =
        below_.last.kind == IoResult::Kind::kClosed || below_.last.kind == IoResult::Kind::kError;
    if (failed_below && !fault.lasting) return below_.last;
    why_ = std::move(fault.why);
    end_ = {.kind = fault.lasting ? IoResult::Kind::kRefused : IoResult::Kind::kError, .why = why_};
    ended_ = true;
    return end_;
  }

  const base::ForkGuard fork_guard_;
  const std::shared_ptr<Tls> tls_;
  Below below_;
  TlsPeer peer_;
  UniqueSsl ssl_;
  base::Atomic<bool> taken_in_{false};  // OpenSSL has bytes that Read() has not returned
  base::Atomic<bool> ended_{false};
  IoResult end_ = {.kind = IoResult::Kind::kClosed};
  std::string why_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> OpenTls(std::shared_ptr<Tls> tls,
                                                   const std::string& host,
                                                   std::unique_ptr<Transport> socket) {
  auto transport = std::make_unique<TlsTransport>(std::move(tls), std::move(socket));
  if (absl::Status begun = transport->Begin(host); !begun.ok()) return begun;
  return transport;
}

}  // namespace redlatch::redis
