#ifndef REDLATCH_TESTS_SUPPORT_RAW_CONNECTION_H_
#define REDLATCH_TESTS_SUPPORT_RAW_CONNECTION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "src/redis/wire/codec.h"

struct redisContext;

namespace redlatch::support {

// A plain blocking connection of hiredis, which uses none of the code under test. Once it is
// broken, all replies are errors: "ERR connection: ...". One thread at a time.
class RawConnection {
 public:
  // `timeout` limits the attempt to connect, and then the wait for each reply.
  static RawConnection ToPort(int port, absl::Duration timeout = absl::Seconds(10));
  static RawConnection ToSocket(const std::string& path,
                                absl::Duration timeout = absl::Seconds(10));

  bool broken() const;
  redis::Reply Command(const std::vector<std::string>& args);

  // The two halves of Command(). Replies come in the order of the requests.
  bool Send(const std::vector<std::string>& args);  // false if the connection is broken
  redis::Reply Receive();

  // The socket, for calls that hiredis does not offer.
  int descriptor() const;

 private:
  struct Free {
    void operator()(redisContext* context) const;
  };

  RawConnection(redisContext* context, absl::Duration timeout);

  std::unique_ptr<redisContext, Free> context_;
  std::string send_error_;
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_RAW_CONNECTION_H_
