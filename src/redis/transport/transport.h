#ifndef REDLATCH_SRC_REDIS_TRANSPORT_TRANSPORT_H_
#define REDLATCH_SRC_REDIS_TRANSPORT_TRANSPORT_H_

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/clock.h"

namespace redlatch::redis {

// The interface between redlatch and the operating system's sockets. TLS is a Transport around a
// socket's; tests put one in between that counts system calls.

// The readiness that a Wait() waits for. Sets of it: `a | b`.
enum class Interest : uint8_t { kNone = 0, kRead = 1, kWrite = 2, kReadAndWrite = 3 };

constexpr Interest operator|(Interest a, Interest b) {
  return static_cast<Interest>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}
constexpr bool Has(Interest all, Interest one) {
  return (static_cast<uint8_t>(all) & static_cast<uint8_t>(one)) != 0;
}

// The outcome of one step that never blocks.
struct IoResult {
  // kRefused: the client and the server do not fit until one of them is reconfigured.
  enum class Kind : uint8_t { kWantRead, kWantWrite, kDone, kClosed, kError, kRefused };
  Kind kind = Kind::kWantRead;
  size_t bytes = 0;           // kDone
  int error = 0;              // kError: an errno
  std::string_view why = {};  // kError without an errno, kRefused: why, while the transport lives

  // True if nothing was done. wants() says what to wait for before the step is tried again.
  bool blocked() const { return kind == Kind::kWantRead || kind == Kind::kWantWrite; }
  Interest wants() const { return kind == Kind::kWantWrite ? Interest::kWrite : Interest::kRead; }
};

// Describes kClosed, kError or kRefused for messages.
std::string Describe(const IoResult& failure);

struct Readiness {
  bool readable = false;
  bool writable = false;
  bool woken = false;  // `wake_fd` is readable

  // True if it is ready for anything of `interest`.
  bool Meets(Interest interest) const {
    return (readable && Has(interest, Interest::kRead)) ||
           (writable && Has(interest, Interest::kWrite));
  }
};

// One connection to a server. Only Wait() blocks.
//
//   step        done                  blocked            closed, error
//   Connect()   connected             call it again      unusable
//   Read()      1 to `size` bytes     call it again      unusable, but see Write()
//   Write()     1 or more bytes       call it again      received bytes can still be read
//
// Connect() is called first, until it is done. wants() of a blocked step says what to wait for.
// This can differ from the step's name, as TLS has messages of its own. Call the step again after
// the wait; calling it earlier does no harm. Write() must then get the same bytes, which may have
// moved and may be followed by more.
//
// Read() may take in the bytes for which a blocked Write() waits, so that no Wait() reports them:
// call Write() again after a Read(), before Wait(). In the other direction nothing is lost: a
// Wait(), even one that has begun, reports bytes that Write() has left for Read().
//
// Only one thread at a time may be in Connect(), Read() or Write(). If full_duplex() is true, one
// may be in Read() while another is in Write(). Wait() may be called at any time, by several
// threads at once and during a Read() or a Write(): of the members that those change, it reads only
// atomic ones.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual IoResult Connect() = 0;
  virtual IoResult Read(char* buffer, size_t size) = 0;
  virtual IoResult Write(std::string_view bytes) = 0;

  // True if Read() and Write() share no state. It never changes.
  virtual bool full_duplex() const { return false; }

  // Sleeps until the connection is ready for anything of `interest`, `wake_fd` (or -1) is readable,
  // or `deadline` passes. Bytes that the transport has taken in and Read() has not returned make it
  // readable at once. A connection that broke is ready for everything.
  virtual Readiness Wait(Interest interest, int wake_fd, base::Instant deadline);

  // Says what Wait() polls, for a caller that polls several descriptors at once. It may be called
  // whenever Wait() may.
  struct Polled {
    int fd = -1;  // -1: nothing to poll
    int16_t events = 0;
    base::Instant until = base::Instant::Infinite();  // poll no longer than that
    Readiness already = {};                           // if set, do not poll
  };
  virtual Polled BeginPoll(Interest interest) = 0;

  // Returns when the server's certificate expires, if it has shown one.
  virtual std::optional<absl::Time> certificate_until() const { return std::nullopt; }

  // Called before destruction, if bytes that the kernel still has to send must not arrive. No
  // thread is in a step.
  virtual void DiscardUnsent() = 0;
};

class Tls;

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  std::string text;  // for messages: "127.0.0.1:6379", "/run/redis.sock"

  friend bool operator==(const SocketAddress& a, const SocketAddress& b) {
    return a.size == b.size && memcmp(&a.storage, &b.storage, a.size) == 0;
  }
};

// The target of a transport: one address of a server, and the server's name, for which its
// certificate must be.
struct Target {
  SocketAddress address;
  std::string host;          // as the URL names it; empty for a Unix socket
  std::shared_ptr<Tls> tls;  // null: no TLS
};

// Opens a transport that has not begun to connect.
using TransportFactory = std::function<absl::StatusOr<std::unique_ptr<Transport>>(const Target&)>;

// Opens the transport that the target asks for: TCP (no delay, keepalive) or a Unix socket, under
// TLS if need be. The descriptor is closed on exec. No other code chooses.
absl::StatusOr<std::unique_ptr<Transport>> OpenTransport(const Target& target);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_TRANSPORT_TRANSPORT_H_
