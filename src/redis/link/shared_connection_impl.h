#ifndef REDLATCH_SRC_REDIS_LINK_SHARED_CONNECTION_IMPL_H_
#define REDLATCH_SRC_REDIS_LINK_SHARED_CONNECTION_IMPL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/parker.h"
#include "src/base/wake_event.h"
#include "src/redis/connect/comeback.h"
#include "src/redis/connect/connector.h"
#include "src/redis/link/pipeline.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/link/spin_policy.h"
#include "src/redis/transport/transport.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/reply.h"

namespace redlatch::redis {

// A SharedConnection within the process that made it; the same contracts.
class SharedConnection::Impl {
 public:
  Impl(const Url& url, SharedConnectionOptions options);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // In a forked child, in place of destruction: closes the descriptors and touches nothing else.
  // Threads that are not there any more may have been in the midst of it.
  void Abandon();

  // `mine` has its results, and nothing else yet.
  void Run(absl::Span<const Command> commands, Exchange& mine, base::Instant deadline);
  absl::Status Send(const Command& command);
  void MakeAnew(std::string_view why);
  std::optional<Peer> peer() const;
  Stats stats() const;
  ServerInfo server_info() const;

 private:
  static constexpr size_t kReadSize = size_t{64} << 10;
  static constexpr base::Instant kAtOnce{};  // a deadline: what is there, without waiting

  static constexpr uint32_t kDone = 1;  // to a follower: all your results are in
  static constexpr uint32_t kLead = 2;  // you are the leader now

  // True where following ended in leadership, false where `mine` is finished.
  bool Follow(Exchange& mine, base::Instant deadline) ABSL_LOCKS_EXCLUDED(mu_);
  void Lead(Exchange& mine, base::Instant deadline) ABSL_LOCKS_EXCLUDED(mu_);
  void GiveUp(Exchange& mine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static void WakeFinished(const Exchange& mine, Finished& finished);

  // The leader's steps. They let go of `mu_` while they wait.
  void Reconnect(Exchange& mine, base::Instant deadline, Finished& finished)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::optional<Connection>> Attempt(base::Instant deadline)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Receive(const Exchange& mine, base::Instant deadline, Finished& finished)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  IoResult Read(base::Instant deadline) ABSL_LOCKS_EXCLUDED(mu_);
  void Break(Finished& finished) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Writes what the kernel takes; the leader's, or a follower's while the leader sleeps.
  bool MayWrite() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void LeaveOnceAnswered() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void VerifyAndWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void InterruptLeader() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const SharedConnectionOptions options_;
  const std::string server_;

  mutable base::Mutex mu_;
  Exchange* leader_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool leader_sleeps_ ABSL_GUARDED_BY(mu_) = false;  // in poll, on the connection
  Pipeline pipeline_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> has_unsent_{false};  // in `pipeline_`; for the leader that spins

  bool writing_ ABSL_GUARDED_BY(mu_) = false;        // somebody is in send, without `mu_`
  bool write_blocked_ ABSL_GUARDED_BY(mu_) = false;  // the kernel takes no more for now
  base::Parker writer_left_;                         // a connection that was lost
  std::string in_flight_ ABSL_GUARDED_BY(mu_);       // is not changed while `writing_`
  size_t in_flight_done_ ABSL_GUARDED_BY(mu_) = 0;

  bool connected_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<Peer> peer_ ABSL_GUARDED_BY(mu_);
  std::string leaving_ ABSL_GUARDED_BY(mu_);     // why no further command goes over the connection
  std::string doomed_ ABSL_GUARDED_BY(mu_);      // why the leader must give the connection up
  base::Instant progress_ ABSL_GUARDED_BY(mu_);  // the last byte read, or the first sent since
  Comeback comeback_ ABSL_GUARDED_BY(mu_);
  absl::Status last_failure_ ABSL_GUARDED_BY(mu_);
  ServerInfo info_ ABSL_GUARDED_BY(mu_);
  Stats stats_ ABSL_GUARDED_BY(mu_);

  SpinPolicy spin_;

  // The leader's own. A follower uses the transport too, to write while `connected_`; it is
  // replaced only where nobody is `writing_`.
  Connector connector_;
  base::WakeEvent wake_;  // gets the leader out of poll
  std::unique_ptr<Transport> transport_;
  std::optional<ReplyParser> parser_;
  std::vector<Reply> arrived_;
  const std::unique_ptr<char[]> buffer_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_SHARED_CONNECTION_IMPL_H_
