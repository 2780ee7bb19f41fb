// The seam between redlatch and the operating system's sockets. TLS will be one more Transport;
// tests put one between that counts system calls.
#ifndef REDLATCH_SRC_REDIS_TRANSPORT_TRANSPORT_H_
#define REDLATCH_SRC_REDIS_TRANSPORT_TRANSPORT_H_

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "src/base/clock.h"

namespace redlatch::redis {

// The outcome of one step that never blocks.
struct IoResult {
  enum class Kind : uint8_t { kDone, kAgain, kClosed, kError };
  Kind kind = Kind::kAgain;
  size_t bytes = 0;  // kDone
  int error = 0;     // kError: an errno
};

// Of kClosed and kError, for messages.
std::string Describe(const IoResult& failure);

struct Readiness {
  bool readable = false;
  bool writable = false;
  bool woken = false;  // `wake_fd` is readable
};

// One connection to a server. Nothing here blocks but Wait().
//
// Write() may be called while another thread is in Wait() or Read(), and Read() while another is in
// Wait(). Two threads never read, or write, at once. Shutdown() may be called at any time.
class Transport {
 public:
  virtual ~Transport() = default;

  // Goes on with connecting. kDone: connected. kAgain: call Wait(kWrite), then Connect() again.
  virtual IoResult Connect() = 0;

  virtual IoResult Read(char* buffer, size_t size) = 0;
  virtual IoResult Write(std::string_view bytes) = 0;

  enum class Interest : uint8_t { kRead, kWrite, kReadAndWrite };
  // Sleeps until the connection is ready, `wake_fd` (or -1) is readable, or `deadline` passes. A
  // connection that broke is ready for everything.
  virtual Readiness Wait(Interest interest, int wake_fd, base::Instant deadline) = 0;

  // Looks whether the descriptor is still this connection's: other code of the process may have
  // closed it, and its number may name something else since. If so, everything fails from here on.
  // To be called if the connection was left alone for a while; Wait() does it itself, and Write()
  // does it as well as it can without a system call. Any thread's.
  virtual void Verify() {}

  // Ends the stream: a thread in Wait() wakes and reads kClosed.
  virtual void Shutdown() = 0;

  // Called before destruction where what the kernel still has to send must not arrive any more.
  virtual void DiscardUnsent() = 0;
};

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  std::string text;  // for messages: "127.0.0.1:6379", "/run/redis.sock"

  friend bool operator==(const SocketAddress& a, const SocketAddress& b) {
    return a.size == b.size && memcmp(&a.storage, &b.storage, a.size) == 0;
  }
};

// Opens a socket and begins to connect it.
using TransportFactory =
    std::function<absl::StatusOr<std::unique_ptr<Transport>>(const SocketAddress&)>;

// TCP (no delay, keepalive) and Unix sockets. The descriptor is closed on exec.
absl::StatusOr<std::unique_ptr<Transport>> OpenSocket(const SocketAddress& address);

absl::StatusOr<SocketAddress> UnixAddress(std::string_view path);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_TRANSPORT_TRANSPORT_H_
