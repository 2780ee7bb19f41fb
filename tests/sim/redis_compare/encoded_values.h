#ifndef REDLATCH_TESTS_SIM_REDIS_COMPARE_ENCODED_VALUES_H_
#define REDLATCH_TESTS_SIM_REDIS_COMPARE_ENCODED_VALUES_H_

#include <sys/socket.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "tests/sim/redis/redis_server.h"
#include "tests/support/raw_connection.h"
#include "tests/support/redis_server.h"
#include "tests/support/testing.h"

namespace redlatch::sim {

// How many bytes the first value of a stream of RESP 2 or 3 has; 0 if it is incomplete.
inline size_t SizeOfValue(std::string_view stream) {
  const size_t end = stream.find("\r\n");
  if (end == stream.npos) return 0;
  const auto is_one_of = [&](std::string_view types) {
    return types.find(stream[0]) != types.npos;
  };
  size_t size = end + 2;
  int64_t count = 0;
  if (!is_one_of("$=*%>") || !absl::SimpleAtoi(std::string(stream.substr(1, end - 1)), &count) ||
      count < 0) {
    return size;
  }
  if (is_one_of("$=")) {
    size += static_cast<size_t>(count) + 2;
    return size <= stream.size() ? size : 0;
  }
  for (int64_t left = is_one_of("%") ? 2 * count : count; left > 0; --left) {
    const size_t element = SizeOfValue(stream.substr(size));
    if (element == 0) return 0;
    size += element;
  }
  return size;
}

// Takes the first value from a stream; empty if it is incomplete.
inline std::string TakeValue(std::string& stream) {
  const size_t size = SizeOfValue(stream);
  std::string value = stream.substr(0, size);
  stream.erase(0, size);
  return value;
}

// A connection to a real server, whose replies and messages are shown as they are.
class EncodedConnection {
 public:
  explicit EncodedConnection(support::RedisServer& server)
      : connection_(support::RawConnection::ToSocket(server.socket_path())) {}

  void Send(const std::vector<std::string>& words) { connection_.Send(words); }
  std::string Receive() {
    for (;;) {
      std::string value = TakeValue(input_);
      if (!value.empty()) return value;
      char bytes[4096];
      const ssize_t size = recv(connection_.descriptor(), bytes, sizeof bytes, 0);
      if (size <= 0) return "nothing";
      input_.append(bytes, static_cast<size_t>(size));
    }
  }

 private:
  support::RawConnection connection_;
  std::string input_;
};

// What the simulated server sends.
struct EncodedOutputs : Sink {
  void Send(uint64_t connection, std::string_view bytes) override { sent[connection] += bytes; }
  void Close(uint64_t) override {}
  std::vector<std::string> Take(uint64_t connection) {
    std::vector<std::string> values;
    std::string stream = std::exchange(sent[connection], "");
    while (!stream.empty()) values.push_back(TakeValue(stream));
    return values;
  }
  std::map<uint64_t, std::string> sent;
};

inline void Send(RedisServer& server, uint64_t connection, const std::vector<std::string>& words) {
  server.Receive(connection,
                 redis::Command(std::vector<std::string_view>(words.begin(), words.end())).bytes());
}

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_REDIS_COMPARE_ENCODED_VALUES_H_
