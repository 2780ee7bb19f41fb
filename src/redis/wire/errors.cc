#include "src/redis/wire/errors.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/base/status.h"
#include "src/base/utf8.h"

namespace redlatch::redis {
namespace {

constexpr char kMayHaveExecuted[] = "redlatch.may_have_executed";
constexpr char kNotSent[] = "redlatch.not_sent";
constexpr char kRedirect[] = "redlatch.redirect";

constexpr std::string_view kGrant =
    "grant it with ACL SETUSER: locks need +eval +evalsha +script, and the commands, key patterns "
    "and channel pattern that docs/operations.md lists";
constexpr std::string_view kGrantKeys =
    "grant the key patterns of locks with ACL SETUSER; docs/operations.md lists them";
constexpr std::string_view kGrantChannels =
    "grant the channels of locks: ACL SETUSER <user> &redlatch:* (and, for "
    "Redisson's locks, &redisson_*)";
constexpr std::string_view kOfCluster =
    "it is one node of a cluster; begin the URL with redis-cluster://";
constexpr std::string_view kRenamed =
    "locks need the command under this name; remove its rename-command line from the server's "
    "configuration";

constexpr std::string_view kNotInScripts =
    "locks are scripts that need this command; use another server, or a service that permits it: "
    "redlatch doctor names what is refused";

struct Known {
  std::string_view words;
  ErrorCode code;
  absl::StatusCode status;
  std::string_view fix;
  bool ours = false;  // from a script of ours, whose message needs no addition
};

using enum ErrorCode;
using enum absl::StatusCode;

constexpr Known kKnown[] = {
    {"NOSCRIPT", kNoScript, kNotFound, ""},
    {"LOADING", kLoading, kUnavailable, "it is loading its data; try again when it is done"},
    {"BUSY", kBusy, kUnavailable,
     "another client's script has been running for too long; SCRIPT KILL ends it"},
    {"READONLY", kReadOnly, kUnavailable, "it is a replica; connect to the primary"},
    // A blocked WAIT gets this.
    {"UNBLOCKED", kReadOnly, kUnavailable, "it has become a replica; connect to the primary"},
    {"MASTERDOWN", kMasterDown, kUnavailable,
     "it is a replica that lost its primary; connect to the primary"},
    {"MISCONF Errors writing to the AOF file:", kOther, kUnavailable,
     "it cannot write its append-only file and therefore accepts no writes; make room on its disk, "
     "see its log, or use CONFIG SET appendonly no"},
    {"MISCONF", kOther, kUnavailable,
     "it cannot save its data and therefore accepts no writes; see its log, or use CONFIG SET "
     "stop-writes-on-bgsave-error no"},
    {"NOREPLICAS", kNoReplicas, kUnavailable,
     "fewer replicas are in sync than min-replicas-to-write requires"},
    {"OOM", kOutOfMemory, kResourceExhausted, "raise maxmemory, or remove data"},
    {"NOAUTH", kNoAuth, kPermissionDenied, "put the password into the URL: redis://:password@host"},
    {"WRONGPASS", kWrongPass, kPermissionDenied, "check the user and password in the URL"},
    {"NOPERM", kNoPermission, kPermissionDenied, kGrant},
    // These two come if a script calls a command that its user may not run.
    {"ERR The user executing the script can't", kNoPermission, kPermissionDenied, kGrant},
    {"ERR ACL failure in script:", kNoPermission, kPermissionDenied, kGrant},  // Redis 7.2, Valkey
    {"WRONGTYPE", kWrongType, kFailedPrecondition,
     "the key holds something other than this kind of lock; choose another name"},
    {"REFUSED", kOther, kFailedPrecondition, "", true},
    {"GONE", kOther, kAborted, "", true},
    {"MOVED", kMoved, kFailedPrecondition, kOfCluster},
    {"ASK", kAsk, kFailedPrecondition, kOfCluster},
    {"TRYAGAIN", kTryAgain, kUnavailable, "its slots are moving"},
    {"CLUSTERDOWN", kClusterDown, kUnavailable, "its cluster is down"},
    {"ERR Script attempted to access a non local key", kStoppedMidway, kUnavailable,
     "its slot moves, and the script may have stopped half-way"},
    {"ERR Attempted to access a non local key", kStoppedMidway,  // Valkey 9
     kUnavailable, "its slot moves, and the script may have stopped half-way"},
    {"ERR max number of clients", kTooManyClients, kUnavailable,
     "raise maxclients, or close connections that are not needed"},
    {"ERR unknown command", kUnknownCommand, kFailedPrecondition, kRenamed},
    {"ERR This instance has cluster support disabled", kOther, kFailedPrecondition,
     "it is no node of a cluster; begin the URL with redis://"},
    {"ERR DB index is out of range", kOther, kFailedPrecondition,
     "it has fewer databases; choose a smaller number at the end of the URL, or raise databases in "
     "the server's configuration"},
    {"ERR Could not find scripting engine", kOther, kFailedPrecondition,
     "it has no Lua; load its module: a line \"loadmodule /path/to/libvalkeylua.so\" in the "
     "server's configuration"},
    {"ERR This instance has Lua scripting support disabled", kOther, kFailedPrecondition,
     "every lock is a script; start Garnet with --lua"},
    {"ERR This Redis command is not allowed from script", kOther, kFailedPrecondition,
     kNotInScripts},
    {"ERR This Valkey command is not allowed from script", kOther, kFailedPrecondition,
     kNotInScripts},
    {"ERR Unknown Redis command called from script", kUnknownCommand, kFailedPrecondition,
     kRenamed},
    {"ERR Unknown command called from script", kUnknownCommand, kFailedPrecondition, kRenamed},
};

// Cuts the place that a server adds to an error of a script: " script: <SHA-1>, on
// @user_script:<line>." Valkey 9 leaves the SHA-1 out.
std::string_view WithoutPlace(std::string_view text) {
  const size_t place = text.rfind(" script: ");
  const bool added = place != std::string_view::npos && text.ends_with('.') &&
                     text.find("on @user_script:", place) != std::string_view::npos;
  return added ? text.substr(0, place) : text;
}

const Known* Find(std::string_view text) {
  for (const Known& known : kKnown) {
    const size_t end = known.words.size();
    const bool ends_there = text.size() == end || (text.size() > end && text[end] == ' ');
    if (ends_there && text.starts_with(known.words)) return &known;
  }
  return nullptr;
}

}  // namespace

std::string_view WithoutArguments(std::string_view error_text) {
  return error_text.substr(0, error_text.find(", with args"));
}

ErrorCode ClassifyError(std::string_view error_text) {
  const Known* known = Find(error_text);
  return known == nullptr ? kOther : known->code;
}

bool IsTransient(ErrorCode code) {
  return IsReplicas(code) || code == kLoading || code == kBusy || code == kTryAgain ||
         code == kClusterDown || code == kTooManyClients;
}

bool IsReplicas(ErrorCode code) { return code == kReadOnly || code == kMasterDown; }

// "... to access one of the keys ...", "... can't access at least one of the keys ...", "No
// permissions to access a key".
bool DeniesKey(std::string_view error_text) {
  const std::string_view said = error_text.substr(0, error_text.find(" ("));  // without our advice
  const size_t access = said.find(" access ");
  return access != std::string_view::npos &&
         said.substr(access).find(" key") != std::string_view::npos;
}

absl::Status ErrorStatus(std::string_view reply, std::string_view server) {
  constexpr size_t kLongest = 10'000;  // our scripts' messages may name a key
  constexpr size_t kEnough = 500;
  const std::string shown = base::Shown(WithoutPlace(reply), kLongest);
  const std::string_view error_text = shown;
  const Known* known = Find(error_text);
  if (known != nullptr && known->ours) {
    return absl::Status(
        known->status,
        std::string(error_text.substr(std::min(error_text.size(), known->words.size() + 1))));
  }
  std::string message(server);
  // Redis explains HELLO's options at length; users need only the fact, and our advice.
  const bool long_winded = known != nullptr && known->code == kNoAuth;
  const std::string_view said = error_text.substr(0, long_winded ? error_text.find(", ") : kEnough);
  message.append(" answered: ").append(base::Shown(said, kEnough));
  if (known == nullptr) return absl::Status(kInternal, message);
  std::string_view fix = known->fix;
  if (error_text.find("; use another name") != error_text.npos) fix = "";  // common/wrong_kind.lua
  if (known->code == kNoPermission) {
    if (error_text.find(" channel") != error_text.npos) fix = kGrantChannels;
    if (DeniesKey(error_text)) fix = kGrantKeys;
  }
  if (!fix.empty()) message.append(" (").append(fix).append(")");
  absl::Status status(known->status, message);
  if (known->code == kMoved || known->code == kAsk) {
    status.SetPayload(kRedirect, absl::Cord(std::string(error_text)));
  }
  // The script's changes before it came to the moved key stand.
  const bool midway = known->code == kStoppedMidway;
  return midway ? MarkMayHaveExecuted(std::move(status)) : status;
}

// "MOVED 3999 127.0.0.1:6381", "ASK 3999 ::1:6381", "MOVED 3999 :6381"
std::optional<Redirect> RedirectOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kRedirect);  // absl::optional or std::optional
  if (!payload.has_value()) return std::nullopt;
  const std::string text(*payload);
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  Redirect redirect{.once = words[0] == "ASK"};
  int slot = 0;
  int port = 0;
  if (words.size() < 3 || !absl::SimpleAtoi(words[1], &slot)) return std::nullopt;
  const size_t colon = words[2].rfind(':');
  if (colon == std::string::npos || !absl::SimpleAtoi(words[2].substr(colon + 1), &port)) {
    return std::nullopt;
  }
  if (slot < 0 || slot >= kSlots || port < 1 || port > 65535) return std::nullopt;
  redirect.slot = static_cast<Slot>(slot);
  redirect.host = words[2].substr(0, colon);
  if (redirect.host == "?") redirect.host.clear();
  if (redirect.host.find('\\') != std::string::npos) return std::nullopt;  // Shown() escaped a byte
  redirect.port = static_cast<uint16_t>(port);
  return redirect;
}

bool MayHaveExecuted(const absl::Status& status) {
  return status.GetPayload(kMayHaveExecuted).has_value();
}

absl::Status MarkMayHaveExecuted(absl::Status status) noexcept {
  base::WithMemory([&] { status.SetPayload(kMayHaveExecuted, absl::Cord("1")); });
  return status;
}

bool NotSent(const absl::Status& status) { return status.GetPayload(kNotSent).has_value(); }

bool RefusedForNow(const absl::Status& status) {
  return absl::IsUnavailable(status) && !MayHaveExecuted(status) && !NotSent(status);
}

absl::Status MarkNotSent(absl::Status status) noexcept {
  base::WithMemory([&] { status.SetPayload(kNotSent, absl::Cord("1")); });
  return status;
}

}  // namespace redlatch::redis
