#ifndef REDLATCH_SRC_QUORUM_QUORUM_H_
#define REDLATCH_SRC_QUORUM_QUORUM_H_

#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"
#include "src/quorum/ledger.h"
#include "src/quorum/node.h"
#include "src/quorum/round.h"
#include "src/quorum/token_clock.h"
#include "src/redis/server_group/server_group.h"

namespace redlatch::quorum {

// Several independent servers as one: the engine asks it as it asks a server, in the words of
// lua/README.md, and is answered what a majority of the nodes has answered to the scripts of
// lua/quorum/. Nothing else of the engine's knows that there are several.
//
//   the engine asks   all nodes are asked, and             then
//   acquire           a majority grants one same token     granted
//                     a majority grants, not one same      `raise` where it is granted; granted
//                     a majority cannot grant              given back everywhere; queued, or busy
//   renew             a majority has it                    held; the others are healed
//   release, cancel   a majority has answered              released; who has not is told once more
//
// Nobody waits for a node once the others have decided, and for half a second at most while they
// have answered without deciding.
class Quorum final : public redis::ServerGroup {
 public:
  struct Options {
    std::string name;  // for messages
    absl::Duration restart_delay = absl::ZeroDuration();
    std::string problem;  // why it cannot be used, or empty
    // Makes the server group of that number.
    size_t nodes = 0;
    std::function<std::unique_ptr<redis::ServerGroup>(size_t node, Events events)> make;
    std::function<std::string(std::string_view slot_tag)> channel;
    // The key of a hold of that lock which says that it was given up.
    std::function<std::string(std::string_view key, std::string_view hold)> gone_key;
    // The key of a node's own, with that tag.
    std::function<std::string(std::string_view slot_tag)> node_key;
  };
  Quorum(Options options, Events events);
  ~Quorum() override;
  // In a forked child, in place of destruction.
  static void operator delete(Quorum* quorum, std::destroying_delete_t);
  Quorum(const Quorum&) = delete;
  Quorum& operator=(const Quorum&) = delete;

  std::string server(std::string_view) const override { return options_.name; }
  std::string primary_epoch(std::string_view) override { return {}; }
  std::string run_id(std::string_view) override { return {}; }
  absl::Duration grants_alone_for() const override { return absl::ZeroDuration(); }
  absl::Status Connect(base::Instant deadline, std::vector<std::string>& warnings) override;
  absl::StatusOr<redis::Reply> Call(std::string_view key, const redis::Command& command,
                                    base::Instant deadline) override;
  std::vector<std::string> Get(absl::Span<const std::string> keys, base::Instant deadline) override;
  // A round is asked of all nodes or of none: if memory is lacking in one, the process ends.
  absl::StatusOr<redis::Reply> Run(const redis::ScriptCall& call, base::Instant deadline,
                                   redis::StillWanted still_wanted) noexcept override;
  void RunBatch(absl::Span<const redis::ScriptCall> calls, base::Instant deadline,
                absl::Span<absl::StatusOr<redis::Reply>> results) noexcept override;
  absl::StatusOr<base::Acks> RunAcked(absl::Span<const redis::ScriptCall> calls,
                                      const base::AcksWanted& wanted, absl::Duration patience,
                                      base::Instant deadline,
                                      absl::Span<absl::StatusOr<redis::Reply>> results) override;
  absl::Status Send(std::string_view key, const redis::Command& command, Done done) override;
  bool Drain(std::string_view key, base::Instant until) override;
  // Each node was told the text of the scripts over each connection.
  bool MayPost(std::string_view, const LuaScript&) override { return Problem().ok(); }
  // Nothing but a release without a bid. No PING goes before it: a node hands nothing over.
  absl::Status Post(const redis::ScriptCall& call, redis::InFlight& in_flight) noexcept override;
  // Until what was posted is decided.
  bool DrainAll(base::Instant until) override;
  redis::Transport::Polled BeginPoll(std::string_view) override { return {}; }
  std::string slot_tag(std::string_view) const override { return {}; }
  bool subscribed(std::string_view key) const override;
  absl::Status Subscribe(std::string_view key, base::Instant deadline,
                         const std::stop_token& stop) override;
  uint32_t Await(std::string_view, base::Parker& parker, base::Instant deadline) override {
    return parker.ParkUntil(deadline);
  }
  bool asks_if_subscribed(std::string_view key) const override;
  // Each node's votes tell that of itself.
  void NoteSubscribed(std::string_view, bool, base::Instant) override {}
  void CheckSubscription(std::string_view key, base::Instant now,
                         std::optional<base::Instant> missed_since) override;
  Realigned Realign() override;
  Stats stats() const override;
  void Stop() override;

 private:
  struct Case;
  class Posted;

  size_t majority() const;
  absl::Status Problem() const;
  void OnMessage(size_t node, std::string_view message);
  Question AskAll(std::string_view key, const OwnCall& call, base::Instant deadline);

  // Reads what comes from all nodes, until that is so (true) or it is too late.
  bool ReadAll(base::Instant until, absl::FunctionRef<bool()> enough);

  // Rounds.
  void Begin(Case& one);
  void Ask(Round& round, Case& one);
  // Whether it is known what the case comes to, or needs another question, which is put then.
  bool Decided(Round& round, Case& one);
  bool HasWaited(Case& one);
  void AwaitAll(Round& round, absl::Span<const std::unique_ptr<Case>> cases,
                base::Instant deadline);
  void GiveBack(Case& one, bool yields);
  void Heal(const Case& one);
  void EndForced(const Case& one);
  static constexpr std::string_view kTake = "take";
  // `mode`: of an acquisition.
  OwnCall CallFor(const Case& one, size_t node, std::string_view mode = kTake) const;
  Question::Hear HearFor(const Case& one);
  absl::StatusOr<redis::Reply> ResultOf(Case& one);
  // What a release comes to, by the votes of a majority.
  static absl::StatusOr<redis::Reply> WhenReleased(absl::Span<const Vote> votes);
  absl::Status NoQuorum(std::vector<Vote> votes, bool stands) const;
  absl::StatusOr<redis::Reply> WhenGranted(Case& one, uint64_t token);
  absl::StatusOr<redis::Reply> WhenNotGranted(Case& one);
  std::string AddDelay(OwnCall& call, size_t node) const;
  std::string ChannelsAt(size_t node, const Case& force) const;
  void UseChannelOf(size_t node, std::string_view key, std::string& terms) const;

  const Options options_;
  const Events events_;
  const base::ForkGuard fork_guard_;
  const std::string delay_ms_;
  bool alike_ = options_.restart_delay == absl::ZeroDuration();  // all are asked in the same words
  std::vector<std::string> servers_;                             // of the nodes, for messages
  std::atomic<bool> stopped_{false};
  std::atomic<bool> reconnected_{false};  // since Realign()
  const std::shared_ptr<Ledger> ledger_ = std::make_shared<Ledger>();
  TokenClock clock_;
  std::atomic<uint64_t> late_{0};  // rounds that had not come to an end in time
  std::atomic<size_t> posted_{0};  // and not decided yet
  base::Mutex mu_;
  base::CondVar heard_;  // a node listens, or cannot
  Nodes nodes_;          // their threads use all of this object
};

}  // namespace redlatch::quorum

#endif  // REDLATCH_SRC_QUORUM_QUORUM_H_
