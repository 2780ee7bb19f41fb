#ifndef REDLATCH_TESTS_SUPPORT_RESERVED_PORT_H_
#define REDLATCH_TESTS_SUPPORT_RESERVED_PORT_H_

#include "src/base/unique_fd.h"

namespace redlatch::support {

// A TCP port on loopback that no other ReservedPort of any process on this machine has, as long as
// this object lives; also while nothing listens on it. It lies below the range from which the
// kernel takes the ports of outgoing connections: one of those could occupy it while its server
// is down, or a client that connects to it could meet itself.
//
// Programs that know nothing of this may still take it.
class ReservedPort {
 public:
  ReservedPort();
  int number() const { return number_; }

 private:
  int number_ = 0;
  base::UniqueFd claim_;  // an abstract Unix socket named for the port; gone with the process
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_RESERVED_PORT_H_
