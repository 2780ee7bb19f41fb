#ifndef REDLATCH_TESTS_SUPPORT_PROXY_LINKS_H_
#define REDLATCH_TESTS_SUPPORT_PROXY_LINKS_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/unique_fd.h"
#include "tests/support/proxy_flow.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::support::proxy {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

// What epoll calls back.
class EventHandler {
 public:
  virtual ~EventHandler() = default;
  virtual void OnEvents(uint32_t events) = 0;
};

// All connections of a proxy, and the faults set on them: see TcpProxy for the contracts of the
// controls, whose effect shows at the next Pump().
class Links {
 public:
  // `epoll` outlives this object.
  Links(int epoll, std::vector<Address> upstreams);
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  // Connections to come go to these in turn.
  void LeadTo(std::vector<Address> upstreams);
  // Takes a client's connection and makes the server's.
  void Add(base::UniqueFd client);

  // Moves what can be moved. True where more could be, after others had their turn.
  bool Pump();
  // After the time of next_due(), or a change of faults: everybody looks at their queue.
  void WakeAll();
  base::Instant next_due() const;
  const ProxyStats& stats() const { return shared_.stats; }

  void Delay(Direction direction, absl::Duration delay);
  void Hold(Direction direction, Scope scope);
  void ReleaseHeld();
  void Drop(Direction direction, Scope scope);
  void DropReplies(int connections) { shared_.drop_replies = connections; }
  void CutAfter(Direction direction, int64_t bytes, Scope scope);
  void ResetAll();
  void CloseAll();
  void HalfClose(Direction direction);
  void Heal();

 private:
  class Link;

  // The faults that a new connection is born with, by direction.
  struct Inherited {
    bool hold = false;
    bool drop = false;
    std::optional<int64_t> cut_after;
  };

  Inherited& inherited(Direction direction) { return inherited_[static_cast<int>(direction)]; }
  void Wake(Link& link);
  void Remove(const Link& link);

  const int epoll_;
  std::vector<Address> upstreams_;
  size_t next_upstream_ = 0;
  Shared shared_;
  Inherited inherited_[2];
  std::list<std::unique_ptr<Link>> links_;
  std::vector<Link*> awake_;  // those that Pump() looks at, each once
};

}  // namespace redlatch::support::proxy

#endif  // REDLATCH_TESTS_SUPPORT_PROXY_LINKS_H_
