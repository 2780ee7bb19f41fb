#ifndef REDLATCH_TESTS_UNIT_QUORUM_QUORUM_MODEL_H_
#define REDLATCH_TESTS_UNIT_QUORUM_QUORUM_MODEL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/quorum/model_client.h"
#include "tests/unit/quorum/model_node.h"

namespace redlatch::quorum {

// Where a round writes its token before its lease counts.
enum class TokenRule {
  kAnyMajority,         // not sound, as is shown
  kWhereTheHoldStands,  // what RedLock does
};

// Clients of one lock on several nodes: what each of them does, and each message between them, one
// at a time, in the order that whoever drives the model chooses. Counts what must not be.
class QuorumModel {
 public:
  static constexpr int kMostHolds = 64;

  struct Counts {
    int leases = 0;
    int raises = 0;
    int renewals = 0;
    int overlaps = 0;  // of two leases: must not be
    int falls = 0;     // leases whose token is no larger than the one before: must not be
    int repeats = 0;   // leases whose token an earlier one had: not even if clocks are stepped
  };

  // Nodes whose clocks are so far ahead of steady time.
  QuorumModel(TokenRule rule, const std::vector<Micros>& ahead, int clients)
      : QuorumModel(rule, /*verbose=*/false) {
    for (Micros each : ahead) nodes_.emplace_back(each);
    for (int c = 0; c < clients; ++c) clients_.emplace_back(static_cast<int>(ahead.size()));
  }

  const Counts& counts() const { return counts_; }
  const ModelClient& client(int c) const { return clients_[c]; }

  // What kAnyMajority writes to from now on.
  void WriteTo(std::vector<int> majority) { written_to_ = std::move(majority); }

  Micros now() const { return now_; }
  void Pass(Micros time) { now_ += time; }

  void StepClock(int n, Micros by) {
    Say("the clock of node ", n, " steps by ", by);
    nodes_[n].StepClock(by);
  }

  // Begins a round of a new hold, or one more attempt of the present one.
  void Ask(int c, int64_t proposal = 0, bool waits_for_all = false) {
    ModelClient& client = clients_[c];
    const bool anew = client.state() == ModelClient::State::kIdle;
    client.Begin(anew ? holds_++ : client.hold(), waits_for_all, now_);
    Say(c, " asks for hold ", client.hold(), ", attempt ", client.attempt());
    SendAll(c, What::kAcquire, proposal);
  }

  void Renew(int c) {
    clients_[c].BeginToRenew(now_);
    Say(c, " renews hold ", clients_[c].hold());
    SendAll(c, What::kRenew, 0);
  }

  // Ends a round, or a lease.
  void Release(int c) {
    Say(c, " releases hold ", clients_[c].hold());
    clients_[c].End();
    SendAll(c, What::kRelease, 0);
  }

  // The first request from `c` to `n`, or the first answer to it, arrives.
  void Execute(int c, int n) { Deliver(FirstLike(c, n, /*is_answer=*/false)); }
  void Hear(int c, int n) { Deliver(FirstLike(c, n, /*is_answer=*/true)); }
  void Exchange(int c, int n) {
    Execute(c, n);
    Hear(c, n);
  }

 protected:
  QuorumModel(TokenRule rule, bool verbose) : rule_(rule), verbose_(verbose) {}

  enum class What { kAcquire, kRaise, kRenew, kHeal, kRelease };
  struct Message {
    int client;
    int node;
    What what;
    int hold;
    int attempt;
    int64_t token;  // proposed, to be raised to, or answered
    bool is_answer = false;
    bool is_late = false;  // its connection has broken, and a new one overtakes it
    ModelNode::Says says = {};
    Micros clock = 0;
  };

  // Messages of one connection keep their order.
  size_t FirstLike(int c, int n, bool is_answer) const {
    const Message* const first = flight_.data();
    const Message* each = first;
    while (each->client != c || each->node != n || each->is_answer != is_answer || each->is_late) {
      ++each;
    }
    return static_cast<size_t>(each - first);
  }
  void Deliver(size_t i) {
    const Message message = flight_[i];
    flight_.erase(flight_.begin() + static_cast<ptrdiff_t>(i));
    message.is_answer ? Answered(message) : Executed(message);
  }

  template <typename... Args>
  void Say(const Args&... args) const {
    if (verbose_) std::cerr << absl::StrCat(now_ - kStart, " us: ", args...) << "\n";
  }

  static constexpr Micros kStart = 1'000'000'000;

  const TokenRule rule_;
  const bool verbose_;
  Micros now_ = kStart;
  int holds_ = 0;
  std::vector<ModelNode> nodes_;
  std::vector<ModelClient> clients_;
  std::vector<Message> flight_;

 private:
  void Send(int c, int n, What what, int64_t token) {
    flight_.push_back({c, n, what, clients_[c].hold(), clients_[c].attempt(), token});
  }
  void SendAll(int c, What what, int64_t token) {
    for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) Send(c, n, what, token);
  }

  void Executed(Message message) {
    ModelNode& node = nodes_[message.node];
    switch (message.what) {
      case What::kRelease:
        Say("node ", message.node, " releases hold ", message.hold);
        return node.Release(message.hold);
      case What::kHeal:
        Say("node ", message.node, " is healed with hold ", message.hold);
        return node.Heal(message.hold, message.token, ModelClient::kLease, now_);
      case What::kAcquire:
        message.says = node.Acquire(message.hold, ModelClient::kLease, message.token, now_);
        message.token = node.fence();
        break;
      case What::kRaise:
        message.says = rule_ == TokenRule::kAnyMajority
                           ? node.WriteBack(message.token)
                           : node.Raise(message.hold, message.token, now_);
        break;
      case What::kRenew:
        message.says = node.Renew(message.hold, ModelClient::kLease, now_);
        message.token = node.fence();
        break;
    }
    Say("node ", message.node, " answers hold ", message.hold, " ", NameOf(message.says), " ",
        message.token);
    message.clock = node.Clock(now_);
    message.is_answer = true;
    if (!message.is_late) flight_.push_back(message);
  }

  void Answered(const Message& message) {
    using Next = ModelClient::Next;
    ModelClient& client = clients_[message.client];
    client.Learn(message.token, message.clock, now_);
    if (client.hold() != message.hold || client.attempt() != message.attempt) return;
    switch (NextOf(client, message)) {
      case Next::kNothing:
        return;
      case Next::kRaise:
        return Raise(message.client);
      case Next::kReturn:
        return Return(message.client);
      case Next::kExtend:
        return Extend(message.client);
      case Next::kRollBack:
        return Release(message.client);
    }
  }
  static ModelClient::Next NextOf(ModelClient& client, const Message& message) {
    switch (message.what) {
      case What::kAcquire:
        return client.Acquired(message.node, message.says, message.token);
      case What::kRaise:
        return client.Raised(message.node, message.says);
      case What::kRenew:
        return client.Renewed(message.node, message.says);
      default:
        return ModelClient::Next::kNothing;
    }
  }

  void Raise(int c) {
    ++counts_.raises;
    clients_[c].BeginToRaise();
    Say(c, " raises the token of hold ", clients_[c].hold(), " to ", clients_[c].token());
    if (rule_ == TokenRule::kWhereTheHoldStands) {
      return SendAll(c, What::kRaise, clients_[c].token());
    }
    for (int n : written_to_) Send(c, n, What::kRaise, clients_[c].token());
  }

  void Return(int c) {
    ModelClient& client = clients_[c];
    if (!client.Return(now_)) return Release(c);
    Say(c, " has the lease of hold ", client.hold(), " with token ", client.token());
    ++counts_.leases;
    for (const ModelClient& other : clients_) {
      if (&other == &client || !other.HoldsAt(now_)) continue;
      Say("BUT hold ", other.hold(), " is valid");
      ++counts_.overlaps;
    }
    if (!tokens_.empty() && client.token() <= tokens_.back()) {
      Say("BUT the last token was ", tokens_.back());
      ++counts_.falls;
    }
    if (std::find(tokens_.begin(), tokens_.end(), client.token()) != tokens_.end()) {
      ++counts_.repeats;
    }
    tokens_.push_back(client.token());
  }

  void Extend(int c) {
    ModelClient& client = clients_[c];
    if (!client.Extend(now_)) return Release(c);
    Say(c, " has extended hold ", client.hold());
    ++counts_.renewals;
    for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) {
      if (client.IsToBeHealed(n)) Send(c, n, What::kHeal, client.token());
    }
  }

  static const char* NameOf(ModelNode::Says says) {
    constexpr const char* kNames[] = {"granted", "busy", "gone",    "young",
                                      "raised",  "held", "not held"};
    return kNames[static_cast<int>(says)];
  }

  std::vector<int> written_to_;
  std::vector<int64_t> tokens_;
  Counts counts_;
};

}  // namespace redlatch::quorum

#endif  // REDLATCH_TESTS_UNIT_QUORUM_QUORUM_MODEL_H_
