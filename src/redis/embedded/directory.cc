#include "src/redis/embedded/directory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace redlatch::redis {
namespace {

constexpr std::string_view kElse = ", or choose another directory with embedded:/dir";

absl::Status CheckDirectory(const std::string& path, const struct stat& file) {
  if (S_ISLNK(file.st_mode) || !S_ISDIR(file.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "embedded: '", path, "' is ", S_ISLNK(file.st_mode) ? "a symbolic link" : "a file",
        ", not a directory; remove it", std::string(kElse)));
  }
  if (file.st_uid != geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat("embedded: '", path, "' belongs to user ", file.st_uid, ", not to user ",
                     geteuid(), "; let its owner remove it", std::string(kElse)));
  }
  if ((file.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "embedded: '%s' has mode %04o, so others may enter it; run `chmod 700 '%s'`%s", path,
        file.st_mode & 07777, path, std::string(kElse)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ErrnoStatus(std::string_view what, const std::string& path, int error) {
  const std::string message =
      absl::StrCat("embedded: cannot ", std::string(what), " '", path, "': ", std::strerror(error));
  if (error == EACCES || error == EPERM || error == EROFS) {
    return absl::PermissionDeniedError(message);
  }
  return absl::UnavailableError(message);
}

bool TmpIsPrivate(std::string_view mountinfo) {
  bool is_private = false;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(mountinfo.data(), mountinfo.size()), '\n')) {
    // "<id> <parent> <device> <what of its file system> <where> ...": what comes last lies on top.
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 5));
    if (words.size() < 5 || words[4] != "/tmp") continue;
    is_private = words[3].find("/systemd-private-") != absl::string_view::npos;
  }
  return is_private;
}

absl::StatusOr<std::string> DefaultEmbeddedDirectory() {
  const char* named = secure_getenv("REDLATCH_EMBEDDED_DIRECTORY");
  if (named != nullptr && *named != '\0') return std::string(named);
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
  // With a slash at its end a symbolic link would pass for what it points to.
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
  struct stat file;
  if (lstat(path.c_str(), &file) == 0) {
    if (absl::Status fit = CheckDirectory(path, file); !fit.ok()) return fit;
    return path;
  }
  if (errno != ENOENT) return ErrnoStatus("look at", path, errno);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    if (errno != ENOENT) return ErrnoStatus("make the directory", path, errno);
    return absl::FailedPreconditionError(absl::StrCat(
        "embedded: '", path, "' cannot be created, because its parent directory does not exist"));
  }
  if (lstat(path.c_str(), &file) != 0) return ErrnoStatus("look at", path, errno);
  if (absl::Status fit = CheckDirectory(path, file); !fit.ok()) return fit;
  return path;
}

}  // namespace redlatch::redis
