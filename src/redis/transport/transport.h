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

// The seam between redlatch and the operating system's sockets. TLS is a Transport around one;
// tests put one between that counts system calls.

// What a Wait() waits for. Sets of it: `a | b`.
enum class Interest : uint8_t { kNone = 0, kRead = 1, kWrite = 2, kReadAndWrite = 3 };

constexpr Interest operator|(Interest a, Interest b) {
  return static_cast<Interest>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}
constexpr bool Has(Interest all, Interest one) {
  return (static_cast<uint8_t>(all) & static_cast<uint8_t>(one)) != 0;
}

// The outcome of one step that never blocks.
struct IoResult {
  // kRefused: this client and this server don't fit, until somebody mends something.
  enum class Kind : uint8_t { kWantRead, kWantWrite, kDone, kClosed, kError, kRefused };
  Kind kind = Kind::kWantRead;
  size_t bytes = 0;           // kDone
  int error = 0;              // kError: an errno
  std::string_view why = {};  // in its place, or beside kRefused: why, while the transport lives

  // Nothing was done, and wants() says what to wait for before the step is tried again.
  bool blocked() const { return kind == Kind::kWantRead || kind == Kind::kWantWrite; }
  Interest wants() const { return kind == Kind::kWantWrite ? Interest::kWrite : Interest::kRead; }
};

// Of kClosed, kError and kRefused, for messages.
std::string Describe(const IoResult& failure);

struct Readiness {
  bool readable = false;
  bool writable = false;
  bool woken = false;  // `wake_fd` is readable

  // Whether anything of `interest` came.
  bool Meets(Interest interest) const {
    return (readable && Has(interest, Interest::kRead)) ||
           (writable && Has(interest, Interest::kWrite));
  }
};

// One connection to a server. Nothing here blocks but Wait().
//
//   step        done                  blocked            closed, error
//   Connect()   connected             call it again      of no more use
//   Read()      1 to `size` bytes     call it again      of no more use, but see Write()
//   Write()     1 or more bytes       call it again      what was received can still be read
//
// Connect() comes first, until it is done. A step that is blocked wants what it says: to read, to
// write, and not always what its name says, as TLS has messages of its own. Wait for that, and
// call it again. Write() is then given the same bytes, wherever they are by now, and perhaps more
// behind them. Called earlier, a step does no harm.
//
// Read() may take in what a blocked Write() wants to read, so that no Wait() tells of it: call
// Write() again after a Read(), before Wait(). The other way round nothing is lost: Write() leaves
// what Read() would return where a Wait(), also one that has begun, finds it.
//
// One caller at a time, of any thread, is in Connect(), Read() or Write(), unless full_duplex()
// says that one may be in Read() while another is in Write(). Wait() may be called at any
// time, by several threads at once and beside a Read() or a Write(): of what those change, it reads
// only atomic members.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual IoResult Connect() = 0;
  virtual IoResult Read(char* buffer, size_t size) = 0;
  virtual IoResult Write(std::string_view bytes) = 0;

  // Whether Read() and Write() have nothing in common. The same for the whole of its life.
  virtual bool full_duplex() const { return false; }

  // Sleeps until the connection is ready for anything of `interest`, `wake_fd` (or -1) is readable,
  // or `deadline` passes. Bytes that the transport has taken in and Read() has not returned make it
  // readable at once. A connection that broke is ready for everything.
  virtual Readiness Wait(Interest interest, int wake_fd, base::Instant deadline) = 0;

  // The same for a caller that polls several connections at once: what to poll, and then the
  // result. May be called whenever Wait() may.
  struct Polled {
    int fd = -1;  // none: nothing to be polled
    int16_t events = 0;
    base::Instant until = base::Instant::Infinite();  // no longer
    Readiness already = {};                           // in place of polling
  };
  virtual Polled BeginPoll(Interest interest) = 0;
  virtual Readiness EndPoll(const Polled& polled, int16_t came) = 0;

  // Until when the certificate is good that the server has shown; nothing where it has shown none.
  virtual std::optional<absl::Time> certificate_until() const { return std::nullopt; }

  // Called before destruction where what the kernel still has to send must not arrive any more.
  // Nobody is in a step.
  virtual void DiscardUnsent() = 0;
};

// What somebody waits for whom another calls when it has come: a connection, an instant, or
// nothing.
struct Awaited {
  Transport* transport = nullptr;
  Interest interest = Interest::kNone;
  base::Instant until = base::Instant::Infinite();
  int gate = -1;  // unless -1: polled for reading in place of the connection's descriptor
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

// What a transport is opened to: one address of a server, and what the server is called, since it
// shows a certificate of that name.
struct Target {
  SocketAddress address;
  std::string host;          // as the URL names it; empty for a Unix socket
  std::shared_ptr<Tls> tls;  // null: TLS is not spoken
};

// Opens a transport that has not begun to connect.
using TransportFactory = std::function<absl::StatusOr<std::unique_ptr<Transport>>(const Target&)>;

// The transport that the target asks for. The one place that chooses.
absl::StatusOr<std::unique_ptr<Transport>> OpenTransport(const Target& target);

// TCP (no delay, keepalive) and Unix sockets. The descriptor is closed on exec.
absl::StatusOr<std::unique_ptr<Transport>> OpenSocket(const SocketAddress& address);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_TRANSPORT_TRANSPORT_H_
