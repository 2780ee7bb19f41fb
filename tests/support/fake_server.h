#ifndef REDLATCH_TESTS_SUPPORT_FAKE_SERVER_H_
#define REDLATCH_TESTS_SUPPORT_FAKE_SERVER_H_

#include <atomic>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "redlatch/lua_script.h"
#include "src/base/mutex.h"
#include "src/base/unique_fd.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/reply_parser.h"

namespace redlatch::support {

// A server whose replies the test chooses, for replies that a real server cannot be made to send.
// It listens on a port of 127.0.0.1, and has one thread.
class FakeServer {
 public:
  struct Asked {
    int connection;  // 1 is the first
    std::vector<std::string> command;
    mutable bool hang_up = false;  // if the callback sets it, the connection is closed afterwards
  };
  // Returns the bytes to send: any number of replies. nullopt closes the connection.
  using Answer = std::function<std::optional<std::string>(const Asked&)>;

  explicit FakeServer(Answer answer);
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  std::string url() const;
  // How many connections it has accepted so far.
  int connections() const;

  // Returns true if it asks for that script, by its digest or as text.
  static bool Runs(const Asked& asked, const LuaScript& script) {
    const auto& command = asked.command;
    return command.size() > 1 && (command[1] == script.sha1 || command[1] == script.body);
  }
  // A reply with this string.
  static std::string Bulk(std::string_view text);
  // The replies of a real server to a handshake, PING, SUBSCRIBE and UNSUBSCRIBE.
  static std::optional<std::string> Polite(const Asked& asked);

 private:
  struct Connection {
    int number;
    base::UniqueFd fd;
    redis::ReplyParser parser;  // a command is an array of strings, like some replies
  };

  void Run();
  // Returns false if the connection has ended.
  bool Serve(Connection& connection);

  const Answer answer_;
  const base::UniqueFd listener_;
  const base::UniqueFd stop_;
  int port_ = 0;
  std::list<Connection> open_;  // used only by the thread
  mutable base::Mutex mu_;
  int accepted_ ABSL_GUARDED_BY(mu_) = 0;
  std::thread thread_;
};

// A node that claims to serve all slots of a cluster. `answer` replies to all other commands.
class FakeClusterNode {
 public:
  explicit FakeClusterNode(FakeServer::Answer answer);
  std::string address() const;  // "127.0.0.1:6379"
  // From now on it says that the other node serves all slots.
  void HandSlotsTo(const FakeClusterNode& other) { owner_ = other.port_.load(); }

 private:
  std::optional<std::string> Answer(const FakeServer::Asked& asked) const;

  const FakeServer::Answer answer_;
  std::atomic<int> port_{0};
  std::atomic<int> owner_{0};  // the port of the node that serves all slots
  FakeServer server_;
};

// A sentinel that names the port of 127.0.0.1 that `names` returns for every primary; 0: it knows
// no such primary. It knows no other sentinels.
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

#endif  // REDLATCH_TESTS_SUPPORT_FAKE_SERVER_H_
