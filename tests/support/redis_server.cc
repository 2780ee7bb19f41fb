#include "tests/support/redis_server.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "tests/support/await.h"
#include "tests/support/fatal.h"
#include "tests/support/raw_connection.h"
#include "tests/support/resources.h"
#include "tests/support/subprocess.h"

namespace redlatch::support {
namespace {

using redis::Reply;

constexpr auto& kUser = RedisServer::kOwnUser;
constexpr auto& kPassword = RedisServer::kOwnPassword;

constexpr absl::Duration kStartTimeout = absl::Seconds(20);
constexpr absl::Duration kCommandTimeout = absl::Seconds(30);
constexpr absl::Duration kPoll = absl::Milliseconds(2);
constexpr int kPortAttempts = 20;

std::string FindOnPath(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream directories(path == nullptr ? "" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    directory.append("/").append(program);
    if (access(directory.c_str(), X_OK) == 0) return directory;
  }
  return {};
}

std::string ServerProgram() {
  if (const char* chosen = std::getenv("REDLATCH_REDIS_SERVER"); chosen != nullptr && *chosen) {
    if (access(chosen, X_OK) != 0) {
      Fatal(std::string("$REDLATCH_REDIS_SERVER is no program: ") + chosen);
    }
    return chosen;
  }
  for (const char* name : {"redis-server", "valkey-server"}) {
    if (std::string found = FindOnPath(name); !found.empty()) return found;
  }
  Fatal(
      "neither redis-server nor valkey-server is on PATH. Install one (Debian: redis-server), or "
      "name one in $REDLATCH_REDIS_SERVER");
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Configuration(const RedisServerOptions& options, const std::string& directory,
                          const std::string& socket_path, int port, int tls_port) {
  std::ostringstream out;
  out << "dir " << directory << "\nunixsocket " << socket_path << "\nport " << port
      << "\nbind 127.0.0.1"
      << (options.ipv6  ? " ::1"
          : options.tls ? " -::1"
                        : "")
      // No snapshots, no delays, and DEBUG SLEEP works.
      << "\nsave \"\"\nrepl-diskless-sync-delay 0\nshutdown-timeout 0"
      << "\nenable-debug-command local\nappendfsync no\nappendonly "
      << (options.append_only ? "yes" : "no") << "\nuser " << kUser << " on nopass ~* &* +@all\n";
  for (const std::string& rule : options.acl) out << rule << "\n";
  if (!options.password.empty()) out << "requirepass \"" << options.password << "\"\n";
  if (options.replica_of != 0) {
    out << "replicaof 127.0.0.1 " << options.replica_of << "\nmasteruser " << kUser
        << "\nmasterauth " << kPassword << "\n";
  }
  if (options.tls) {
    out << "tls-port " << tls_port << "\ntls-cert-file " << options.tls->cert << "\ntls-key-file "
        << options.tls->cert << "\ntls-ca-cert-file " << options.tls->ca << "\ntls-auth-clients "
        << (options.tls->of_clients ? "yes" : "no") << "\n";
  }
  for (const std::string& line : options.config) out << line << "\n";
  return std::move(out).str();
}

}  // namespace

// One connection over the Unix socket, made when needed.
class RedisServer::Connection {
 public:
  explicit Connection(std::string socket_path) : socket_path_(std::move(socket_path)) {}

  Reply Call(const std::vector<std::string>& args) {
    base::MutexLock lock(mutex_);
    if (!connection_.has_value()) {
      connection_ = RawConnection::ToSocket(socket_path_, kCommandTimeout);
      if (Reply reply = connection_->Command({"AUTH", kUser, kPassword}); reply.is_error()) {
        connection_.reset();
        return reply;
      }
    }
    Reply reply = connection_->Command(args);
    if (connection_->broken()) connection_.reset();
    return reply;
  }

  void Close() {
    base::MutexLock lock(mutex_);
    connection_.reset();
  }

 private:
  const std::string socket_path_;
  base::Mutex mutex_;
  std::optional<RawConnection> connection_ ABSL_GUARDED_BY(mutex_);
};

class RedisServer::Process {
 public:
  explicit Process(RedisServerOptions options)
      : options_(std::move(options)), socket_path_(directory_.path() + "/redis.sock") {}

  int port() const { return port_.has_value() ? port_->number() : 0; }
  int tls_port() const { return tls_port_.has_value() ? tls_port_->number() : 0; }
  const RedisServerOptions& options() const { return options_; }
  const std::string& socket_path() const { return socket_path_; }
  const std::string& directory() const { return directory_.path(); }
  std::string Log() const { return ReadAll(LogPath()); }

  void StartFirst() {
    base::MutexLock lock(mutex_);
    for (int attempt = 1;; ++attempt) {
      if (options_.tcp) port_.emplace();
      if (options_.tls) tls_port_.emplace();
      std::ofstream(ConfigPath()) << Configuration(options_, directory(), socket_path_, port(),
                                                   tls_port());
      if (Launch()) return;
      const bool port_taken = Log().find("Failed listening on port") != std::string::npos;
      if (!port_taken || attempt == kPortAttempts) FailToStart();
    }
  }

  void Kill() {
    base::MutexLock lock(mutex_);
    child_->Kill();
  }

  void Restart() {
    base::MutexLock lock(mutex_);
    child_->Kill();
    if (!Launch()) FailToStart();
  }

  template <typename F>
  auto WithChild(F use) {
    base::MutexLock lock(mutex_);
    return use(*child_);
  }

 private:
  std::string ConfigPath() const { return directory() + "/redis.conf"; }
  std::string LogPath() const { return directory() + "/redis.log"; }

  // Returns false if the server ended before it answered.
  bool Launch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<std::string> command = {ServerProgram(), ConfigPath()};
    if (options_.sentinel) command.push_back("--sentinel");
    child_ = Child::Exec(command, {.environment = options_.environment, .output_path = LogPath()});
    const base::Instant deadline = base::Now() + kStartTimeout;
    Connection connection(socket_path_);
    while (connection.Call({"PING"}).text != "PONG") {
      if (child_->WaitFor(kPoll).has_value()) return false;
      if (base::Now() >= deadline) FailToStart();
    }
    return true;
  }

  [[noreturn]] void FailToStart() const {
    Fatal("redis-server does not start. Its log:\n" + Log() + "\nIts configuration:\n" +
          ReadAll(ConfigPath()));
  }

  const RedisServerOptions options_;
  const TempDir directory_;
  const std::string socket_path_;
  std::optional<ReservedPort> port_;  // StartFirst() sets it, and tls_port_
  std::optional<ReservedPort> tls_port_;
  base::Mutex mutex_;
  std::unique_ptr<Child> child_ ABSL_GUARDED_BY(mutex_);
};

RedisServer::RedisServer(RedisServerOptions options)
    : process_(std::make_unique<Process>(std::move(options))),
      connection_(std::make_unique<Connection>(process_->socket_path())) {
  process_->StartFirst();
}

RedisServer::~RedisServer() = default;

std::unique_ptr<RedisServer> RedisServer::Start(RedisServerOptions options) {
  return std::unique_ptr<RedisServer>(new RedisServer(std::move(options)));
}

int RedisServer::port() const { return process_->port(); }
const std::string& RedisServer::socket_path() const { return process_->socket_path(); }
const std::string& RedisServer::directory() const { return process_->directory(); }
std::string RedisServer::url() const { return "redis://127.0.0.1:" + std::to_string(port()); }
std::string RedisServer::unix_url() const { return "unix://" + socket_path(); }
int RedisServer::tls_port() const { return process_->tls_port(); }
std::string RedisServer::tls_url() const {
  return "rediss://127.0.0.1:" + std::to_string(tls_port()) +
         "?ca=" + process_->options().tls.value().ca;
}
std::string RedisServer::Log() const { return process_->Log(); }

pid_t RedisServer::pid() const {
  return process_->WithChild([](const Child& child) { return child.pid(); });
}

void RedisServer::Kill() {
  process_->Kill();
  connection_->Close();
}

void RedisServer::Restart() {
  process_->Restart();
  connection_->Close();
}

void RedisServer::Stop() {
  process_->WithChild([](Child& child) { child.Stop(); });
}
void RedisServer::Continue() {
  process_->WithChild([](Child& child) { child.Continue(); });
}

Reply RedisServer::Command(const std::vector<std::string>& args) { return connection_->Call(args); }

Reply RedisServer::Do(const std::vector<std::string>& args) {
  Reply reply = Command(args);
  if (reply.is_error()) Fatal(args.at(0) + ": " + reply.text);
  return reply;
}

std::string RedisServer::Text(const std::vector<std::string>& args) {
  const Reply reply = Command(args);
  return reply.type == Reply::Type::kInteger ? std::to_string(reply.integer) : reply.text;
}

int64_t RedisServer::Integer(const std::vector<std::string>& args) {
  const Reply reply = Command(args);
  if (reply.type != Reply::Type::kInteger) Fatal(args.at(0) + ": no integer: " + reply.text);
  return reply.integer;
}

int64_t RedisServer::KillClients() {
  return Integer({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}) +
         Integer({"CLIENT", "KILL", "TYPE", "pubsub"});
}

std::vector<std::string> RedisServer::LockKeys() {
  std::vector<std::string> keys;
  for (redis::Reply& key : Command({"KEYS", "*"}).elements) {
    if (!key.text.starts_with("redlatch:client:")) keys.push_back(std::move(key.text));
  }
  return keys;
}

std::string RedisServer::Info(std::string_view field) {
  const std::string info = "\n" + Text({"INFO", "everything"});
  const std::string wanted = "\n" + std::string(field) + ":";
  const size_t found = info.find(wanted);
  if (found == std::string::npos) return {};
  const size_t begin = found + wanted.size();
  return info.substr(begin, info.find_first_of("\r\n", begin) - begin);
}

int64_t RedisServer::Calls(const std::vector<std::string>& commands) {
  const std::string stats = Text({"INFO", "commandstats"});
  int64_t calls = 0;
  for (const std::string& each : commands) {
    const std::string line = "cmdstat_" + each + ":calls=";
    const size_t at = stats.find(line);
    if (at != std::string::npos) calls += std::stoll(stats.substr(at + line.size()));
  }
  return calls;
}

std::string RedisServer::Version() {
  const std::string valkey = Info("valkey_version");
  return valkey.empty() ? Info("redis_version") : valkey;
}

bool RedisServer::AwaitInfo(std::string_view field, std::string_view value,
                            absl::Duration timeout) {
  return Await([&] { return Info(field) == value; }, timeout);
}

}  // namespace redlatch::support
