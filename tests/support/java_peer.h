// Java processes with the real Redisson, for tests of locks that both languages share.
#ifndef REDLATCH_TESTS_SUPPORT_JAVA_PEER_H_
#define REDLATCH_TESTS_SUPPORT_JAVA_PEER_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "src/base/mutex.h"
#include "tests/support/await.h"
#include "tests/support/subprocess.h"

namespace redlatch::support {

// What Java answered to one request.
struct JavaReply {
  bool ok = false;
  // When Java began to execute the request, and when it had done so.
  std::chrono::steady_clock::time_point began, ended;
  std::string value;  // the result, or the exception
};

// A reply that may be still to come. Thread-safe; copies are the same reply.
class PendingReply {
 public:
  bool done() const;
  // Waits for it. If it does not come in time, the reply is an error that says so.
  JavaReply Get(absl::Duration timeout = absl::Seconds(30)) const;

 private:
  friend class JavaPeer;
  struct State {
    base::Mutex mu;
    base::CondVar changed;
    bool done ABSL_GUARDED_BY(mu) = false;
    JavaReply reply ABSL_GUARDED_BY(mu);
  };
  void Fulfil(JavaReply reply) const;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// A JVM that runs tests/redisson/java/Peer.java, with many clients and threads. Thread-safe. It
// ends with this object, or with this process.
class JavaPeer {
 public:
  // Empty if Java and Redisson are there. Otherwise it says what is missing.
  static std::string Missing();

  JavaPeer();
  ~JavaPeer();
  JavaPeer(const JavaPeer&) = delete;
  JavaPeer& operator=(const JavaPeer&) = delete;

  // Sends a request: the thread that executes it, the verb, the arguments. None contains a tab.
  PendingReply Send(const std::string& thread, const std::vector<std::string>& request);

  // SIGKILL. Replies that have not come are errors from then on.
  void Kill();
  pid_t pid() const { return child_->pid(); }

 private:
  void Read();

  const std::unique_ptr<Child> child_;
  base::Mutex mu_;
  int64_t sent_ ABSL_GUARDED_BY(mu_) = 0;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::map<int64_t, PendingReply> pending_ ABSL_GUARDED_BY(mu_);
  std::thread reader_;
};

struct JavaClientOptions {
  absl::Duration watchdog = absl::Seconds(30);  // lockWatchdogTimeout
  absl::Duration fair_wait = absl::Minutes(5);  // fairLockWaitTimeout
  bool default_size = false;  // Redisson's own numbers of threads, connections and retries
};

// A RedissonClient in a JVM.
class JavaClient {
 public:
  // The URL is one of redlatch: redis://, redis-sentinel:// or redis-cluster://.
  JavaClient(JavaPeer& peer, const std::string& url, const JavaClientOptions& options = {});
  ~JavaClient();
  JavaClient(const JavaClient&) = delete;
  JavaClient& operator=(const JavaClient&) = delete;

  // Sends VERB CLIENT ARGUMENT... to a thread of that name.
  //   java.Send("reader", "lock", "read", "prices")
  template <class... Arguments>
  PendingReply Send(const std::string& thread, const std::string& verb,
                    const Arguments&... arguments) {
    return peer_.Send(Unique(thread), {verb, name_, absl::StrCat(arguments)...});
  }
  // Sends it, and waits for the reply. Returns the value; if there is an error, "error: " and the
  // exception.
  template <class... Arguments>
  std::string Do(const std::string& thread, const std::string& verb,
                 const Arguments&... arguments) {
    const JavaReply reply = Send(thread, verb, arguments...).Get();
    return reply.ok ? reply.value : absl::StrCat("error: ", reply.value);
  }

  // Waits until that thread waits for a message of Redisson. Its other waits have no time limit, so
  // Java shows another state for them.
  bool AwaitWaiting(const std::string& thread) {
    return Await([&] { return Do("prober", "state", Unique(thread)) == "TIMED_WAITING"; });
  }

  JavaPeer& peer() { return peer_; }

 private:
  // A thread may be blocked after the end of its test, so that no other client uses it.
  std::string Unique(const std::string& thread) const { return absl::StrCat(name_, ".", thread); }

  JavaPeer& peer_;
  const std::string name_;
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_JAVA_PEER_H_
