#ifndef REDLATCH_SRC_BASE_KNOWN_FD_H_
#define REDLATCH_SRC_BASE_KNOWN_FD_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include "src/base/clock.h"

namespace redlatch::base {

// Owns a file descriptor that lives for long, and recognises it. A program may close all that it
// has open, as daemons do when they start, without knowing what belongs to its libraries; then the
// same number soon names a file of its own, which must not be read, written or closed from here.
//
// Recognised is the open file itself, by a mark that costs nothing and changes nothing: the signal
// that F_SETSIG would send, if anybody asked for signals (O_ASYNC), which nobody does. Of two
// KnownFds that were given the same number, only the later one recognises it. In a sandbox that
// refuses F_SETSIG all are taken for what they were.
//
// Any thread may call get(), Verify() and Send(), but for the latter two during Take() or Reset().
class KnownFd {
 public:
  enum class Kind : uint8_t { kSocket, kEvent, kGate };

  explicit KnownFd(Kind kind) : kind_(kind) {}
  KnownFd(int fd, Kind kind) : KnownFd(kind) { Take(fd); }
  ~KnownFd() { Reset(); }
  KnownFd(const KnownFd&) = delete;
  KnownFd& operator=(const KnownFd&) = delete;

  void Take(int fd);

  // -1: there is none, or it was found to be somebody else's.
  int get() const { return fd_.load(std::memory_order_relaxed); }

  // Whether the descriptor is still this one; if not, it is let go of. One system call.
  bool Verify();

  // The same, where somebody has verified already what the calling thread works with. It trusts
  // what it saw 10 ms ago, unless any KnownFd was since then found to be somebody else's: whoever
  // closes one mostly closes all.
  bool VerifyAgain(Instant now);

  // send(), of a socket, to what is still this one; otherwise fails with EBADF. Over TCP no system
  // call more: each message carries what the kernel refuses on a socket that was not asked for it.
  // By one thread at a time.
  ssize_t Send(std::string_view bytes, int flags);

  // Closes what is still this one.
  void Reset();

  // Whether the number names one of that kind, whichever it is.
  static bool Names(int fd, Kind kind);

 private:
  bool Latest(int fd) const;

  const Kind kind_;
  std::atomic<int> fd_{-1};
  uint64_t serial_ = 0;
  bool kernel_checks_ = false;             // what Send() sends
  std::atomic<int64_t> trusted_until_{0};  // in ns, of VerifyAgain()
  std::atomic<uint64_t> losses_seen_{0};
};

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_KNOWN_FD_H_
