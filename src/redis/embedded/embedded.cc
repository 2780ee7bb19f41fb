#include "src/redis/embedded/embedded.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "src/base/random.h"
#include "src/base/unique_fd.h"
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

// The files of one server.
struct Place {
  explicit Place(std::string where) : directory(std::move(where)) {}
  std::string directory;
  std::string socket = directory + "/redis.sock";
  std::string lock = directory + "/lock";  // held while a process checks for a server and starts it
  std::string alive = directory + "/alive";  // a FIFO: see SpawnKeptServer()
  std::string log = directory + "/log";
};

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

// Runs a shell until it ends. Its descriptor 3 is the FIFO `alive`. Returns an errno if it cannot
// be started.
//
// posix_spawn, never fork: the calling process may have threads, so hardly any function would be
// safe to call between fork and exec.
int RunShell(const std::string& alive, std::vector<std::string> arguments) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  sigdelset(&all, SIGKILL);
  sigdelset(&all, SIGSTOP);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (const int error = posix_spawn_file_actions_init(&actions)) return error;
  const absl::Cleanup free_actions = [&] { posix_spawn_file_actions_destroy(&actions); };
  if (const int error = posix_spawnattr_init(&attributes)) return error;
  const absl::Cleanup free_attributes = [&] { posix_spawnattr_destroy(&attributes); };
  for (const int error : {
           posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0),
           posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0),
           posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0),
           // Opens the FIFO before the other descriptors, including the caller's lock, are closed.
           // So even if this process is killed now, the lock or the FIFO shows at every moment that
           // a server is about to start.
           posix_spawn_file_actions_addopen(&actions, 3, alive.c_str(), O_RDONLY | O_NONBLOCK, 0),
           AddCloseFrom(&actions, 4),
           posix_spawnattr_setsigmask(&attributes, &none),
           posix_spawnattr_setsigdefault(&attributes, &all),
           posix_spawnattr_setflags(
               &attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF),
       }) {
    if (error != 0) return error;
  }
  std::vector<std::string> environment = KeeperEnvironment();
  pid_t pid = -1;
  const int error = posix_spawn(&pid, "/bin/sh", &actions, &attributes, Pointers(arguments).data(),
                                Pointers(environment).data());
  // It may already have been reaped by a handler of the application, or by the kernel if SIGCHLD is
  // ignored.
  if (error == 0) base::Uninterrupted([pid] { return waitpid(pid, nullptr, 0); });
  return error;
}

// Returns a status for a failed system call: "embedded: cannot <what> '<path>': <why>".
absl::Status ErrnoStatus(const char* what, const std::string& path, int error) {
  const std::string message =
      absl::StrCat("embedded: cannot ", what, " '", path, "': ", std::strerror(error));
  if (error == EACCES || error == EPERM || error == EROFS) {
    return absl::PermissionDeniedError(message);
  }
  return absl::UnavailableError(message);
}

// Starts keeper and server in a session of their own. They inherit nothing but a few environment
// variables: no descriptor, no signal mask, no working directory. Returns as soon as the shell has
// started them.
//
// Only the new processes open the FIFO for reading. That happens before this returns, and the
// descriptor is closed when the server ends. So the FIFO has a reader exactly while there is a
// server, and the kernel ensures this even if a process is killed.
//
// REQUIRES: the caller holds the lock of this place.
absl::Status SpawnKeptServer(const Place& place, const ServerPrograms& programs,
                             absl::Duration idle_stop) {
  const absl::Duration interval =
      std::clamp(idle_stop / 2, absl::Milliseconds(20), absl::Seconds(15));
  const std::string checks = absl::StrCat(absl::Ceil(idle_stop, interval) / interval);
  // Prints a whole number if possible: not every sleep(1) takes a fraction.
  const std::string seconds = absl::StrFormat("%g", absl::ToDoubleSeconds(interval));
  // The shell puts the keeper into the background and ends.
  const int error =
      RunShell(place.alive, {"sh", "-c", kKeeperScript, "redlatch-keeper", place.directory,
                             programs.server, programs.client, seconds, checks, kCensusScript});
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("embedded: cannot start a shell: ", std::strerror(error)));
}

constexpr char kElse[] = ", or choose another directory with embedded:/dir";

absl::Status CheckDirectory(const std::string& path, const struct stat& file) {
  if (S_ISLNK(file.st_mode) || !S_ISDIR(file.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "embedded: '", path, "' is ", S_ISLNK(file.st_mode) ? "a symbolic link" : "a file",
        ", not a directory; remove it", kElse));
  }
  if (file.st_uid != geteuid()) {
    return absl::PermissionDeniedError(absl::StrCat("embedded: '", path, "' belongs to user ",
                                                    file.st_uid, ", not to user ", geteuid(),
                                                    "; let its owner remove it", kElse));
  }
  if ((file.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "embedded: '%s' has mode %04o, so others may enter it; run `chmod 700 '%s'`%s", path,
        file.st_mode & 07777, path, kElse));
  }
  return absl::OkStatus();
}

// True if a server listens at the socket, even if its queue is full.
absl::StatusOr<bool> Listens(const std::string& socket_path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  socket_path.copy(address.sun_path, sizeof address.sun_path - 1);
  const base::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus("make a socket for", socket_path, errno);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return true;
  }
  if (errno == EAGAIN || errno == EINPROGRESS || errno == EINTR) return true;
  if (errno == ENOENT || errno == ECONNREFUSED) return false;
  return ErrnoStatus("connect to", socket_path, errno);
}

// True if a server, or the keeper that is about to start one, holds the FIFO open.
absl::StatusOr<bool> IsAlive(const std::string& fifo) {
  if (mkfifo(fifo.c_str(), 0600) != 0 && errno != EEXIST) {
    return ErrnoStatus("make the FIFO", fifo, errno);
  }
  const base::UniqueFd fd(base::Uninterrupted([&] {
    return open(fifo.c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  }));  // ENXIO: no reader
  if (!fd.valid() && errno != ENXIO) return ErrnoStatus("open the FIFO", fifo, errno);
  struct stat file;
  if (lstat(fifo.c_str(), &file) == 0 && !S_ISFIFO(file.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("embedded: '", fifo, "' is not a FIFO; remove it"));
  }
  return fd.valid();
}

std::string EndOfLog(const std::string& path) {
  constexpr std::streamoff kMost = 1000;
  std::ifstream file(path, std::ios::ate);
  if (!file) return absl::StrCat("'", path, "' is missing");
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(size - kMost, 0));
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (size > kMost) text.erase(0, text.find('\n') + 1);
  absl::StripTrailingAsciiWhitespace(&text);
  return absl::StrCat("'", path, text.empty() ? "' is empty" : "' ends:\n", text);
}

// Starts a server if there is none. False: another process has started one, or is about to.
absl::StatusOr<bool> StartIfNone(const Place& place, absl::Duration idle_stop, bool last_chance) {
  const base::UniqueFd lock(base::Uninterrupted(
      [&] { return open(place.lock.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600); }));
  if (!lock.valid()) return ErrnoStatus("open", place.lock, errno);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK || errno == EINTR) return false;
    return ErrnoStatus("lock", place.lock, errno);
  }
  // Closing the descriptor is not enough if another thread forked meanwhile, and the child has a
  // copy.
  const absl::Cleanup unlock = [&] { flock(lock.get(), LOCK_UN); };
  const absl::StatusOr<bool> alive = IsAlive(place.alive);
  if (!alive.ok()) return alive.status();
  if (*alive) return false;
  if (last_chance) {
    return absl::UnavailableError(
        absl::StrCat("embedded: the server exited while starting: ", EndOfLog(place.log)));
  }
  const absl::StatusOr<ServerPrograms> programs = FindServerPrograms();
  if (!programs.ok()) return programs.status();
  const absl::Status spawned = SpawnKeptServer(place, *programs, idle_stop);
  if (!spawned.ok()) return spawned;
  return true;
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

bool TmpIsPrivate(const std::string& mountinfo) {
  bool is_private = false;
  for (const absl::string_view line : absl::StrSplit(mountinfo, '\n')) {
    // "<id> <parent> <device> <root> <mount point> ...": the last line for a mount point counts.
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 5));
    if (words.size() < 5 || words[4] != "/tmp") continue;
    is_private = words[3].find("/systemd-private-") != absl::string_view::npos;
  }
  return is_private;
}

absl::StatusOr<std::string> DefaultEmbeddedDirectory() {
  std::string named = Environment("REDLATCH_EMBEDDED_DIRECTORY");
  if (!named.empty()) return named;
  std::ifstream mountinfo("/proc/self/mountinfo");
  if (TmpIsPrivate(std::string(std::istreambuf_iterator<char>(mountinfo), {}))) {
    return absl::FailedPreconditionError(
        "embedded: /tmp is private to this service (PrivateTmp=), so locks there would exclude no "
        "other process; name a shared directory with embedded:/dir or REDLATCH_EMBEDDED_DIRECTORY");
  }
  return absl::StrCat("/tmp/redlatch-", geteuid());
}

absl::StatusOr<std::string> EmbeddedDirectory(std::string_view directory) {
  absl::StatusOr<std::string> named =
      directory.empty() ? DefaultEmbeddedDirectory() : std::string(directory);
  if (!named.ok()) return named.status();
  std::string path = std::filesystem::path(*named).lexically_normal().string();
  // With a slash at its end, lstat() would follow a symbolic link.
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (path.empty() || path[0] != '/' || path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("embedded: the directory '", path,
                                                   "' must be an absolute path: embedded:/dir"));
  }
  const size_t longest = sizeof(sockaddr_un::sun_path) - 1;
  if (const size_t length = path.size() + std::strlen("/redis.sock"); length > longest) {
    return absl::InvalidArgumentError(absl::StrCat(
        "embedded: the socket in '", path, "' would have a path of ", length, " bytes, and ",
        longest, " is the maximum; choose a shorter directory with embedded:/dir"));
  }
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    if (errno != ENOENT) return ErrnoStatus("make the directory", path, errno);
    return absl::FailedPreconditionError(absl::StrCat(
        "embedded: '", path, "' cannot be created, because its parent directory does not exist"));
  }
  struct stat file;
  if (lstat(path.c_str(), &file) != 0) return ErrnoStatus("look at", path, errno);
  if (absl::Status fit = CheckDirectory(path, file); !fit.ok()) return fit;
  return path;
}

absl::StatusOr<std::optional<std::string>> FindEmbeddedServer(std::string_view directory) {
  absl::StatusOr<std::string> path = EmbeddedDirectory(directory);
  if (!path.ok()) return path.status();
  Place place(*std::move(path));
  const absl::StatusOr<bool> listens = Listens(place.socket);
  if (!listens.ok()) return listens.status();
  if (!*listens) return std::nullopt;
  return std::move(place.socket);
}

absl::StatusOr<std::string> EnsureEmbeddedServer(const EmbeddedOptions& options,
                                                 base::Instant deadline) {
  // A server that ends while it starts is started once more: the saved data of an older server may
  // have stopped the first one, and the second starts without it.
  constexpr int kStarts = 2;
  absl::StatusOr<std::string> directory = EmbeddedDirectory(options.directory);
  if (!directory.ok()) return directory.status();
  const Place place(*std::move(directory));
  // This polls, since the server may belong to another process, and a start takes only a few
  // rounds.
  base::Backoff nap(absl::Milliseconds(2), absl::Milliseconds(20));
  for (int starts = 0;;) {
    const absl::StatusOr<bool> listens = Listens(place.socket);
    if (!listens.ok()) return listens.status();
    if (*listens) return place.socket;
    const absl::StatusOr<bool> started =
        StartIfNone(place, options.idle_stop, /*last_chance=*/starts >= kStarts);
    if (!started.ok()) return started.status();
    if (*started) ++starts;
    const absl::Duration left = base::Until(deadline);
    if (left <= absl::ZeroDuration()) {
      return absl::UnavailableError(absl::StrCat(
          "embedded: the server in '", place.directory,
          "' is not up in time; it is still starting or stopping; ", EndOfLog(place.log)));
    }
    absl::SleepFor(std::min(nap.Next(), left));
  }
}

}  // namespace redlatch::redis
