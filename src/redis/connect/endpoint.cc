#include "src/redis/connect/endpoint.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/atomic.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"
#include "src/base/status.h"
#include "src/base/thread.h"
#include "src/redis/connect/sentinel.h"
#include "src/redis/embedded/embedded.h"

namespace redlatch::redis {
namespace {

using Addresses = absl::StatusOr<std::vector<SocketAddress>>;

Addresses LookUp(const HostAndPort& named, int flags) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(named.port);
  const int error = getaddrinfo(named.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot find the host '", named.host, "': ", gai_strerror(error)));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
    address.size = each->ai_addrlen;
    char text[NI_MAXHOST] = "";
    getnameinfo(each->ai_addr, each->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
    address.text = HostAndPort{.host = text, .port = named.port}.text();
  }
  freeaddrinfo(found);
  return addresses;
}

// getaddrinfo() has no deadline, so a thread looks the name up. The thread may outlive the calls
// that wait for it, and uses only this object and Lookups.
struct Lookup {
  base::Mutex mu;
  base::CondVar done;
  std::optional<Addresses> result ABSL_GUARDED_BY(mu);
};

// The lookups in progress in this process, one per host and port. All endpoints share them, so that
// a hung name server does not cost a thread per attempt to connect.
class Lookups {
 public:
  static Lookups& Here() {
    static base::Atomic<Lookups*> here{nullptr};
    Lookups* known = here.load();
    if (known != nullptr && !known->fork_guard_.InForkedChild()) return *known;
    auto* const fresh = new Lookups;  // a forked child has none of the threads
    if (here.compare_exchange_strong(known, fresh)) return *fresh;
    delete fresh;
    return *known;
  }

  absl::StatusOr<std::shared_ptr<Lookup>> Of(const HostAndPort& named) {
    const base::MutexLock lock(mu_);
    std::shared_ptr<Lookup>& known = in_progress_[named];
    if (known != nullptr) return known;
    known = std::make_shared<Lookup>();
    const bool started = base::TryStartDetached("redlatch-lookup", [=, this, lookup = known] {
      Addresses found = LookUp(named, AI_ADDRCONFIG);
      {
        const base::MutexLock all(mu_);
        in_progress_.erase(named);
      }
      const base::MutexLock its_lock(lookup->mu);
      lookup->result = std::move(found);
      lookup->done.SignalAll();
    });
    if (started) return known;
    in_progress_.erase(named);
    return base::NoThread();
  }

 private:
  const base::ForkGuard fork_guard_;
  base::Mutex mu_;
  std::map<HostAndPort, std::shared_ptr<Lookup>> in_progress_ ABSL_GUARDED_BY(mu_);
};

class TcpEndpoint {
 public:
  TcpEndpoint(HostAndPort named, std::shared_ptr<Tls> tls)
      : named_(std::move(named)), tls_(std::move(tls)) {}

  absl::StatusOr<std::vector<Target>> operator()(base::Instant deadline) {
    if (auto numeric = LookUp(named_, AI_NUMERICHOST); numeric.ok()) return At(*numeric);
    if (lookup_ == nullptr) {
      auto begun = Lookups::Here().Of(named_);
      if (!begun.ok()) return begun.status();
      lookup_ = *std::move(begun);
    }
    const std::shared_ptr<Lookup> lookup = lookup_;
    const base::MutexLock lock(lookup->mu);
    while (!lookup->result) {
      if (deadline <= base::Now()) {
        return absl::DeadlineExceededError(
            absl::StrCat("the name server has not answered yet for the host '", named_.host, "'"));
      }
      lookup->done.WaitUntil(lookup->mu, deadline);
    }
    lookup_ = nullptr;
    const Addresses& found = *lookup->result;
    if (!found.ok()) return base::Unshared(found.status());
    return At(*found);
  }

 private:
  std::vector<Target> At(const std::vector<SocketAddress>& addresses) const {
    std::vector<Target> targets;
    for (const SocketAddress& each : addresses) targets.push_back({each, named_.host, tls_});
    return targets;
  }

  const HostAndPort named_;
  const std::shared_ptr<Tls> tls_;
  std::shared_ptr<Lookup> lookup_;  // begun, with a result not yet used
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

}  // namespace

Endpoint MakeEndpoint(const Url& url) {
  switch (url.kind) {
    case Url::Kind::kTcp:
      return TcpEndpoint({.host = url.host, .port = url.port}, url.tls);
    case Url::Kind::kUnix:
      return [path = url.path](base::Instant) { return UnixSocket(path); };
    case Url::Kind::kSentinel:
      return MakeSentinelEndpoint(url);
    case Url::Kind::kCluster:
    case Url::Kind::kQuorum:
      return TcpEndpoint(url.nodes.front(), url.tls);
    case Url::Kind::kEmbedded:
      break;
  }
  return [options = EmbeddedOptions{.directory = url.path, .idle_stop = url.idle_stop}](
             base::Instant deadline) -> absl::StatusOr<std::vector<Target>> {
    absl::StatusOr<std::string> path = EnsureEmbeddedServer(options, deadline);
    if (!path.ok()) return path.status();
    return UnixSocket(*path);
  };
}

}  // namespace redlatch::redis
