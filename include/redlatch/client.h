// The connection to a Redis server that all of a program's locks on it share.
#ifndef REDLATCH_CLIENT_H_
#define REDLATCH_CLIENT_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/duration.h"
#include "redlatch/export.h"
#include "redlatch/stats.h"

namespace redlatch {

class Observer;

namespace internal {
class ClientCore;
}

enum class ConnectPolicy {
  kEager,  // Connect() makes the first connection, and fails if it cannot
  kLazy,   // Connect() does no I/O: a program may start while its server is down
};

struct ClientOptions {
  ConnectPolicy connect = ConnectPolicy::kEager;

  // How long calls without a deadline of their own, such as lock(), Acquire({}) and
  // CountDownLatch::wait(), try to reach a server. Then they fail, at most 50 ms later. Connect()
  // waits no longer than this either.
  Duration unreachable_after = absl::Seconds(10);

  // Comes before every lock's name in its keys. Connect() refuses a prefix with which no lock name
  // would be valid: see RedisLockBase.
  std::string key_prefix = {};

  // The name that Inspect() and `redlatch ls` show for this client. If it is empty, they show the
  // program's own name.
  std::string program = {};

  // Receives the events of this client's locks. Null means no observer: losses, failed releases,
  // misuse and lost subscriptions then go to stderr, at most one line per second.
  std::shared_ptr<Observer> observer = nullptr;

  // How many names Client::Stats() counts separately. It counts all further names together, as
  // kOtherNames. Zero turns counting off.
  int stats_names = 64;

  // Returns the name under which a lock is counted, such as "orders" for "orders:42". If it returns
  // an empty name, the lock counts among the others. Without this function, each lock is counted
  // under its own name. The function runs when a lock comes into use, on the thread that uses it,
  // and must not use that lock.
  std::function<std::string(std::string_view lock)> stats_label = {};

  // Passes callbacks and continuations of asynchronous calls to your threads. The client calls this
  // function with each of them. The function must make sure that each runs soon and exactly once,
  // on any thread.
  //
  //   .post = [&io](std::function<void()> work) { boost::asio::post(io, std::move(work)); }
  //
  // The call comes from a thread of the client, so the function must return at once. It may drop a
  // completion: a lease in it is then released. Without this function, callbacks run one after the
  // other on the client's thread, so a slow one delays the others.
  std::function<void(std::function<void()> completion)> post = {};

  // Called by Connect() for each problem that redlatch can work around. The message says how to fix
  // the problem. Without this function, warnings go to stderr. A client with ConnectPolicy::kLazy
  // gives no warnings.
  std::function<void(std::string_view message)> on_warning = {};
};

// A handle to the connections to a server, or to a group of servers. Copies share them. They are
// closed when the last copy, and the last lock and lease made with it, are gone. Thread-safe.
//
//   absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect("redis://127.0.0.1:6379");
//   if (!client.ok()) return client.status();
//
//   the server is               Connect(), eager   Connect(), lazy   calls
//   well                        OK                 OK                go to it
//   unreachable                 kUnavailable       OK                try to connect, until their
//                                                                    wait is over
//   no server for locks         an error that      OK                that error
//                               says why
//   lost after the connection   -                  -                 connect again
//
// URLs are redis://, rediss:// (TLS), unix://, redis-sentinel://, redis-cluster://, redlock: (a
// quorum, for RedLock) and embedded: (a private server, started on demand). Options such as
// `command_timeout=1s` (for one answer) and `connect_timeout=2s` (for one attempt to connect)
// follow a `?`. docs/operations.md#the-url lists them all.
//
// The client's threads are called redlatch-*. They block signals, so that the program's own threads
// handle them. Do not destroy the last copy within on_lost or an Observer; the callback of an
// asynchronous call may destroy it. In a forked child, every call fails with kFailedPrecondition,
// and the parent's connections are not affected. docs/guarantees.md#in-your-process says what
// happens when the process ends.
class REDLATCH_EXPORT Client {
 public:
  // Errors, each naming the server, what is wrong and what to do:
  //   kInvalidArgument      the URL is malformed
  //   kUnavailable          the server cannot be reached, or does not answer in time
  //   kPermissionDenied     it refuses the user, the password, or scripts
  //   kFailedPrecondition   it cannot hold locks: too old, or it may evict them; or, over TLS, its
  //                         certificate or this client's is not accepted
  static absl::StatusOr<Client> Connect(std::string_view url, const ClientOptions& options = {});

  // Makes one round trip and returns how long it took; kUnavailable if the server does not answer
  // within the URL's command_timeout. On a single server, releases that were written before this
  // call have then taken effect, except those that failed and are being repeated.
  absl::StatusOr<absl::Duration> Ping() const;

  // Returns what this client's locks have done so far. Each number is exact, but the numbers are
  // not all read at the same moment. In a forked child, all are zero.
  ClientStats Stats() const;

  // The server's URL, without user, password and options. For messages and logs.
  const std::string& server() const;

  // For the library.
  explicit Client(std::shared_ptr<internal::ClientCore> core);
  const std::shared_ptr<internal::ClientCore>& core() const { return core_; }

 private:
  std::shared_ptr<internal::ClientCore> core_;
};

}  // namespace redlatch

#endif  // REDLATCH_CLIENT_H_
