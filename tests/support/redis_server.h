#ifndef REDLATCH_TESTS_SUPPORT_REDIS_SERVER_H_
#define REDLATCH_TESTS_SUPPORT_REDIS_SERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "src/redis/wire/codec.h"

namespace redlatch::support {

// How a server speaks TLS, beside its plain port.
struct ServerTls {
  std::string cert;         // and its key, in one file
  std::string ca;           // of the server's certificate, and of those that clients show
  bool of_clients = false;  // each client must show one
};

struct RedisServerOptions {
  // Listen on 127.0.0.1, at a port of this server's own. The Unix socket is always there.
  bool tcp = true;
  // Listen on ::1 as well, at the same port.
  bool ipv6 = false;
  // Listen for TLS on 127.0.0.1 and ::1 too, at a port of its own.
  std::optional<ServerTls> tls = {};
  // Keep an append-only file, so that Restart() finds the data again. Each write reaches the
  // kernel before its reply is sent.
  bool append_only = false;
  // The default user's password. Empty: none.
  std::string password = {};
  // ACL rules as in an ACL file: "user alice on >secret ~* &* +@all". Where they say nothing of
  // the user `default`, it may do everything.
  std::vector<std::string> acl = {};
  // Run as a sentinel: what it watches is in `config`, or set by commands.
  bool sentinel = false;
  // Replicate the server (or the proxy before it) at this port of 127.0.0.1. 0: a primary.
  int replica_of = 0;
  // More lines of redis.conf: "maxmemory 10mb".
  std::vector<std::string> config = {};
  // Of the process: "NAME=value".
  std::vector<std::string> environment = {};
};

// A real redis-server of the test's own: own directory, own port, own Unix socket.
//
// The program is $REDLATCH_REDIS_SERVER, else redis-server, else valkey-server on PATH. The server
// ends with this object, and the kernel kills it when this process dies, however it dies. What
// goes wrong ends the process with a message, since no test can go on without its server.
//
// Thread-safe. It belongs to the process that started it; a forked child leaves it alone.
class RedisServer {
 public:
  // The user of Command() and of replicas, who may do everything, whatever ACL a test sets up. Any
  // password will do.
  static constexpr char kOwnUser[] = "redlatch-test";
  static constexpr char kOwnPassword[] = "none";

  // Returns when the server answers PING.
  static std::unique_ptr<RedisServer> Start(RedisServerOptions options = {});

  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  int port() const;  // 0 without tcp
  const std::string& socket_path() const;
  const std::string& directory() const;
  // "redis://127.0.0.1:port" and "unix:///path", neither with user or password.
  std::string url() const;
  std::string unix_url() const;

  int tls_port() const;  // 0 without tls
  // "rediss://127.0.0.1:port?ca=/path", of a server with tls.
  std::string tls_url() const;

  // The process; -1 where none runs.
  pid_t pid() const;

  // SIGKILL. Returns when the process is gone and reaped.
  void Kill();
  // SIGTERM: an orderly end. Returns when the process is gone and reaped.
  void Shutdown();
  // Ends the process if it runs, and starts it again with the same port, socket and directory.
  void Restart();
  // SIGSTOP and SIGCONT. Stop() returns when the process has stopped. The kernel goes on accepting
  // connections and bytes for a stopped server.
  void Stop();
  void Continue();

  // Runs a command on a plain blocking connection of its own, as a user who may do everything.
  // A broken connection is an error reply, "ERR connection: ..."; the next call makes a new one.
  redis::Reply Command(const std::vector<std::string>& args);

  // Command(), where an error ends the process.
  redis::Reply Do(const std::vector<std::string>& args);
  // Command(), where the reply is a string, a status or an integer, as text. An error's text too.
  std::string Text(const std::vector<std::string>& args);
  // Command(), where the reply is an integer; anything else ends the process.
  int64_t Integer(const std::vector<std::string>& args);

  // All keys but those by which clients tell people who they are.
  std::vector<std::string> LockKeys();

  // One line of INFO; empty where there is none. `Info("connected_clients")`
  std::string Info(std::string_view field);
  // Waits until a line of INFO has this value; false where it never has.
  // `replica->AwaitInfo("master_link_status", "up")`
  bool AwaitInfo(std::string_view field, std::string_view value,
                 absl::Duration timeout = absl::Seconds(10));

  // How often these commands have run since the start or CONFIG RESETSTAT: `Calls({"eval"})`
  int64_t Calls(const std::vector<std::string>& commands);

  // What clients call its version: Valkey calls itself a Redis too, of an old one.
  std::string Version();

  // What the server has written to its log so far.
  std::string Log() const;

 private:
  class Process;     // the running program, its directory and port
  class Connection;  // for Command()

  explicit RedisServer(RedisServerOptions options);

  std::unique_ptr<Process> process_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_REDIS_SERVER_H_
