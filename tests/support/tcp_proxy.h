#ifndef REDLATCH_TESTS_SUPPORT_TCP_PROXY_H_
#define REDLATCH_TESTS_SUPPORT_TCP_PROXY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace redlatch::support {

enum class Direction : uint8_t { kToServer, kToClient };

// Whom a fault befalls: the connections open now, or those and all that come until Heal().
enum class Scope : uint8_t { kExisting, kAll };

// What becomes of a client that connects.
enum class Arrival : uint8_t {
  kServe,
  kRefuse,  // nothing listens: ECONNREFUSED
  kIgnore,  // it connects, and hears nothing; served after Heal()
  kHang,    // connect() itself gets no answer (a Unix socket's: EAGAIN)
};

struct ProxyStats {
  int64_t accepted = 0;  // connections since the start
  int64_t open = 0;      // connections now; one counts until both its sides are closed
  // Bytes written to the receiver, by direction, since the start.
  int64_t bytes_to_server = 0;
  int64_t bytes_to_client = 0;
  // Bytes read from the sender and not passed on: held or delayed now; thrown away since the start.
  int64_t bytes_waiting = 0;
  int64_t bytes_dropped = 0;
};

struct TcpProxyOptions {
  int port = 0;                         // the upstream server's
  std::string listen_socket_path = {};  // also listen on this Unix socket
};

// A TCP proxy in this process, on one thread of its own, that injects faults.
//
// Every control takes effect at once, for bytes in flight too: when it has returned, no byte
// passes in another way. What was written to a receiver's socket earlier is out of its hands.
// Controls may be combined and called from any thread. Order is always kept: bytes, and then the
// end of the stream, are delivered as they came, late or not.
//
// A client that connects while the server is down gets a connection that is reset.
class TcpProxy {
 public:
  explicit TcpProxy(const TcpProxyOptions& options);
  ~TcpProxy();  // resets what is open
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  int port() const;         // on 127.0.0.1; the same for the proxy's whole life
  std::string url() const;  // "redis://127.0.0.1:port"
  std::string unix_url() const;

  // Every byte reaches its receiver at least `delay` after it reached the proxy; the bandwidth is
  // as before. A shorter delay does not overtake bytes that wait for a longer one.
  void Delay(Direction direction, absl::Duration delay);

  // Bytes and ends of streams wait until ReleaseHeld() or Heal(), which deliver them all, in order,
  // also for a client that has closed its connection since. Past 16 MiB a connection the sender
  // is no longer read from, and feels it.
  void Hold(Direction direction, Scope scope = Scope::kAll);
  void ReleaseHeld();

  // Bytes and ends of streams are thrown away, and the receiver hears nothing more. TCP cannot
  // make a hole in a stream: a connection that lost a byte loses all that follow, whatever is set
  // later, until Heal() resets it.
  void Drop(Direction direction, Scope scope = Scope::kAll);

  // Drop() of replies, for the next `connections` on which the server says something: requests
  // reach it and are executed, their replies are lost. 0 disarms.
  void DropReplies(int connections);

  // On each connection `bytes` more pass in this direction; in place of the next one the
  // connection is reset. 0: the reset comes instead of the next reply or request.
  void CutAfter(Direction direction, int64_t bytes, Scope scope = Scope::kExisting);

  void ResetAll();  // RST to both sides of every connection; bytes that wait are lost
  // FIN to the receiver of this direction on every connection; the other direction flows on.
  void HalfClose(Direction direction);

  void SetArrival(Arrival arrival);

  // Connections to come go to the servers at these ports of 127.0.0.1, in turn, as after a failover
  // or behind a balancer. Those that are open stay where they are; Heal() changes nothing of this.
  void LeadTo(const std::vector<int>& ports);

  // Plain forwarding again: delivers what is held or delayed, serves new connections, disarms
  // the rest, and resets connections that lost bytes by Drop() or were half closed.
  void Heal();

  ProxyStats stats() const;
  // Waits until the proxy's figures satisfy `condition`; false where they never do.
  bool Await(const std::function<bool(const ProxyStats&)>& condition,
             absl::Duration timeout = absl::Seconds(10)) const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_TCP_PROXY_H_
