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
#include "redlatch/export.h"
#include "redlatch/stats.h"

namespace redlatch {

class CountDownLatch;
class Observer;
class RedLock;
class RedisLockBase;
class Semaphore;

namespace internal {
class ClientCore;
}

enum class ConnectPolicy {
  kEager,  // Connect() makes the first connection, and fails where it cannot
  kLazy,   // Connect() does no I/O: a program may start while its server is down
};

struct ClientOptions {
  ConnectPolicy connect = ConnectPolicy::kEager;

  // How long calls without a deadline of their own, such as lock(), Acquire({}) and
  // CountDownLatch::wait(), go on for a server that does not answer, before they fail: within 50 ms
  // of it. Connect() waits no longer than this either.
  absl::Duration unreachable_after = absl::Seconds(10);

  // Stands before every lock's name in its keys. Connect() refuses one with which no lock could
  // have a name: see RedisLockBase.
  std::string key_prefix = {};

  // What people see of this client in Inspect() and in `redlatch ls`; empty: the program's own
  // name.
  std::string program = {};

  // Hears of what happens to this client's locks. If there is none, losses, failed releases and
  // misuse go to stderr, at most one line per second.
  std::shared_ptr<Observer> observer = nullptr;

  // For how many names Client::Stats() tells apart what their locks have done. Names that come
  // when all places are taken are counted together, as kOtherNames. Zero: nothing is counted.
  int stats_names = 64;

  // The name under which a lock is counted: "orders" for "orders:42". Its own where there is no
  // such function; among the others where that returns nothing. Runs when a lock comes into use, on
  // the thread that uses it; must not use that lock.
  std::function<std::string(std::string_view lock)> stats_label = {};

  // Where callbacks and continuations of the asynchronous calls run: it is given each of them, to
  // be run soon, once, on any thread.
  //
  //   .post = [&io](std::function<void()> work) { boost::asio::post(io, std::move(work)); }
  //
  // It is called by a thread of the client's own, and returns at once. It may drop what it is
  // given: a lease that nobody takes is released. If it is empty, callbacks run one after the other
  // on that thread of the client's, so that one that takes long delays the others.
  std::function<void(std::function<void()> completion)> post = {};

  // Hears, in Connect(), what is not as it should be but does not stop redlatch: each message says
  // what and how to mend it. Where it is empty they go to stderr.
  std::function<void(std::string_view message)> on_warning = {};
};

// A handle to the connection to one server, or a quorum of them. Copies share it; it is closed with
// the last of them, and of the locks and leases made with it.
//
//   absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect("redis://127.0.0.1:6379");
//   if (!client.ok()) return client.status();
//
// URLs:
//
//   redis://[[user]:password@]host[:port][/db]    over TCP
//   rediss://[[user]:password@]host[:port][/db]   over TLS 1.2 or 1.3; see below
//   unix://[[user]:password@]/path[?db=N]         over a Unix socket
//   redis-sentinel://[[user]:password@]host[:port],.../primary
//                                                 the primary of that name, whichever server it is,
//                                                 as these sentinels, and those they know, say
//   redis-cluster://[[user]:password@]host[:port],...
//                                                 a cluster, of which these are some nodes
//   redlock:URL,URL,URL                           a quorum of independent servers, each one of
//                                                 these: for RedLock
//   embedded:[/directory]                         a private server of this user on this machine,
//                                                 started where none runs; nothing to install but
//                                                 redis-server, nothing to configure
//
// with options behind a `?`, joined by `&`:
//
//   connect_timeout=2s    how long one attempt to connect may take; 2s unless it is given
//   command_timeout=1s    how long to wait for an answer, try_lock() too; 1s unless it is given
//   name=...              the connection's name, in the server's CLIENT LIST
//   quarantine=60s        after a server was promoted, grants nothing for so long, so that whatever
//                         the one before it granted is over; leases must be shorter, by the
//                         server's min-replicas-max-lag and a second; the same for all programs
//   restart_delay=60s     in a quorum: a server that has started, or is new, grants nothing for so
//                         long; leases must not be longer; the same for all programs
//   eviction=allow        takes a server that may evict locks, and so lose them
//   idle_stop=60s         embedded: only; the server ends when unused for so long
//
// and with TLS, where the server's certificate is verified:
//
//   ca=/path              who may have signed it: a PEM file, or a directory as `openssl rehash`
//                         makes it; those whom the system trusts unless it is given
//   servername=...        whom it must be for; the host unless it is given
//   cert=/path, key=/path this client's own certificate, and its key, if the server wants to see
//                         one; both may be in one PEM file
//   tls=insecure          takes any certificate, and warns: whoever is between can read all
//
// and of sentinels:
//
//   sentinel_user=, sentinel_password=    theirs, if they have some
//   tls=on                                they and the servers speak TLS, with the options above
//   sentinel_tls=off                      only the servers do
//   db=N                                  the database
//
// and of a cluster, whose quarantine= works slot by slot:
//
//   tls=on                                its nodes speak TLS, with the options above
//   map=announced/reached,...             where nodes are, if not at the addresses they announce
//
// A lost connection is made again by the next call that needs it. The client's own threads, named
// redlatch-*, leave signals that are meant for the process to the program's threads, of which one
// may be in sigwait(). Thread-safe. The last copy must not be destroyed by a function that the
// client calls: on_lost, or an Observer's; but the callback of an asynchronous call may destroy it.
// In a forked child every call fails with kFailedPrecondition, and the parent's connection goes on
// unharmed.
class REDLATCH_EXPORT Client {
 public:
  // Errors, each naming the server, what is wrong and what to do:
  //   kInvalidArgument      the URL is malformed
  //   kUnimplemented        a scheme that is not supported yet
  //   kUnavailable          the server cannot be reached, or does not answer in time
  //   kPermissionDenied     it refuses the user, the password, or scripts
  //   kFailedPrecondition   it cannot hold locks: too old, or it may evict them; or, over TLS, its
  //                         certificate or this client's is not accepted
  static absl::StatusOr<Client> Connect(std::string_view url, const ClientOptions& options = {});

  // One round trip to the server and how long it took; kUnavailable where it does not answer
  // within the URL's command_timeout.
  absl::StatusOr<absl::Duration> Ping() const;

  // What this client's locks have done so far. For metrics: each number is exact, but they are not
  // all of the same moment. In a forked child all are zero.
  ClientStats Stats() const;

  // The server's URL, without user, password and options. For messages and logs.
  const std::string& server() const;

 private:
  friend class CountDownLatch;
  friend class RedLock;
  friend class RedisLockBase;
  friend class Semaphore;
  explicit Client(std::shared_ptr<internal::ClientCore> core);

  std::shared_ptr<internal::ClientCore> core_;
};

}  // namespace redlatch

#endif  // REDLATCH_CLIENT_H_
