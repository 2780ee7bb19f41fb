#include "src/redis/embedded/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "src/base/uninterrupted.h"
#include "src/redis/embedded/keeper_scripts.h"

namespace redlatch::redis {
namespace {

bool IsProgram(const std::string& path) {
  struct stat file;
  return stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode) && access(path.c_str(), X_OK) == 0;
}

// The environment is not trusted if this process has more rights than its caller.
std::string Environment(const char* name) {
  const char* value = secure_getenv(name);
  return value == nullptr ? "" : value;
}

// Finds the first of `names` that is a program in one of the directories, or else in those of PATH.
std::string FindProgram(std::vector<std::string> directories,
                        const std::vector<std::string_view>& names) {
  std::string path = Environment("PATH");
  if (path.empty()) path = "/usr/local/bin:/usr/bin:/bin";
  for (const absl::string_view directory : absl::StrSplit(path, ':')) {
    if (!directory.empty() && directory[0] == '/') directories.emplace_back(directory);
  }
  for (std::string_view name : names) {
    for (const std::string& directory : directories) {
      std::string candidate = absl::StrCat(directory, "/", std::string(name));
      if (IsProgram(candidate)) return candidate;
    }
  }
  return "";
}

// The server's environment. The server outlives this process and serves others: it must not get our
// secrets, nor redis-cli a password for another server.
std::vector<std::string> KeeperEnvironment() {
  std::vector<std::string> environment;
  for (const char* name : {"PATH", "HOME", "LD_LIBRARY_PATH", "TZ"}) {
    const std::string value = Environment(name);
    if (!value.empty()) environment.push_back(absl::StrCat(name, "=", value));
  }
  return environment;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& s : strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Closes all descriptors from `first` on in the child.
int AddCloseFrom(posix_spawn_file_actions_t* actions, int first) {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 34)
  return posix_spawn_file_actions_addclosefrom_np(actions, first);
#else
  // This may miss a descriptor that another thread opens just now without O_CLOEXEC.
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const int fd = atoi(entry.path().filename().c_str());
    if (fd < first) continue;
    if (const int error = posix_spawn_file_actions_addclose(actions, fd)) return error;
  }
  return 0;
#endif
}

// posix_spawn, never fork: the calling process may have threads, so hardly any function would be
// safe to call between fork and exec.
int SpawnShell(const std::string& alive, char* const* argv, char* const* envp, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  sigdelset(&all, SIGKILL);
  sigdelset(&all, SIGSTOP);
  if (const int error = posix_spawn_file_actions_init(&actions)) return error;
  if (const int error = posix_spawnattr_init(&attributes)) {
    posix_spawn_file_actions_destroy(&actions);
    return error;
  }
  int error = 0;
  const auto then = [&error](int result) { error = error != 0 ? error : result; };
  then(posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0));
  then(posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0));
  then(posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0));
  // Opens the FIFO before the other descriptors, including the caller's lock, are closed. So even
  // if this process is killed now, the lock or the FIFO shows at every moment that a server is
  // about to start.
  then(posix_spawn_file_actions_addopen(&actions, 3, alive.c_str(), O_RDONLY | O_NONBLOCK, 0));
  then(AddCloseFrom(&actions, 4));
  then(posix_spawnattr_setsigmask(&attributes, &none));
  then(posix_spawnattr_setsigdefault(&attributes, &all));
  then(posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  then(error != 0 ? error : posix_spawn(pid, "/bin/sh", &actions, &attributes, argv, envp));
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

absl::StatusOr<ServerPrograms> FindServerPrograms() {
  ServerPrograms programs;
  const std::string named = Environment("REDLATCH_REDIS_SERVER");
  if (named.find('/') != std::string::npos) {
    if (IsProgram(named)) programs.server = std::filesystem::absolute(named).string();
  } else if (!named.empty()) {
    programs.server = FindProgram({}, {named});
  } else {
    programs.server = FindProgram({}, {"redis-server", "valkey-server"});
  }
  if (programs.server.empty() && !named.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "embedded: REDLATCH_REDIS_SERVER names '", named,
        "', which is not a program; set it to a redis-server 7.0 or later, or unset it"));
  }
  if (programs.server.empty()) {
    return absl::FailedPreconditionError(
        "embedded: there is no redis-server on the PATH; install one (`apt-get install "
        "redis-server`), name one in REDLATCH_REDIS_SERVER, or connect to a server by its URL");
  }
  const std::string beside = std::filesystem::path(programs.server).parent_path().string();
  programs.client = FindProgram({beside}, {"redis-cli", "valkey-cli"});
  return programs;
}

absl::Status SpawnKeptServer(const std::string& directory, const std::string& alive,
                             const ServerPrograms& programs, absl::Duration idle_stop) {
  const absl::Duration interval =
      std::clamp(idle_stop / 2, absl::Milliseconds(20), absl::Seconds(15));
  const bool stops = idle_stop != absl::InfiniteDuration() && !programs.client.empty();
  const double checks =
      stops ? std::max(1.0, std::ceil(absl::FDivDuration(idle_stop, interval))) : 0;
  // Prints a whole number if possible: not every sleep(1) takes a fraction.
  const std::string seconds = absl::StrFormat("%g", absl::ToDoubleSeconds(interval));

  std::vector<std::string> arguments = {"sh",
                                        "-c",
                                        std::string(kKeeperScript),
                                        "redlatch-keeper",
                                        directory,
                                        programs.server,
                                        programs.client,
                                        seconds,
                                        absl::StrFormat("%.0f", checks),
                                        std::string(kCensusScript)};
  std::vector<std::string> environment = KeeperEnvironment();
  pid_t pid = -1;
  const int error =
      SpawnShell(alive, Pointers(arguments).data(), Pointers(environment).data(), &pid);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("embedded: cannot start a shell: ", std::strerror(error)));
  }
  // The shell puts the keeper into the background and ends. It may already have been reaped by a
  // handler of the application, or by the kernel if SIGCHLD is ignored.
  base::Uninterrupted([pid] { return waitpid(pid, nullptr, 0); });
  return absl::OkStatus();
}

}  // namespace redlatch::redis
