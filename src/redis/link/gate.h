#ifndef REDLATCH_SRC_REDIS_LINK_GATE_H_
#define REDLATCH_SRC_REDIS_LINK_GATE_H_

#include "src/redis/transport/transport.h"

namespace redlatch::redis {

// A descriptor that threads poll in place of a socket. It is readable while the socket is ready and
// the gate is open. A thread that exchanges bytes over the socket shuts it meanwhile, which wakes
// none of those that sleep.
//
// An epoll set that has the socket or is empty: the end of a connection is always reported for a
// socket in a set. Not thread-safe, except that any thread may poll fd().
class Gate {
 public:
  Gate() = default;
  ~Gate() { Close(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Creates the descriptor if needed. Returns false if none is left.
  bool Create();
  int fd() const { return set_; }

  // Lets through what `socket` says to poll. Returns false if that is not possible.
  bool Open(const Transport::Polled& socket);
  // To be called before the socket is closed, too: a forked child may hold a copy of it.
  void Shut();
  bool is_open() const { return socket_ >= 0; }

  void Close();

 private:
  int set_ = -1;
  int socket_ = -1;  // in the set
  int16_t events_ = 0;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_GATE_H_
