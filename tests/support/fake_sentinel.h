#ifndef REDLATCH_TESTS_SUPPORT_FAKE_SENTINEL_H_
#define REDLATCH_TESTS_SUPPORT_FAKE_SENTINEL_H_

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "tests/support/fake_server.h"

namespace redlatch::support {

// A sentinel that says of every primary that it is at whichever port of 127.0.0.1 `names` does; 0:
// it knows none of that name. It knows no other sentinels.
class FakeSentinel {
 public:
  explicit FakeSentinel(std::function<int()> names, int epoch = 1);

  std::string address() const;  // "127.0.0.1:26379"
  int asked() const { return asked_; }

 private:
  std::optional<std::string> Answer(const FakeServer::Asked& asked, int port, int epoch);

  std::atomic<int> asked_{0};
  FakeServer server_;
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_FAKE_SENTINEL_H_
