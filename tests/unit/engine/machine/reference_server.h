#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_SERVER_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_SERVER_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "src/engine/machine/script_io.h"
#include "src/engine/machine/timing.h"
#include "tests/unit/engine/machine/script_values.h"

namespace redlatch::engine {

// What a model's network needs of a server: it executes scripts, in virtual time, and leaves
// messages for its clients. What a primitive's Lua promises is added, naively, by a server of its
// own. Hold numbers are unique among all clients here.
class ReferenceServer {
 public:
  enum class Side { kWrite, kRead, kNest };
  struct Caller {
    int client = 0;
    int machine = 0;  // unique among all clients
    // Of a read-write lock.
    Side side = Side::kWrite;
    bool fair = false;  // a writer's
    GrantId under = 0;  // kNest: its thread's write
  };
  struct Message {
    int client = 0;
    bool forced = false;  // or
    bool wanted = false;  // else a grant
    NewGrant news;        // if forced or wanted, only the hold counts
  };

  virtual ~ReferenceServer() = default;

  Answer Execute(const Caller& caller, const Send& send, base::Instant at) {
    Tick(at);
    if (send.leaves_tombstone()) buried_[send.grant] = at + send.lease;
    Answer answer = Perform(caller, send);
    answer.look = look_;
    if (unfinished_) answer.look_later = std::exchange(answer.look, absl::Milliseconds(1));
    answer.missed = missed_;
    return answer;
  }
  // Holders and all that wait, with their clients.
  virtual std::vector<std::pair<GrantId, int>> Known(base::Instant at) = 0;
  // Its tombstone is over.
  bool WasBuried(GrantId grant, base::Instant at) const {
    const auto found = buried_.find(grant);
    return found != buried_.end() && found->second <= at;
  }

  // For how long a hand-over by message makes a waiter a holder, if its lease is longer.
  absl::Duration claim = absl::InfiniteDuration();
  std::vector<bool> subscribed;  // by client
  std::vector<Message> messages;

 protected:
  // The largest reserved token, and the grant for which a renewal reserved the last ones: what the
  // scripts keep in KEYS[4].
  struct Fence {
    uint64_t last = 0;
    GrantId owner = 0;   // has all tokens after `known`
    uint64_t known = 0;  // the owner's last token before

    // Reserves a block; returns its first token.
    uint64_t Reserve(uint32_t block, uint64_t now) {
      const uint64_t first = std::max(last + 1, now);
      *this = {.last = first + block - 1};
      return first;
    }
    // Reserves tokens up to the end of a renewed grant. Returns the last; 0: a gap after the known
    // ones.
    uint64_t Extend(const Send& renewal, uint64_t end) {
      const uint64_t its_last = std::get<ToRenew>(renewal.what).last_token;
      if (owner != renewal.grant && last == its_last) known = its_last;
      if (owner == renewal.grant ? its_last < known : last != its_last) return 0;
      owner = renewal.grant;
      last = std::max(last, end);
      return last;
    }
    void GiveBack(const Send& send) {
      const auto& release = std::get<ToRelease>(send.what);
      if (!release.next && !release.tombstone && release.last_used == release.last_reserved) return;
      uint64_t used = release.last_used;
      if (last != release.last_reserved) {
        if (owner != send.grant) return;
        used = std::max(used, known);
      }
      if (used < last) *this = {.last = used};
    }
  };

  // What an answer tells of the script.
  virtual Answer Perform(const Caller& caller, const Send& send) = 0;
  // Forgets what is over by now_.
  virtual void Lapse() {}

  void Tick(base::Instant at) {
    now_ = at;
    look_ = absl::ZeroDuration();
    unfinished_ = missed_ = false;
    Lapse();
  }
  bool IsBuried(GrantId grant) const {
    const auto found = buried_.find(grant);
    return found != buried_.end() && now_ < found->second;
  }
  void ForgetTombstones() { buried_.clear(); }

  void Tell(int client, Message message) {
    message.client = client;
    if (subscribed[client]) messages.push_back(message);
  }
  // And a reply.
  absl::Duration LeaseOf(const Bid& bid) const {
    return bid.claims ? ClaimOf(bid) : bid.terms.lease;
  }
  absl::Duration ClaimOf(const Bid& bid) const { return std::min(claim, bid.terms.lease); }

  // ---- Of those who wait, by grant: records with a bid and a ticket.

  template <class Record>
  uint64_t NewTicket(const std::map<GrantId, Record>& waiters) const {
    auto ticket = static_cast<uint64_t>(now_.nanos() / 1000);
    for (const auto& [grant, each] : waiters) ticket = std::max(ticket, each.ticket + 1);
    return ticket;
  }
  // How many are before that ticket.
  template <class Record>
  static int64_t Position(const std::map<GrantId, Record>& waiters, uint64_t ticket) {
    return std::count_if(waiters.begin(), waiters.end(),
                         [&](const auto& each) { return each.second.ticket < ticket; });
  }
  // All, in turn. A `request` replaces the record of its own, and is among them only if it
  // `stands`.
  template <class Record>
  static std::vector<Record> InTurn(const std::map<GrantId, Record>& waiters,
                                    const Record* request = nullptr, bool stands = false) {
    std::vector<Record> line;
    for (const auto& [grant, each] : waiters) {
      if (request == nullptr || grant != request->bid.grant) line.push_back(each);
    }
    if (stands) line.push_back(*request);
    std::sort(line.begin(), line.end(), [](const Record& a, const Record& b) {
      return std::pair(a.ticket, a.bid.grant) < std::pair(b.ticket, b.bid.grant);
    });
    return line;
  }

  base::Instant now_;
  // The notes of the present answer.
  absl::Duration look_;
  bool unfinished_ = false;
  bool missed_ = false;

 private:
  std::map<GrantId, base::Instant> buried_;  // all tombstones that ever were: when they end
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_REFERENCE_SERVER_H_
