#ifndef REDLATCH_TESTS_SUPPORT_RAW_CONNECTION_H_
#define REDLATCH_TESTS_SUPPORT_RAW_CONNECTION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "src/redis/wire/codec.h"

struct redisContext;

namespace redlatch::support {

// One plain blocking connection of hiredis, that owes nothing to the code under test. It lives
// until it breaks: then, and ever after, replies are errors, "ERR connection: ...".
// One thread at a time.
class RawConnection {
 public:
  // `timeout` bounds the connecting, and then the wait for each reply.
  static RawConnection ToPort(int port, absl::Duration timeout = absl::Seconds(10));
  static RawConnection ToSocket(const std::string& path,
                                absl::Duration timeout = absl::Seconds(10));

  bool broken() const;
  redis::Reply Command(const std::vector<std::string>& args);

  // The halves of Command(): requests are written in order, and their replies come so.
  bool Send(const std::vector<std::string>& args);  // false where broken
  redis::Reply Receive();

  // For what hiredis has no name for.
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
