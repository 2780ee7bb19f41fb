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

// The TLS port of a server, beside its plain port.
struct ServerTls {
  std::string cert;  // a file with the certificate and its key
  std::string ca;    // a file with the authority of the server's and the clients' certificates
  bool of_clients = false;  // each client must have a certificate
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
  // ACL rules as in an ACL file: "user alice on >secret ~* &* +@all". The user `default` may do
  // everything, unless a rule says otherwise.
  std::vector<std::string> acl = {};
  // Run as a sentinel. `config` or later commands say which primaries it watches.
  bool sentinel = false;
  // Replicate the server, or its proxy, at this port of 127.0.0.1. 0: it is a primary.
  int replica_of = 0;
  // More lines of redis.conf: "maxmemory 10mb".
  std::vector<std::string> config = {};
  // More variables of its environment: "NAME=value".
  std::vector<std::string> environment = {};
};

// A real redis-server for one test, with its own directory, port and Unix socket.
//
// The program is $REDLATCH_REDIS_SERVER, else redis-server, else valkey-server on PATH. The server
// ends with this object, and the kernel kills it when this process dies, however it dies. If
// something goes wrong, the process ends with a message, since no test can go on without its
// server.
//
// Thread-safe. It belongs to the process that started it; a forked child leaves it alone.
class RedisServer {
 public:
  // The user of Command() and of replicas. It may do everything, whatever ACL rules a test sets,
  // and any password is right.
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

  // The process; -1 if it is not running.
  pid_t pid() const;

  // SIGKILL. Returns when the process is gone and reaped.
  void Kill();
  // Ends the process if it runs, and starts it again with the same port, socket and directory.
  void Restart();
  // SIGSTOP and SIGCONT. Stop() returns when the process has stopped. The kernel goes on accepting
  // connections and bytes for a stopped server.
  void Stop();
  void Continue();

  // Runs a command on the object's own plain connection, as a user that may do everything. If the
  // connection is broken, it returns an error reply, "ERR connection: ..."; the next call makes a
  // new connection.
  redis::Reply Command(const std::vector<std::string>& args);

  // Like Command(), but an error reply ends the process.
  redis::Reply Do(const std::vector<std::string>& args);
  // Like Command(), but returns the text of a string, a status, an integer or an error.
  std::string Text(const std::vector<std::string>& args);
  // Like Command(), but returns an integer; any other reply ends the process.
  int64_t Integer(const std::vector<std::string>& args);
  // Ends all other connections; returns how many there were.
  int64_t KillClients();

  // All keys except the descriptions of clients.
  std::vector<std::string> LockKeys();

  // The value of one line of INFO; empty if there is no such line. `Info("connected_clients")`
  std::string Info(std::string_view field);
  // Waits until a line of INFO has this value. Returns false if it does not within `timeout`.
  // `replica->AwaitInfo("master_link_status", "up")`
  bool AwaitInfo(std::string_view field, std::string_view value,
                 absl::Duration timeout = absl::Seconds(10));

  // How often these commands have run since the start or CONFIG RESETSTAT: `Calls({"eval"})`
  int64_t Calls(const std::vector<std::string>& commands);

  // The version of Valkey or Redis. (Valkey also reports an old redis_version.)
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
