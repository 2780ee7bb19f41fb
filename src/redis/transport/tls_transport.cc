#include "src/redis/transport/tls_transport.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <atomic>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/base/fork_guard.h"
#include "src/base/no_cancellation.h"
#include "src/redis/transport/tls_errors.h"

namespace redlatch::redis {
namespace {

// What OpenSSL reads and writes through: a transport, and how its last step ended.
struct Below {
  std::unique_ptr<Transport> socket;
  IoResult last;
};

// What OpenSSL is told of a step that is not done.
int NotDone(BIO* bio, const IoResult& result) {
  if (result.kind == IoResult::Kind::kWantRead) BIO_set_retry_read(bio);
  if (result.kind == IoResult::Kind::kWantWrite) BIO_set_retry_write(bio);
  return -1;
}

int ReadBelow(BIO* bio, char* buffer, size_t size, size_t* got) {
  auto& below = *static_cast<Below*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  below.last = below.socket->Read(buffer, size);
  if (below.last.kind != IoResult::Kind::kDone) return NotDone(bio, below.last);
  *got = below.last.bytes;
  return 1;
}

int WriteBelow(BIO* bio, const char* bytes, size_t size, size_t* put) {
  auto& below = *static_cast<Below*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  below.last = below.socket->Write({bytes, size});
  if (below.last.kind != IoResult::Kind::kDone) return NotDone(bio, below.last);
  *put = below.last.bytes;
  return 1;
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

  // Says goodbye, if that can be said at once. In a forked child OpenSSL is left alone, since
  // threads that are not there any more may have been in the midst of it.
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
    // Else its session would be thought of as broken.
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
    // What is left may be a part of a record only: then the next Read() wants more.
    taken_in_.store(got.kind == IoResult::Kind::kDone && SSL_has_pending(ssl_.get()) == 1,
                    std::memory_order_relaxed);
    return got;
  }

  IoResult Write(std::string_view bytes) override {
    IoResult put = Step(
        [&](size_t* done) { return SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), done); });
    // The handshake may have taken in more than its own.
    if (put.kind == IoResult::Kind::kDone && SSL_has_pending(ssl_.get()) == 1) {
      taken_in_.store(true, std::memory_order_relaxed);
    }
    return put;
  }

  Readiness Wait(Interest interest, int wake_fd, base::Instant deadline) override {
    const Readiness already = Already(interest);
    return already.Meets(interest) ? already : below_.socket->Wait(interest, wake_fd, deadline);
  }

  Polled BeginPoll(Interest interest) override {
    const Readiness already = Already(interest);
    return already.Meets(interest) ? Polled{.already = already}
                                   : below_.socket->BeginPoll(interest);
  }

  Readiness EndPoll(const Polled& polled, int16_t came) override {
    return below_.socket->EndPoll(polled, came);
  }

  // Of a handshake that is over.
  std::optional<absl::Time> certificate_until() const override {
    const std::unique_ptr<X509, FreeBy<X509_free>> shown(SSL_get1_peer_certificate(ssl_.get()));
    tm until = {};
    if (shown == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(shown.get()), &until) != 1) {
      return std::nullopt;
    }
    return absl::FromTM(until, absl::UTCTimeZone());
  }

  void DiscardUnsent() override {
    ended_ = true;
    below_.socket->DiscardUnsent();
  }

 private:
  Readiness Already(Interest interest) const {
    if (ended_.load(std::memory_order_relaxed)) return {.readable = true, .writable = true};
    return {.readable =
                Has(interest, Interest::kRead) && taken_in_.load(std::memory_order_relaxed)};
  }

  template <class SslStep>
  IoResult Step(SslStep step) {
    if (ended_) return end_;
    const base::NoCancellation no_cancellation;
    if (ERR_peek_error() != 0) ERR_clear_error();  // which takes longer
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

  // What failed below says nothing of what was received, and is no more than what follows where a
  // certificate was not accepted. What TLS refuses is the end.
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
  std::atomic<bool> taken_in_{false};  // OpenSSL has bytes that Read() has not returned
  std::atomic<bool> ended_{false};
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
