#include "tests/sim/world/oracle.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace redlatch::sim {

uint64_t Oracle::Asked(const std::string& name, Process* process) {
  Object& object = objects_[name];
  if (object.waiting.empty()) object.idle_since = kernel_.now();
  ++object.waiting[process];
  return object.largest_token;
}

void Oracle::StoppedAsking(const std::string& name, Process* process) {
  Object& object = objects_[name];
  const auto found = object.waiting.find(process);
  if (found == object.waiting.end()) return;
  if (--found->second == 0) object.waiting.erase(found);
  object.idle_since = kernel_.now();
}

bool Oracle::Valid(const Hold& hold) const {
  return kernel_.WithClockOf(hold.process, [&] { return hold.valid(); });
}

std::string Oracle::Words(const Hold& hold) const {
  return absl::StrCat(
      hold.process->name, " (owner ", hold.owner, ", token ", hold.token,
      hold.mode == Mode::kShared ? ", reads" : "",
      hold.mode == Mode::kPermits ? absl::StrCat(", ", hold.permits, " permits") : "",
      ", asked at ", hold.asked / kMicro, " us)");
}

void Oracle::Violated(const std::string& what) {
  if (violation_.empty()) violation_ = absl::StrCat("at ", kernel_.now() / kMicro, " us: ", what);
}

void Oracle::CheckExclusion(const Object& object, const Hold& fresh) {
  int64_t permits = fresh.permits;
  for (const auto& [id, each] : object.holds) {
    const bool may_share =
        each.owner == fresh.owner || (each.mode == Mode::kShared && fresh.mode == Mode::kShared);
    if (fresh.mode == Mode::kPermits) {
      if (Valid(each)) permits += each.permits;
    } else if (!may_share && Valid(each)) {
      return Violated(absl::StrCat("P1: ", fresh.name, " has two owners: ", Words(each), " and ",
                                   Words(fresh)));
    }
  }
  if (fresh.mode == Mode::kPermits && permits > fresh.capacity) {
    Violated(absl::StrCat("P1: ", permits, " permits of ", fresh.name, " are in use, of ",
                          fresh.capacity, "; the last by ", Words(fresh)));
  }
}

void Oracle::CheckToken(const Hold& fresh, uint64_t largest_before) {
  if (fresh.mode == Mode::kPermits) return;
  // A thread that joins its owner has that owner's token.
  const bool joins = fresh.mode == Mode::kShared || fresh.owner == kSharedOwner;
  if (fresh.token > largest_before || (joins && fresh.token == largest_before)) return;
  Violated(absl::StrCat("P5: the token of ", fresh.name, " does not grow: ", largest_before,
                        " was given before ", Words(fresh), " asked"));
}

uint64_t Oracle::Granted(Hold hold, uint64_t largest_before) {
  ++grants_;
  Object& object = objects_[hold.name];
  if (kernel_.now() >= std::max(unprotected_until_, object.unprotected_until)) {
    if (Valid(hold)) CheckExclusion(object, hold);
    CheckToken(hold, largest_before);
  }
  if (hold.mode == Mode::kExclusive) {
    object.largest_token = std::max(object.largest_token, hold.token);
  }
  names_[next_] = hold.name;
  object.holds.emplace(next_, std::move(hold));
  return next_++;
}

void Oracle::Leaving(uint64_t id) {
  const auto name = names_.find(id);
  if (name == names_.end()) return;
  Object& object = objects_[name->second];
  object.holds.erase(id);
  object.idle_since = kernel_.now();
  names_.erase(name);
}

void Oracle::Died(Process* process) {
  for (auto& [name, object] : objects_) {
    object.waiting.erase(process);
    std::erase_if(object.holds, [&](const auto& each) { return each.second.process == process; });
    object.idle_since = kernel_.now();
  }
}

void Oracle::Opened(const std::string& name, int64_t count) {
  if (latches_[name].begun >= count) return;
  Violated(absl::StrCat(name, " is open after ", latches_[name].begun, " of ", count, " counts"));
}

// No hold of it is valid, although a process that runs waits for it.
bool Oracle::Idle(Object& object) {
  const bool wanted =
      std::any_of(object.waiting.begin(), object.waiting.end(),
                  [](const auto& each) { return !each.first->paused && !each.first->suspended; });
  const bool held = std::any_of(object.holds.begin(), object.holds.end(),
                                [&](const auto& each) { return Valid(each.second); });
  return wanted && !held;
}

void Oracle::CheckIdle() {
  for (auto& [name, object] : objects_) {
    // A free name of a multi-lock may wait for another name.
    if (name.front() == '{' || !Idle(object) || kernel_.now() < excused_until_) {
      object.idle_since = kernel_.now();
    } else if (kernel_.now() - object.idle_since > longest_idle_) {
      return Violated(absl::StrCat("P3: ", name, " has waiters and no owner for ",
                                   (kernel_.now() - object.idle_since) / kMilli, " ms"));
    }
  }
}

}  // namespace redlatch::sim
