#ifndef REDLATCH_TESTS_REDIS_REDIS_EMBEDDED_HOME_H_
#define REDLATCH_TESTS_REDIS_REDIS_EMBEDDED_HOME_H_

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "src/redis/embedded/embedded.h"
#include "tests/support/live_testing.h"

namespace redlatch::redis {

// Writes an executable script, which replaces redis-server or redis-cli.
inline void WriteScript(const std::string& path, const std::string& body) {
  std::ofstream(path) << "#!/bin/sh\n" << body;
  chmod(path.c_str(), 0700);
}

// Sets an environment variable, or removes it if the value is null, within a scope.
class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const char* value) : name_(name) {
    if (const char* before = getenv(name)) before_ = before;
    Set(value);
  }
  ~ScopedEnvironment() { Set(before_ ? before_->c_str() : nullptr); }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  void Set(const char* value) {
    value == nullptr ? unsetenv(name_) : setenv(name_, value, /*overwrite=*/1);
  }
  const char* name_;
  std::optional<std::string> before_;
};

// Sends SIGKILL to one process. For kill(2) a number below 1 means many processes, and a failed
// query of a server returns such a number, so it is refused here.
inline void Kill(pid_t pid) {
  ASSERT_GT(pid, 1);
  kill(pid, SIGKILL);
}

// The end of a process as an event. REQUIRES: the process lives.
class ProcessEnd {
 public:
  explicit ProcessEnd(pid_t pid) : fd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {}

  bool WaitFor(absl::Duration timeout) const {
    pollfd end = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
    return !fd_.valid() || poll(&end, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) == 1;
  }

 private:
  base::UniqueFd fd_;
};

// A directory for one embedded server, whose processes are ended with this object. They are known
// by their working directory.
class EmbeddedHome {
 public:
  struct Process {
    pid_t pid;
    std::string name;
  };

  ~EmbeddedHome() {
    // A keeper that ends, or a starting server, may add one more.
    for (std::vector<Process> left = Processes(); !left.empty(); left = Processes()) {
      for (const Process& process : left) {
        const ProcessEnd end(process.pid);
        Kill(process.pid);
        end.WaitFor(absl::Seconds(5));
      }
    }
  }

  const std::string& directory() const { return directory_; }
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  // A path beside the directory, for files of tests.
  std::string Aside(const std::string& name) const { return temp_.path() + "/" + name; }

  absl::StatusOr<std::string> Ensure(absl::Duration idle_stop = absl::Seconds(60),
                                     absl::Duration timeout = absl::Seconds(20)) const {
    return EnsureEmbeddedServer({.directory = directory_, .idle_stop = idle_stop},
                                base::Now() + timeout);
  }

  // Connects to the server, and starts it first if there is none.
  support::RawConnection Connect(absl::Duration idle_stop = absl::Seconds(60)) const {
    const absl::StatusOr<std::string> socket = Ensure(idle_stop);
    EXPECT_TRUE(socket.ok()) << socket.status();
    return support::RawConnection::ToSocket(Path("redis.sock"));
  }

  std::vector<Process> Processes() const {
    std::vector<Process> found;
    std::error_code error;
    // Reading an entry that changes meanwhile may fail; that must not throw.
    std::filesystem::directory_iterator entry("/proc", error);
    for (; entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      const std::filesystem::path path = entry->path();
      pid_t pid = 0;
      if (!absl::SimpleAtoi(path.filename().string(), &pid)) continue;
      const std::string cwd = std::filesystem::read_symlink(path / "cwd", error).string();
      if (error || (cwd != directory_ && cwd != directory_ + " (deleted)")) continue;
      std::string name = TextOf(path / "comm");
      if (!name.empty()) name.pop_back();
      found.push_back({pid, name});
    }
    return found;
  }

  std::vector<pid_t> Pids(const std::string& name) const {
    std::vector<pid_t> pids;
    for (const Process& process : Processes()) {
      if (process.name == name) pids.push_back(process.pid);
    }
    return pids;
  }

  // The process ids of its servers, Redis or Valkey.
  std::vector<pid_t> Servers() const {
    std::vector<pid_t> pids = Pids("redis-server");
    return pids.empty() ? Pids("valkey-server") : pids;
  }

  // Returns true if all processes of the server end in time.
  bool ProcessesEnd(absl::Duration timeout = absl::Seconds(10)) const {
    return Await([this] { return Processes().empty(); }, timeout);
  }

 private:
  support::TempDir temp_;
  std::string directory_ = temp_.path() + "/home";
};

// A number from INFO; -1 if the server does not answer.
inline int InfoNumber(support::RawConnection& connection, const std::string& field) {
  const std::string info = connection.Command({"INFO", "everything"}).text;
  const size_t at = info.find("\n" + field + ":");
  return at == std::string::npos ? -1 : atoi(info.c_str() + at + field.size() + 2);
}

// Returns 0 and fails the test if the server does not answer.
inline pid_t ServerPid(support::RawConnection& connection) {
  const int pid = InfoNumber(connection, "process_id");
  EXPECT_GT(pid, 0) << "the server does not answer";
  return pid > 0 ? pid : 0;
}

}  // namespace redlatch::redis

#endif  // REDLATCH_TESTS_REDIS_REDIS_EMBEDDED_HOME_H_
