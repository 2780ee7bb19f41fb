#include "src/base/error_address.h"

#include <new>

namespace redlatch::base {
namespace {

struct Known {
  std::string_view words;
  std::string_view anchor;
};

// The first row whose words are in a message decides. So causes come before what they lead to, and
// the words of one message before those that many share.
constexpr Known kKnown[] = {
    // A majority is lacking, whatever each server said.
    {"are needed: ", "no-quorum"},
    {"no server answered", "no-quorum"},
    {"started lately, and has no vote yet", "no-quorum"},
    {"messages of too few of", "no-quorum"},

    // Error replies of servers.
    {"NOAUTH", "noauth"},
    {"WRONGPASS", "noauth"},
    {"ERR AUTH", "noauth"},
    {"DENIED Redis is running in protected mode", "protected-mode"},
    {"NOPERM", "noperm"},
    {"ERR The user executing the script can't", "noperm"},
    {"ERR ACL failure in script", "noperm"},
    {"all that locks need (grant it", "noperm"},
    {"does not let this user run scripts", "noperm"},
    {"grant it: ACL SETUSER", "noperm"},
    {"WRONGTYPE", "wrongtype"},
    {"is in use for", "wrongtype"},
    {"CROSSSLOT", "crossslot"},
    {"braces that are no hash tag", "crossslot"},
    {"READONLY", "readonly"},
    {"UNBLOCKED", "readonly"},
    {"MASTERDOWN", "masterdown"},
    {"(connect to the primary)", "readonly"},
    {"LOADING", "loading"},
    {"BUSY ", "busy-script"},
    {"NOSCRIPT", "noscript"},
    {"does not know the script", "noscript"},
    {"NOREPLICAS", "noreplicas"},
    {"OOM ", "oom"},
    {"MISCONF", "misconf"},
    {"CLUSTERDOWN", "clusterdown"},
    {"MOVED ", "moved"},
    {"ASK ", "moved"},
    {"TRYAGAIN", "moved"},
    {"its slot ", "moved"},
    {"the slot of ", "moved"},
    {"a non local key", "moved"},
    {"max number of clients", "max-clients"},
    {"DB index is out of range", "url"},
    {"cluster support disabled", "cluster"},
    {"does not know WAITAOF", "acks"},
    {"not allowed from script", "unknown-command"},
    {"unknown command", "unknown-command"},
    {"Unknown Redis command", "unknown-command"},
    {"Unknown command", "unknown-command"},
    {"rename-command line", "unknown-command"},
    {"Could not find scripting engine", "no-lua"},
    {"Lua scripting support disabled", "no-lua"},

    // This process lacks something.
    {"a thread of the client cannot be started", "no-thread"},
    {"no file descriptor is left", "no-descriptors"},
    {"cannot create a process or a file descriptor", "no-descriptors"},
    {"no memory", "no-memory"},
    {"belong to the process that forked this one", "fork"},
    {"belongs to the process that forked this one", "fork"},

    // Connecting.
    {"server URL: ", "url"},
    {"the socket path", "url"},
    {"embedded: ", "embedded"},
    {"your private server", "embedded"},
    {"certificate", "tls"},
    {"TLS", "tls"},
    {"is not verified (tls=insecure)", "tls"},
    {"maxmemory-policy", "eviction"},
    {"its memory policy was not checked", "eviction"},
    {"?eviction=allow", "eviction"},
    {"does not accept a client name", "client-name"},
    {"quarantine", "quarantine"},
    {"an imitation such as", "old-server"},
    {"redlatch needs 7.0 or later", "old-server"},
    {"does not tell its version", "old-server"},
    {"does not speak RESP 3", "old-server"},
    {"leads to two primaries", "two-primaries"},
    {"cannot find the host", "host-name"},
    {"the name server has not answered", "host-name"},
    {"is a sentinel (begin", "sentinel"},
    {"is no sentinel", "sentinel"},
    {"the sentinel at", "sentinel"},
    {"cannot find the primary of", "sentinel"},
    {"the primary of", "sentinel"},
    {"node of a cluster", "cluster"},
    {"no node of", "cluster"},
    {"this node of the cluster has the lock", "cluster"},
    {"knows of no node that serves slots", "cluster"},
    {"nodes of its cluster", "cluster"},
    {"to CLUSTER SLOTS", "cluster"},
    {"cannot connect to", "cannot-connect"},
    {"cannot open a socket", "cannot-connect"},

    // Replicas and disks.
    {"confirmed it within", "acks"},
    {"it could not be confirmed in time", "acks"},
    {"which fsync needs", "acks"},
    {"to WAITAOF", "acks"},
    {"have no replicas to confirm", "acks"},

    // Calls that a program makes wrongly.
    {"already holds it, and it is not reentrant", "deadlock"},
    {"would wait for itself", "deadlock"},
    {"it waits for itself", "deadlock"},
    {"unlock() by a thread that does not hold it", "not-held"},
    {"unlock_shared() by a thread that does not hold it", "not-held"},
    {"the calling thread does not hold it", "not-held"},
    {"permits cannot be released", "not-held"},
    {"an empty Lease", "empty-lease"},
    {"an empty Leadership", "empty-lease"},
    {"this hold is renewed automatically", "extend"},
    {"LockOptions::at_most, which leaves", "extend"},
    {"taken after its release", "stay-taken"},
    {"cannot stay taken", "stay-taken"},
    {"has no shared side", "wrong-side"},
    {"an Owner is for", "wrong-side"},
    {"only RedLock can ask", "quorum-client"},
    {"the clients of a quorum have different key prefixes", "quorum-client"},
    {"a quorum of servers has no semaphores", "quorum-client"},
    {"a server of a quorum", "quorum-client"},
    {"these servers have no such channels", "quorum-client"},
    {"a MultiLock", "multi-lock"},
    {"this client already uses the name as a lock", "same-name"},
    {"its capacity is", "same-name"},
    {"permits are more than its capacity", "too-many-permits"},
    {"it was made with a count", "same-name"},
    {"; say --capacity", "same-name"},
    {"this program asks for a", "same-name"},
    {"it is in use by protocol", "protocol"},
    {"of another version of redlatch", "protocol"},
    {"cannot count down by", "latch-count"},
    {"it has only", "latch-count"},
    {"it can never open", "latch-gone"},
    {"it no longer exists", "latch-gone"},
    {"name of a lock must not be empty", "lock-name"},
    {"a lock's name of", "lock-name"},
    {"the lock's name", "lock-name"},
    {"as redlatch's own keys do", "lock-name"},
    {"no lock can have a name", "lock-name"},
    {"cannot be part of a key", "lock-name"},
    {"could be that of a queue", "lock-name"},
    {"a script includes", "own-kind"},
    {"for classes whose LockTraits", "own-kind"},
    {"LockOptions::stop_margin is", "bad-option"},
    {"LockOptions::grace is", "bad-option"},
    {"LockOptions::cache_for is", "bad-option"},
    {"of LockOptions::at_most; make the lease shorter", "bad-option"},
    {"could outlive the restart delay", "bad-option"},
    {"is not possible; it must be", "bad-option"},
    {"must not be negative", "bad-option"},
    {"ReplicaAcks::replicas is", "bad-option"},
    {"bytes is too long", "bad-option"},
    {"threw an exception, which was ignored", "exception"},

    // A hold has ended.
    {"someone forced its release", "forced"},
    {"the server no longer ha", "server-forgot"},
    {"it was held for the longest time", "at-most"},
    {"its lease expired", "lease-expired"},
    {"its handover was not confirmed", "lease-expired"},
    {"lease has ended, and the process that renews it", "lease-expired"},
    {"the time of --at-most is over", "at-most"},
    {"is about to be lost", "lost"},
    {"the hold was lost", "lost"},
    {"the hold has ended", "lost"},
    {"the term is over", "lost"},
    {"one of the locks was lost", "lost"},
    {"it was lost before it was confirmed", "lost"},
    {" was lost while the command ran", "lost"},

    // The command.
    {"cannot be broken", "break"},
    {"only that program can break it", "break"},
    {"may be another program's data", "break"},
    {"is broken there alone", "break"},
    {"warning: not broken at", "break"},
    {"the lock is broken, but", "break"},
    {"the lock has other holders by now", "break"},
    {"is a key of the lock", "break"},
    {"some locks are not shown", "not-shown"},
    {"their locks are not shown", "not-shown"},
    {"what it shows may be out of date", "not-shown"},
    {"that renews the lock was killed", "run"},
    {"that waited for the lock was killed", "run"},
    {"redlatch was killed; ending its command", "run"},
    {"survives SIGKILL", "run"},
    {"has exited and left processes running", "run"},
    {"cannot be executed", "run"},
    {": command not found", "run"},
    {": not executable", "run"},
    {"the output could not be written", "run"},

    // The server is silent. Last, as many of the messages above say so, too.
    {"violates its contract", "bad-reply"},
    {"a script's reply is not a", "bad-reply"},
    {"the server's answer cannot be read", "bad-reply"},
    {"reply that nothing had asked for", "bad-reply"},
    {"SCAN answered no page", "bad-reply"},
    {"TIME answered no time", "bad-reply"},
    {"a key has no type", "bad-reply"},
    {" answered: ", "server-error"},
    {"the release is not confirmed yet", "not-released"},
    {"refused to release it", "not-released"},
    {"could not be released", "not-released"},
    {"did not answer in time", "no-answer"},
    {"no answer in time", "no-answer"},
    {"no time left to ask", "no-answer"},
    {"could not be sent", "no-answer"},
    {"not sent", "no-answer"},
    {"not keep up", "no-answer"},
    {"has not answered for", "no-answer"},
    {"the connection to", "no-answer"},
    {"is not connected", "no-answer"},
    {"is not used any more", "no-answer"},
    {"the client ends", "no-answer"},
    {"acknowledged the subscription", "no-messages"},
    {"cannot listen at", "no-messages"},
    {"not yet connected to", "no-messages"},
    {"still trying in the background", "no-messages"},
};

constexpr std::string_view kBefore = " [";
constexpr std::string_view kPages = "/e/";

// Where the address goes: at the end, but before the clause with a line that users copy.
size_t PlaceIn(std::string_view text, size_t from) {
  const size_t line = text.find("ACL SETUSER", from);
  if (line == text.npos) return text.size();
  for (size_t at = line; at > from; --at) {
    const std::string_view before = text.substr(at);
    if (before.starts_with(" (") || before.starts_with("; ")) return at;
  }
  return text.size();
}

}  // namespace

std::string_view AnchorOf(std::string_view message) {
  for (const Known& known : kKnown) {
    if (message.find(known.words) != std::string_view::npos) return known.anchor;
  }
  return "";
}

std::string TakeAddress(std::string& text) {
  const std::string start = std::string(kBefore).append(kSite).append(kPages);
  std::string first;
  for (size_t begin = text.find(start); begin != text.npos; begin = text.find(start, begin)) {
    const size_t end = text.find(']', begin);
    if (end == text.npos) break;
    if (first.empty()) first = text.substr(begin, end + 1 - begin);
    text.erase(begin, end + 1 - begin);
  }
  return first;
}

void AddAddress(std::string& message, size_t from) noexcept try {
  std::string text = message;
  std::string address = TakeAddress(text);
  if (address.empty()) {
    const std::string_view anchor = AnchorOf(std::string_view(text).substr(from));
    if (anchor.empty()) return;
    address.append(kBefore).append(kSite).append(kPages).append(anchor).append("]");
  }
  message = text.insert(PlaceIn(text, from), address);
} catch (const std::bad_alloc&) {
  return;  // the message stays as it is
}

bool IsExpected(absl::StatusCode code) {
  return code == absl::StatusCode::kOk || code == absl::StatusCode::kDeadlineExceeded ||
         code == absl::StatusCode::kCancelled;
}

absl::Status WithAddress(const absl::Status& status) noexcept try {
  if (IsExpected(status.code())) return status;
  std::string message(status.message());
  AddAddress(message);
  return {status.code(), message};
} catch (const std::bad_alloc&) {
  return {status.code(), ""};  // needs no memory
}

}  // namespace redlatch::base
