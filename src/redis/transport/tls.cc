#include "src/redis/transport/tls.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/redis/transport/tls_errors.h"

namespace redlatch::redis {

bool IsAddress(const std::string& host) {
  in6_addr ignored;
  return inet_pton(AF_INET, host.c_str(), &ignored) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

namespace {

using std::filesystem::directory_iterator;

// Is there a CRL? A file's is loaded by now, and a directory's is a file such as 5ed36f99.r0.
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
  // A program may end with connections, or in a forked child: nothing is cleaned up under them.
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
  // What is being written just now is whole when the next connection is made.
  if (!loaded.ok()) return context_ != nullptr ? absl::OkStatus() : loaded.status();
  context_ = *std::move(loaded);
  stamps_ = std::move(stamps);
  sessions_.clear();  // another authority may not have let them begin
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

// Called in SSL_read().
int Tls::OnNewSession(SSL* ssl, SSL_SESSION* session) {
  SSL_CTX* const context = SSL_get_SSL_CTX(ssl);
  auto* const tls = static_cast<Tls*>(SSL_CTX_get_ex_data(context, 0));
  const auto* const peer = static_cast<const TlsPeer*>(SSL_get_ex_data(ssl, 0));
  const base::MutexLock lock(tls->mu_);
  if (tls->context_.get() != context) return 0;  // of files that have changed
  tls->sessions_[peer->name].reset(session);
  return 1;  // it is ours now
}

// Called in the handshake for each certificate of the chain, and for each fault.
int Tls::OnCertificate(int good, X509_STORE_CTX* chain) {
  if (good == 1) return 1;
  const auto* const ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* const tls = static_cast<Tls*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), 0));
  auto* const peer = static_cast<TlsPeer*>(SSL_get_ex_data(ssl, 0));
  peer->fault = CertificateFault(chain, tls->options_, peer->name);
  return 0;
}

}  // namespace redlatch::redis
