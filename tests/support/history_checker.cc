#include "tests/support/history_checker.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace redlatch::support {
namespace {

using Outcome = Acquisition::Outcome;

std::string Words(const Acquisition& one) {
  const auto micros = [](base::Instant at) {
    return at.is_infinite() ? std::string("never") : absl::StrCat(at.nanos() / 1000);
  };
  return absl::StrCat(one.shared ? "[read of lock " : "[lock ", one.lock, " owner ", one.owner,
                      " token ", one.token, " invoked ", micros(one.invoked), " returned ",
                      micros(one.returned), " certain until ", micros(one.certain_until), "]");
}

// The certain holds of each lock, by the beginning of their certainty.
std::map<int, std::vector<Acquisition>> CertainHolds(const History& history) {
  std::map<int, std::vector<Acquisition>> locks;
  for (Acquisition one : history.acquisitions) {
    if (one.outcome != Outcome::kHeld) continue;
    for (const Forced& forced : history.forced) {
      if (forced.lock != one.lock || forced.returned < one.invoked) continue;
      one.certain_until = std::min(one.certain_until, forced.invoked);
    }
    if (one.returned < one.certain_until) locks[one.lock].push_back(one);
  }
  for (auto& [lock, holds] : locks) {
    std::sort(holds.begin(), holds.end(),
              [](const Acquisition& a, const Acquisition& b) { return a.returned < b.returned; });
  }
  return locks;
}

// Of holds that were added by the beginning of their certainty: the one that lasts longest, and of
// other owners than its own, too.
class Longest {
 public:
  // One of another owner that is still certain at the beginning of `hold`; null where there is
  // none.
  const Acquisition* Overlapping(const Acquisition& hold) const {
    for (const Acquisition* const earlier : {longest_, other_}) {
      if (earlier == nullptr || earlier->owner == hold.owner) continue;
      if (hold.returned < earlier->certain_until) return earlier;
    }
    return nullptr;
  }

  void Add(const Acquisition& hold) {
    if (longest_ == nullptr || longest_->certain_until < hold.certain_until) {
      if (longest_ != nullptr && longest_->owner != hold.owner) other_ = longest_;
      longest_ = &hold;
    } else if (hold.owner != longest_->owner &&
               (other_ == nullptr || other_->certain_until < hold.certain_until)) {
      other_ = &hold;
    }
  }

 private:
  const Acquisition* longest_ = nullptr;
  const Acquisition* other_ = nullptr;
};

}  // namespace

std::vector<std::string> CheckExclusion(const History& history) {
  std::vector<std::string> violations;
  for (const auto& [lock, holds] : CertainHolds(history)) {
    Longest exclusive;
    Longest shared;
    for (const Acquisition& hold : holds) {
      const Acquisition* overlapping = exclusive.Overlapping(hold);
      if (overlapping == nullptr && !hold.shared) overlapping = shared.Overlapping(hold);
      if (overlapping != nullptr) {
        violations.push_back(absl::StrCat("two hold: ", Words(*overlapping), " and ", Words(hold)));
      }
      (hold.shared ? shared : exclusive).Add(hold);
    }
  }
  return violations;
}

std::vector<std::string> CheckCapacity(const History& history, const std::vector<int>& capacities) {
  std::vector<std::string> violations;
  for (const auto& [lock, holds] : CertainHolds(history)) {
    std::vector<const Acquisition*> inside;
    for (const Acquisition& hold : holds) {
      std::erase_if(inside,
                    [&](const Acquisition* one) { return one->certain_until <= hold.returned; });
      inside.push_back(&hold);
      int permits = 0;
      for (const Acquisition* const one : inside) permits += one->permits;
      if (permits <= capacities.at(static_cast<size_t>(lock))) continue;
      std::string words = absl::StrCat(permits, " permits are held:");
      for (const Acquisition* const one : inside) {
        absl::StrAppend(&words, " ", one->permits, " by ", Words(*one));
      }
      violations.push_back(std::move(words));
    }
  }
  return violations;
}

namespace {

// Whether `one` may have the token of an earlier one: a reader has its writer's, and the holds of
// an Owner that several processes are share theirs as long as one of them is held.
bool MayHaveTokenOf(const Acquisition& earlier, const Acquisition& one) {
  return one.shared || (one.owner < 0 && one.owner == earlier.owner);
}

}  // namespace

std::vector<std::string> CheckTokens(const History& history) {
  std::map<int, std::vector<const Acquisition*>> locks;
  for (const Acquisition& one : history.acquisitions) {
    if (one.outcome == Outcome::kHeld) locks[one.lock].push_back(&one);
  }
  std::vector<std::string> violations;
  for (auto& [lock, by_return] : locks) {
    std::vector<const Acquisition*> by_invocation = by_return;
    const auto before = [](auto member) {
      return
          [member](const Acquisition* a, const Acquisition* b) { return a->*member < b->*member; };
    };
    std::sort(by_return.begin(), by_return.end(), before(&Acquisition::returned));
    std::sort(by_invocation.begin(), by_invocation.end(), before(&Acquisition::invoked));
    const Acquisition* largest = nullptr;
    auto returned = by_return.begin();
    for (const Acquisition* const one : by_invocation) {
      for (; returned != by_return.end() && (*returned)->returned < one->invoked; ++returned) {
        if (largest == nullptr || largest->token < (*returned)->token) largest = *returned;
      }
      if (largest == nullptr || largest->token < one->token) continue;
      if (largest->token == one->token && MayHaveTokenOf(*largest, *one)) continue;
      violations.push_back(
          absl::StrCat("a token does not grow: ", Words(*largest), ", then ", Words(*one)));
    }
    std::erase_if(by_return, [](const Acquisition* one) { return one->shared; });
    std::sort(by_return.begin(), by_return.end(), before(&Acquisition::token));
    for (size_t i = 1; i < by_return.size(); ++i) {
      if (by_return[i - 1]->token != by_return[i]->token) continue;
      if (MayHaveTokenOf(*by_return[i - 1], *by_return[i])) continue;
      violations.push_back(absl::StrCat("one token for two: ", Words(*by_return[i - 1]), " and ",
                                        Words(*by_return[i])));
    }
  }
  return violations;
}

std::vector<std::string> CheckProgress(const History& history, base::Instant calm,
                                       base::Instant until, absl::Duration bound) {
  const auto locks = CertainHolds(history);
  std::vector<std::string> violations;
  for (const Acquisition& waiter : history.acquisitions) {
    const base::Instant end = std::min(waiter.returned, until);
    base::Instant free_since = std::max(waiter.invoked, calm);
    if (!waiter.waits || end <= free_since) continue;
    const auto look = [&](base::Instant taken) {
      if (taken - free_since <= bound) return false;
      violations.push_back(absl::StrCat("free for ", absl::FormatDuration(taken - free_since),
                                        " from ", free_since.nanos() / 1000,
                                        " on while it waits: ", Words(waiter)));
      return true;
    };
    bool told = false;
    if (const auto found = locks.find(waiter.lock); found != locks.end()) {
      for (const Acquisition& hold : found->second) {
        if (end <= hold.returned) break;
        if (hold.returned > free_since && (told = look(hold.returned))) break;
        free_since = std::max(free_since, hold.certain_until);
      }
    }
    if (!told && free_since < end) look(end);
  }
  return violations;
}

}  // namespace redlatch::support
