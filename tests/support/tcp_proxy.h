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

// The connections that a fault affects: those open now, or also all that come until Heal().
enum class Scope : uint8_t { kExisting, kAll };

// What happens to a client that connects.
enum class Arrival : uint8_t {
  kServe,
  kRefuse,  // ECONNREFUSED
  kIgnore,  // it is connected and gets no answer; it is served after Heal()
  kHang,    // connect() itself gets no answer
};

struct ProxyStats {
  int64_t accepted = 0;  // connections since the start
  int64_t open = 0;      // connections now; one counts until both its sides are closed
  // Bytes written to the receiver, by direction, since the start.
  int64_t bytes_to_server = 0;
  int64_t bytes_to_client = 0;
  // Bytes read from the sender and not passed on: those held or delayed now, and those dropped
  // since the start.
  int64_t bytes_waiting = 0;
  int64_t bytes_dropped = 0;
};

struct TcpProxyOptions {
  int port = 0;  // the upstream server's
};

// A TCP proxy that injects faults. It runs in this process, on its own thread.
//
// Every control takes effect at once, also for bytes in flight: after it has returned, each byte
// obeys it, except for bytes that were written to the receiver's socket before. Controls may be
// combined, and called from any thread. Bytes and the end of the stream are always delivered in
// order, late or not.
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

  // Every byte reaches its receiver at least `delay` after it reached the proxy. The bandwidth does
  // not change. Bytes with a shorter delay do not overtake those with a longer one.
  void Delay(Direction direction, absl::Duration delay);

  // Bytes and ends of streams wait until ReleaseHeld() or Heal(), which deliver them all in order,
  // even if the client has closed its connection since. When 16 MiB of a connection wait, the proxy
  // stops reading from the sender, which is then blocked.
  void Hold(Direction direction, Scope scope = Scope::kAll);
  void ReleaseHeld();

  // Bytes and ends of streams are discarded, and the receiver gets nothing more. A TCP stream
  // cannot have a hole: a connection that lost a byte loses all later ones, whatever other controls
  // say, until Heal() resets it.
  void Drop(Direction direction, Scope scope = Scope::kAll);

  // Drops the replies on the next `connections` connections on which the server sends something.
  // The requests are executed, and their replies are lost. 0 cancels it.
  void DropReplies(int connections);

  // On each open connection `bytes` more bytes pass in this direction; then the connection is
  // reset. 0: the reset comes instead of the next reply or request.
  void CutAfter(Direction direction, int64_t bytes);

  void ResetAll();  // sends RST to both sides of every connection; bytes that wait are lost
  // Sends FIN to the receiver of this direction on every connection. The other direction goes on.
  void HalfClose(Direction direction);

  void SetArrival(Arrival arrival);

  // New connections go to the servers at these ports of 127.0.0.1, in turn, as after a failover or
  // behind a load balancer. Open connections stay where they are. Heal() does not change this.
  void LeadTo(const std::vector<int>& ports);

  // Forwards normally again: delivers held and delayed bytes, serves new connections, cancels all
  // other faults, and resets connections that lost bytes by Drop() or were half closed.
  void Heal();

  ProxyStats stats() const;
  // Waits until the proxy's figures satisfy `condition`. Returns false if they do not in time.
  bool Await(const std::function<bool(const ProxyStats&)>& condition,
             absl::Duration timeout = absl::Seconds(10)) const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_TCP_PROXY_H_
