#include "src/redis/connect/endpoint.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/mutex.h"
#include "src/base/thread.h"
#include "src/redis/connect/sentinel_endpoint.h"
#include "src/redis/embedded/embedded.h"

namespace redlatch::redis {
namespace {

using Targets = absl::StatusOr<std::vector<Target>>;

Targets LookUp(const Target& named, uint16_t port, int flags) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(named.host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot find the host '", named.host, "': ", gai_strerror(error)));
  }
  std::vector<Target> targets;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    SocketAddress& address = targets.emplace_back(named).address;
    memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
    address.size = each->ai_addrlen;
    char text[NI_MAXHOST] = "";
    getnameinfo(each->ai_addr, each->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
    address.text = each->ai_family == AF_INET6 ? absl::StrCat("[", text, "]:", port)
                                               : absl::StrCat(text, ":", port);
  }
  freeaddrinfo(found);
  return targets;
}

// getaddrinfo() has no deadline, so a name is looked up by a thread of its own, which outlives
// the wait where it must, and touches nothing but this.
struct Lookup {
  base::Mutex mu;
  base::CondVar changed;
  bool done ABSL_GUARDED_BY(mu) = false;
  Targets result ABSL_GUARDED_BY(mu);
};

class TcpEndpoint final : public Endpoint {
 public:
  // `named`: all but the address.
  TcpEndpoint(Target named, uint16_t port) : named_(std::move(named)), port_(port) {}

  absl::StatusOr<std::vector<Target>> Targets(base::Instant deadline) override {
    if (auto numeric = LookUp(named_, port_, AI_NUMERICHOST); numeric.ok()) return numeric;
    if (lookup_ == nullptr) {
      if (absl::Status started = StartLookup(); !started.ok()) return started;
    }
    const std::shared_ptr<Lookup> lookup = lookup_;
    const base::MutexLock lock(lookup->mu);
    while (!lookup->done) {
      if (deadline <= base::Now()) {
        return absl::DeadlineExceededError(
            absl::StrCat("the name server has not answered yet for the host '", named_.host, "'"));
      }
      lookup->changed.WaitUntil(lookup->mu, deadline);
    }
    lookup_ = nullptr;
    return std::move(lookup->result);
  }

 private:
  absl::Status StartLookup() {
    auto lookup = std::make_shared<Lookup>();
    try {
      base::StartThread("redlatch-lookup", [lookup, named = named_, port = port_] {
        auto result = LookUp(named, port, AI_ADDRCONFIG);
        const base::MutexLock lock(lookup->mu);
        lookup->result = std::move(result);
        lookup->done = true;
        lookup->changed.SignalAll();
      }).detach();
    } catch (const std::system_error& error) {
      return absl::UnavailableError(
          absl::StrCat("cannot start a thread to look up a host: ", error.what()));
    }
    lookup_ = std::move(lookup);
    return absl::OkStatus();
  }

  const Target named_;
  const uint16_t port_;
  std::shared_ptr<Lookup> lookup_;  // one that was begun and not yet used
};

absl::StatusOr<std::vector<Target>> UnixSocket(const std::string& path) {
  Target target;
  auto* unix_address = reinterpret_cast<sockaddr_un*>(&target.address.storage);
  if (path.empty() || path.size() >= sizeof unix_address->sun_path) {
    return absl::InvalidArgumentError(absl::StrCat("the socket path '", path, "' has ", path.size(),
                                                   " bytes; a Unix socket's may have 1 to ",
                                                   sizeof unix_address->sun_path - 1));
  }
  unix_address->sun_family = AF_UNIX;
  memcpy(unix_address->sun_path, path.data(), path.size());
  target.address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  target.address.text = path;
  return std::vector<Target>{std::move(target)};
}

class UnixEndpoint final : public Endpoint {
 public:
  explicit UnixEndpoint(std::string path) : path_(std::move(path)) {}
  absl::StatusOr<std::vector<Target>> Targets(base::Instant) override { return UnixSocket(path_); }

 private:
  const std::string path_;
};

class EmbeddedEndpoint final : public Endpoint {
 public:
  explicit EmbeddedEndpoint(EmbeddedOptions options) : options_(std::move(options)) {}
  absl::StatusOr<std::vector<Target>> Targets(base::Instant deadline) override {
    absl::StatusOr<std::string> path = EnsureEmbeddedServer(options_, deadline);
    if (!path.ok()) return path.status();
    return UnixSocket(*path);
  }

 private:
  const EmbeddedOptions options_;
};

}  // namespace

std::unique_ptr<Endpoint> MakeEndpoint(const Url& url) {
  switch (url.kind) {
    case Url::Kind::kTcp:
      return std::make_unique<TcpEndpoint>(Target{.host = url.host, .tls = url.tls}, url.port);
    case Url::Kind::kUnix:
      return std::make_unique<UnixEndpoint>(url.path);
    case Url::Kind::kSentinel:
      return MakeSentinelEndpoint(url);
    case Url::Kind::kCluster:
    case Url::Kind::kQuorum:
      return std::make_unique<TcpEndpoint>(Target{.host = url.nodes.front().host, .tls = url.tls},
                                           url.nodes.front().port);
    case Url::Kind::kEmbedded:
      break;
  }
  return std::make_unique<EmbeddedEndpoint>(
      EmbeddedOptions{.directory = url.path, .idle_stop = url.idle_stop});
}

}  // namespace redlatch::redis
