#ifndef REDLATCH_SRC_REDIS_SERVER_GROUP_SINGLE_SERVER_H_
#define REDLATCH_SRC_REDIS_SERVER_GROUP_SINGLE_SERVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/redis/link/connection.h"
#include "src/redis/link/listener.h"
#include "src/redis/link/script_runner.h"
#include "src/redis/server_group/server_group.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {

// One server that has all keys, at the URL's address; with sentinels, the present primary.
// Connects, and starts its thread, when it is first used: its events need not be ready sooner.
//
// In a forked child it is destroyed, though a thread of the parent may have been inside it during
// the fork. So no member's destructor may do anything there, except those of the connections, which
// check for it.
class SingleServer final : public ServerGroup {
 public:
  // `channel`: the channel of the client's messages. `mark`: see AckedConnection. `begin`, `first`,
  // `listener`: see ConnectionOptions.
  SingleServer(const Url& url, std::string channel, std::optional<FirstScript> begin,
               std::vector<Command> first, AckedConnection::Mark mark, Events events,
               std::shared_ptr<Listener> listener = nullptr);
  ~SingleServer() override { SingleServer::Stop(); }
  SingleServer(const SingleServer&) = delete;
  SingleServer& operator=(const SingleServer&) = delete;

  ServerFacts facts(std::string_view) const override;
  absl::Status Connect(base::Instant deadline, std::vector<std::string>& warnings) override;
  using ServerGroup::Run;
  void Run(absl::Span<const ScriptCall> calls, base::Instant deadline,
           absl::Span<absl::StatusOr<Reply>> results, StillWanted still_wanted) override {
    if (watch_ != nullptr) BeginWatch();
    runner_.Run(calls, deadline, results, still_wanted);
  }
  bool Drain(base::Instant until) override { return connection_->Drain(until); }
  void AppendConnections(std::vector<std::shared_ptr<Connection>>& connections) override {
    connections.emplace_back(std::shared_ptr<void>(), connection_.get());
  }
  void Stop() override;

  Subscription subscription(std::string_view) const override;
  absl::Status Subscribe(std::string_view, base::Instant deadline) override;
  void KeepReading(std::string_view, bool begins) override { connection_->KeepReading(begins); }
  uint32_t Await(std::string_view, base::Parker& parker, base::Instant deadline) override {
    return connection_->Await(parker, deadline);
  }

  absl::Status SubscribeTo(std::string_view, const std::string& channel,
                           base::Instant deadline) override {
    return connection_->SubscribeAhead(channel, deadline);
  }
  void Forget(const std::string& channel) override { connection_->Unsubscribe(channel); }
  Connection& connection() { return *connection_; }
  bool connected() const { return connection_->connected(); }
  ScriptServer& scripts() { return scripts_; }

 private:
  ConnectionOptions Options(const Url& url, std::optional<FirstScript> begin,
                            std::vector<Command> first, std::shared_ptr<Listener> listener);
  // Returns why the connection must be left after an error reply; empty: it need not.
  std::string WhyLeave(std::string_view error, absl::Duration connected_for);
  void OnRefused(std::string_view channel, const absl::Status& why);
  bool TellOther(std::string_view channel, std::optional<std::string_view> message) const {
    return events_.on_other_channel && events_.on_other_channel(channel, message);
  }
  std::unique_ptr<Connection> MakeWatch(const Url& url);
  void BeginWatch();
  void Moved(std::string_view address);

  const std::string channel_;
  const Events events_;
  // The URL names a host, whose name may lead to another server by now, or sentinels.
  const bool may_move_;
  // The client's own channel: how often the server has refused it, and how often before the latest
  // subscription.
  base::Atomic<uint64_t> refusals_{1};
  base::Atomic<uint64_t> subscribed_after_{0};
  base::Atomic<bool> refused_{false};  // as the user was told
  base::Atomic<bool> stopped_{false};
  // The threads that read it use all of this object.
  const std::unique_ptr<Connection> connection_;
  const std::unique_ptr<AckedConnection> acked_;
  ScriptServer scripts_;
  const ScriptRunner runner_{scripts_};
  // Learns from one of the sentinels, whichever answers, that the primary has moved.
  std::unique_ptr<Connection> watch_;
  base::Atomic<bool> watches_{false};
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SERVER_GROUP_SINGLE_SERVER_H_
