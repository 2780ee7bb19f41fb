#ifndef REDLATCH_SRC_QUORUM_ROUND_H_
#define REDLATCH_SRC_QUORUM_ROUND_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/base/clock.h"
#include "src/quorum/ledger.h"
#include "src/quorum/mailbox.h"
#include "src/quorum/node.h"
#include "src/quorum/vote.h"
#include "src/redis/link/script_call.h"
#include "src/redis/wire/codec.h"

namespace redlatch::quorum {

// A script call with text of its own, as one node is given it; or, without a script, a command.
struct OwnCall {
  explicit OwnCall(const redis::ScriptCall& call)
      : script(call.script),
        keys(call.keys.begin(), call.keys.end()),
        args(call.args.begin(), call.args.end()) {}
  OwnCall(const LuaScript& its_script, std::vector<std::string> its_keys,
          std::vector<std::string> its_args)
      : script(&its_script), keys(std::move(its_keys)), args(std::move(its_args)) {}

  explicit OwnCall(std::vector<std::string> command) : script(nullptr), args(std::move(command)) {}
  explicit OwnCall(const redis::Command& command) : script(nullptr), plain(&command) {}

  const LuaScript* script;
  std::vector<std::string> keys;
  std::vector<std::string> args;
  const redis::Command* plain = nullptr;
};
redis::Command Encode(Node& node, const OwnCall& call, bool by_text);

using Nodes = std::vector<std::unique_ptr<Node>>;

// One question to all nodes at the same time, and the votes as they come. Its thread's own.
class Question {
 public:
  // What a node is asked, and what is to be done when an answer comes, in time or not: on any
  // thread, and at once.
  using CallOf = std::function<OwnCall(size_t node)>;
  using Hear =
      std::function<void(size_t node, Node& its, const absl::StatusOr<redis::Reply>& answer)>;

  // `at`: the key where it belongs, in a cluster.
  // `same`: all nodes are asked in the same words.
  Question(size_t nodes, std::string_view at, bool same, CallOf call, Hear to_hear = nullptr)
      : key(at),
        alike(same),
        call_of(std::move(call)),
        hear(to_hear ? std::make_shared<const Hear>(std::move(to_hear)) : nullptr),
        votes(nodes),
        answers(nodes) {}

  const std::string_view key;
  const bool alike;
  const CallOf call_of;
  const std::shared_ptr<const Hear> hear;  // outlives the question, for answers that come late
  std::optional<redis::Command> words;     // of all, once they are known
  NodeSet coming = 0;                      // who are to be asked when they are there
  std::vector<Vote> votes;
  std::vector<absl::StatusOr<redis::Reply>> answers;
};

// Asks questions and takes in what comes. Nobody is waited for who need not be: the caller says
// when it has heard enough.
class Round {
 public:
  explicit Round(Nodes& nodes) : nodes_(nodes), mailbox_(Mailbox::Open()) {}
  // Who have not come by then are not asked any more.
  ~Round();
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  // Outlives the round. `to`: the nodes that are asked; none: all.
  void Put(Question& question, NodeSet to = ~NodeSet{0});
  // Until that is so, or it is too late.
  void Await(absl::FunctionRef<bool()> enough, base::Instant deadline);

 private:
  void Send(size_t index, size_t node, bool by_text);
  void Take(Mailbox::Letter letter);
  void TakeError(Mailbox::Letter& letter);
  void Listen(base::Instant until);

  Nodes& nodes_;
  const std::shared_ptr<Mailbox> mailbox_;
  std::vector<Question*> questions_;
};

}  // namespace redlatch::quorum

#endif  // REDLATCH_SRC_QUORUM_ROUND_H_
