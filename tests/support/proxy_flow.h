#ifndef REDLATCH_TESTS_SUPPORT_PROXY_FLOW_H_
#define REDLATCH_TESTS_SUPPORT_PROXY_FLOW_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/unique_fd.h"
#include "tests/support/tcp_proxy.h"

// The inside of TcpProxy; all of it runs on the proxy's thread.
namespace redlatch::support::proxy {

// One of a connection's two sockets, watched edge-triggered: a flag stays up until the kernel says
// EAGAIN.
struct Endpoint {
  base::UniqueFd fd;
  bool readable = false;
  bool writable = true;
  bool hung_up = false;  // an end or an error follows the bytes that can be read now
  bool broken = false;   // a write failed: the end that follows is a reset
};

// What the flows of all connections share.
struct Shared {
  ProxyStats stats;
  absl::Duration delay[2] = {};  // by direction
  int drop_replies = 0;
  std::vector<char> buffer = std::vector<char>(size_t{256} << 10);
};

// One direction of one connection: bytes, and then the end of the stream, from a socket to the
// other, in order, through a queue where they must wait.
class Flow {
 public:
  enum class Progress : uint8_t {
    kIdle,   // nothing more to do before the next event
    kMore,   // others' turn, then call again
    kReset,  // the connection is to be reset
  };

  Flow(Direction direction, Endpoint& from, Endpoint& to, Shared& shared)
      : direction_(direction), from_(from), to_(to), shared_(shared) {}
  ~Flow() { DiscardQueue(); }
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  // Moves what can be moved now.
  Progress Pump();

  // The sender's stream has ended, and that end needs no more handling.
  bool finished() const { return ended_ && queue_.empty(); }
  // The receiver lacks something that the sender believes delivered.
  bool damaged() const { return damaged_; }
  // When the first waiting byte is due; infinite where something else than time is waited for.
  base::Instant next_due() const;

  void Hold() { held_ = true; }
  void Release() { held_ = false; }
  void Drop();
  void CutAfter(std::optional<int64_t> bytes) { cut_after_ = bytes; }
  // No fault any more; what waits for its time need not. Damage is not undone.
  void Restore();
  // Ends the stream for the receiver here and now. What the sender still says is thrown away.
  void EndNow();

 private:
  enum class End : uint8_t { kNone, kFin, kReset };

  struct Chunk {
    base::Instant due;  // 0: at once
    std::string data;
    End end = End::kNone;
  };

  bool Read();
  void Take(std::string_view data);
  void TakeEnd(End end);
  void Enqueue(std::string_view data, End end);
  void DiscardQueue();

  bool WriteDue();  // false: reset the connection
  size_t Send(const iovec* pieces, size_t count);
  void Consume(size_t bytes);
  size_t QueueLimit() const;
  absl::Duration delay() const { return shared_.delay[static_cast<int>(direction_)]; }

  const Direction direction_;
  Endpoint& from_;
  Endpoint& to_;
  Shared& shared_;

  std::deque<Chunk> queue_;
  size_t consumed_ = 0;  // of the first chunk
  size_t waiting_ = 0;   // bytes in the queue
  bool held_ = false;
  bool dropping_ = false;
  bool damaged_ = false;
  bool ended_ = false;   // the sender's stream is over
  bool closed_ = false;  // the receiver takes nothing more
  std::optional<int64_t> cut_after_;
};

}  // namespace redlatch::support::proxy

#endif  // REDLATCH_TESTS_SUPPORT_PROXY_FLOW_H_
