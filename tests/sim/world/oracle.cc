#include "tests/sim/world/oracle.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/sim/trace.h"

namespace redlatch::sim {

namespace {

// A thread may be late by that.
constexpr int64_t kMoment = 2 * kMilli;
// Threads of a process that was stopped may take this long to notice what they missed.
constexpr int64_t kAwakens = kSecond;
// Within that time, clients repeat the counts that a server lost.
constexpr int64_t kCountsReturn = 15 * kSecond;

bool IsFrozen(const Process* process) { return process->paused || process->suspended; }

}  // namespace

uint64_t Oracle::Asked(Request request) {
  request.since = kernel_.now();
  for (const std::string& name : request.names) {
    Object& object = objects_[name];
    if (object.waiting.empty()) object.idle_since = kernel_.now();
    Line& line = object.waiting[{request.process, request.mode}];
    if (line.waiters++ == 0) line.earliest = line.latest = kernel_.now();
    line.latest = std::max(line.latest, object.asks_from[request.process]);
  }
  requests_.emplace(next_, std::move(request));
  return next_++;
}

void Oracle::StoppedAsking(uint64_t id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  const Request request = std::move(found->second);
  requests_.erase(found);
  for (const std::string& name : request.names) {
    Object& object = objects_[name];
    object.left[request.process] = kernel_.now();
    const auto line = object.waiting.find({request.process, request.mode});
    line->second.latest = kernel_.now();
    if (--line->second.waiters == 0) object.waiting.erase(line);
    object.idle_since = kernel_.now();
  }
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

void Oracle::FailedOver(int64_t until, bool acks_protect, bool quarantine_protects,
                        bool keeps_latches) {
  data_lost_ = true;
  if (strict_) return;
  LosesCounts(kernel_.now() + 3 * kSecond, /*for_good=*/!keeps_latches);
  if (!acks_protect && !quarantine_protects) return LostWrites(until);
  int64_t& lost_until = acks_protect && quarantine_protects ? lost_without_either_until_
                        : acks_protect                      ? lost_without_acks_until_
                                                            : lost_without_quarantine_until_;
  lost_until = std::max(lost_until, until);
}

bool Oracle::MayBeLost(const Hold& hold) const {
  const int64_t now = kernel_.now();
  return now < unprotected_until_ || (!hold.acknowledged && now < lost_without_acks_until_) ||
         (!hold.quarantined && now < lost_without_quarantine_until_) ||
         (!hold.acknowledged && !hold.quarantined && now < lost_without_either_until_);
}

void Oracle::CheckExclusion(const Object& object, const Hold& fresh) {
  if (MayBeLost(fresh)) return;
  // Readers have the token of an earlier write.
  const bool writes = fresh.mode == Mode::kExclusive;
  if (writes ? fresh.token != 0 && fresh.token < object.taken_until_token &&
                   kernel_.now() < object.surely_taken_until
             : kernel_.now() < object.closed_to_readers_until) {
    Violated(absl::StrCat(Words(fresh), " gets ", fresh.name, ", which stays taken until ",
                          object.surely_taken_until, " and ", object.taken_until_token));
  }
  int64_t permits = fresh.permits;
  for (const auto& [id, each] : object.holds) {
    const bool may_share =
        each.owner == fresh.owner || (each.mode == Mode::kShared && fresh.mode == Mode::kShared);
    if (fresh.mode == Mode::kPermits) {
      if (Valid(each)) permits += each.permits;
    } else if (!may_share && Valid(each)) {
      return Violated(absl::StrCat("P1: ", fresh.name, " has two owners: ", Words(each), " and ",
                                   Words(fresh)));
    } else if (!may_share) {
      CheckMargin(each, fresh);
    }
  }
  if (fresh.mode == Mode::kPermits && permits > fresh.capacity) {
    Violated(absl::StrCat("P1: ", permits, " permits of ", fresh.name, " are in use, of ",
                          fresh.capacity, "; the last by ", Words(fresh)));
  }
}

// P4: a holder that runs is told of its loss `stop_margin` before another owner gets in.
void Oracle::CheckMargin(const Hold& lost, const Hold& fresh) {
  const Process& process = *lost.process;
  if (lost.stop_margin == 0 || process.paused || process.suspended ||
      process.stopped_until >= lost.granted) {
    return;
  }
  const int64_t since = lost.told->at == kNever ? 0 : kernel_.now() - lost.told->at;
  // Its client measures the margin by its own clock, which may be half a percent fast.
  if (since >= lost.stop_margin - lost.stop_margin / 200) return;
  Violated(absl::StrCat("P4: ", lost.name, " of ", Words(lost), " was lost for ", since / kMicro,
                        " us, and not ", lost.stop_margin / kMicro, " us, when ", Words(fresh),
                        " got it"));
}

void Oracle::CheckToken(const Object& object, const Hold& fresh, uint64_t largest_before) {
  if (fresh.mode == Mode::kPermits || !tokens_grow_) return;
  if (fresh.token == 0 && fresh.may_lack_token) return;
  if (fresh.counts_tokens && data_lost_) return;
  // A thread that joins its owner has that owner's token.
  const bool joins = fresh.mode == Mode::kShared || fresh.owner == kSharedOwner;
  if (fresh.token > largest_before || (joins && fresh.token == largest_before)) return;
  if (MayBeLost(fresh) && object.granted.contains(fresh.process)) return;
  // After a loss of writes, readers may have the token of an older one until the next write. Acks
  // help if a replica is promoted, but not if the server itself has an older copy.
  int64_t lost_until = lost_writes_until_;
  if (!fresh.acknowledged) {
    lost_until = std::max({lost_until, lost_without_acks_until_, lost_without_either_until_});
  }
  if (fresh.mode == Mode::kShared && !fresh.quarantined && object.written < lost_until) return;
  Violated(absl::StrCat("P5: the token of ", fresh.name, " does not grow: ", largest_before,
                        " was given before ", Words(fresh), " asked"));
}

// The waits of all its callers are over, so the client leaves the queue. They may not know it yet.
bool Oracle::IsLeaving(const std::string& name, const Process* process, Mode mode) const {
  return std::all_of(requests_.begin(), requests_.end(), [&](const auto& each) {
    const Request& request = each.second;
    return request.process != process || request.mode != mode ||
           request.leaves_at <= kernel_.now() ||
           std::find(request.names.begin(), request.names.end(), name) == request.names.end();
  });
}

// P7: clients are served in the order of their arrival, and no reader passes a writer.
void Oracle::NoteOrder(Object& object, const Hold& fresh) {
  const std::pair<Process*, Mode> mine{fresh.process, fresh.mode};
  int64_t came = object.waiting.at(mine).earliest;
  // A client may pass its grant on among its threads for a while.
  const bool again = object.latest == mine && kernel_.now() - object.latest_since < order_margin_;
  if (again) came = object.latest_came;
  if (!again) object.latest_since = kernel_.now();
  object.latest = mine;
  object.latest_came = came;
  if (fresh.mode == Mode::kPermits) {  // several clients have their turns at once
    int64_t& since = object.turns[fresh.process];
    if (since > 0 && kernel_.now() - since < order_margin_) return;
    since = kernel_.now();
  }
  // A waiter for several names may let others pass, and an owner enters past the queue.
  const bool enters = std::any_of(object.holds.begin(), object.holds.end(), [&](const auto& each) {
    return each.second.owner == fresh.owner;
  });
  if (order_margin_ == kNever || !object.ordered || IsExcused(object) || enters ||
      fresh.name.front() == '{' || fresh.owner == kSharedOwner) {
    return;
  }
  for (auto& [who, line] : object.waiting) {
    const auto& [process, mode] = who;
    const bool in_line = mode == fresh.mode || (mode == Mode::kExclusive && !fresh.passes_writers);
    if (!in_line || process == fresh.process || !IsFit(process) || !IsFit(fresh.process) ||
        line.latest <= process->stopped_until || line.latest + order_margin_ >= came) {
      continue;
    }
    // While one of its threads has a lock, even one that is lost, the client queues no other.
    const bool has = std::any_of(object.holds.begin(), object.holds.end(), [&](const auto& each) {
      return each.second.process == process && each.second.mode == Mode::kExclusive;
    });
    if (has || IsLeaving(fresh.name, process, mode)) continue;
    if (line.overtaken++ < most_overtaken_) continue;
    const std::string what =
        absl::StrCat("P7: ", Words(fresh), " is let in at ", fresh.name, " before ", process->name,
                     ", which waits since ", line.latest / kMicro, " us");
    // Others may have been let in at the same time, and not know it yet.
    const bool alone = fresh.mode == Mode::kExclusive && mode == Mode::kExclusive;
    if (alone) return Violated(what);
    object.passed.push_back({.who = who, .since = line.latest, .at = kernel_.now(), .what = what});
  }
}

void Oracle::CheckOrder(Object& object) {
  for (const Passed& each : std::exchange(object.passed, {})) {
    const auto line = object.waiting.find(each.who);
    const bool waits = line != object.waiting.end() && line->second.latest == each.since &&
                       each.who.first->stopped_until < each.at;
    if (waits && kernel_.now() - each.at > longest_idle_) return Violated(each.what);
    if (waits) object.passed.push_back(each);
  }
}

uint64_t Oracle::Granted(Hold hold, uint64_t largest_before) {
  ++grants_;
  Object& object = objects_[hold.name];
  if (kernel_.now() >= std::max(unprotected_until_, object.unprotected_until)) {
    if (Valid(hold)) CheckExclusion(object, hold);
    CheckToken(object, hold, largest_before);
  }
  NoteOrder(object, hold);
  if (hold.mode == Mode::kExclusive) {
    object.largest_token = std::max(object.largest_token, hold.token);
    object.written = kernel_.now();
  }
  const auto line = object.waiting.find({hold.process, hold.mode});
  if (line != object.waiting.end()) {
    line->second.latest = kernel_.now();
    line->second.overtaken = 0;
  }
  object.granted[hold.process] = hold.granted = kernel_.now();
  names_[next_] = hold.name;
  const uint64_t id = next_++;
  Hold& held = object.holds.emplace(id, std::move(hold)).first->second;
  if (held.asked <= object.forced_at) held.stop_margin = 0;  // its release may have been forced
  held.told = std::make_shared<LossTime>(kernel_, held.lost, [this, &held] { Lost(held); });
  if (held.reports_wanted) {
    held.told_wanted =
        std::make_shared<LossTime>(kernel_, held.wanted, [this, &held] { Fired(wanted_, held); });
  }
  WatchDeadline(id, /*over=*/false);
  if (held.at_least > 0) StaysTaken(id, held.at_least, /*surely=*/true);
  return id;
}

void Oracle::StaysTaken(uint64_t id, int64_t at_least, bool surely) {
  const auto name = names_.find(id);
  if (name == names_.end()) return;
  Object& object = objects_[name->second];
  Hold& hold = object.holds.at(id);
  hold.at_least = std::max(hold.at_least, at_least);
  object.taken_until = std::max(object.taken_until, hold.granted + at_least + at_least / 50);
  if (!surely) return;
  // It counts from the grant, of which the token tells the time, or from the release, if the token
  // is ahead of the clock.
  object.taken_until_token = hold.token + static_cast<uint64_t>(at_least / kMicro);
  object.surely_taken_until = hold.granted + at_least - at_least / 50;
  const bool fresh = !hold.reserves_tokens && order_margin_ != kNever;
  object.closed_to_readers_until =
      fresh ? hold.asked - order_margin_ + at_least - at_least / 50 : 0;
}

// P4: once its time is over, the holder has been told, whatever else happens. `over`: it was over a
// moment ago.
void Oracle::WatchDeadline(uint64_t id, bool over) {
  const auto name = names_.find(id);
  if (name == names_.end()) return;
  const auto found = objects_[name->second].holds.find(id);
  if (found == objects_[name->second].holds.end()) return;
  const Hold& hold = found->second;
  if (hold.lost.stop_requested()) return;
  const Process& process = *hold.process;
  const int64_t left =
      kernel_.WithClockOf(hold.process, [&] { return absl::ToInt64Nanoseconds(hold.remaining()); });
  const bool awakens = IsFrozen(&process) || process.stopped_until + kAwakens > kernel_.now();
  const bool ends = left <= 0 && !awakens;
  if (ends && over) {
    return Violated(absl::StrCat("P4: the time of ", Words(hold), " for ", hold.name,
                                 " is over, and its holder is not told"));
  }
  const auto real = static_cast<int64_t>(static_cast<double>(left) / process.clock.speed);
  kernel_.After(std::max(real, awakens ? kSecond / 4 : kMoment),
                [this, id, ends] { WatchDeadline(id, ends); });
}

// The holder has just been told. Its client asks for other threads once the lease is surely over.
void Oracle::Lost(const Hold& hold) {
  Object& object = objects_[hold.name];
  const int64_t over = kernel_.now() + (hold.stop_margin + hold.grace) * 102 / 100;
  object.asks_from[hold.process] = over;
  object.left[hold.process] = kernel_.now();  // the server's lease ends a little later
  for (auto& [who, line] : object.waiting) {
    if (who.first == hold.process) line.latest = std::max(line.latest, over);
  }
  if (hold.reports) Fired(lost_, hold);
}

void Oracle::Fired(Reports& reports, const Hold& hold) {
  // All holds of a shared owner may have one token.
  if (hold.token == 0 || hold.owner == kSharedOwner) return;
  reports[{hold.process, hold.name, hold.token}].fired = kernel_.now();
}

// Each callback runs once, and soon.
void Oracle::CheckReports() {
  CheckReports(lost_, "on_lost");
  CheckReports(wanted_, "on_wanted");
  for (const auto& [id, each] : callbacks_) {
    if (each.process->dead || IsFrozen(each.process)) continue;
    if (kernel_.now() > std::max(each.due, each.process->stopped_until + kAwakens)) {
      return Violated(
          absl::StrCat("the callback of ", each.what, " of ", each.process->name, " does not run"));
    }
  }
}

void Oracle::CheckReports(const Reports& reports, const char* callback) {
  for (const auto& [which, report] : reports) {
    const auto& [process, name, token] = which;
    if (report.reported || process->dead || IsFrozen(process)) continue;
    if (kernel_.now() - std::max(report.fired, process->stopped_until) <= kAwakens) continue;
    Violated(absl::StrCat("P4: ", callback, " was not called for ", name, " of ", process->name,
                          ", token ", token));
  }
}

void Oracle::Leaving(uint64_t id) {
  const auto name = names_.find(id);
  if (name == names_.end()) return;
  Object& object = objects_[name->second];
  const auto hold = object.holds.find(id);
  if (hold != object.holds.end()) {
    object.left[hold->second.process] = kernel_.now();
    const int64_t at_least = hold->second.reserves_tokens ? hold->second.at_least : 0;
    if (at_least > 0) {  // its token may be ahead of the clock
      object.taken_until = std::max(object.taken_until, kernel_.now() + at_least + at_least / 50);
    }
    const auto line = object.waiting.find({hold->second.process, hold->second.mode});
    if (line != object.waiting.end()) {
      line->second.latest = std::max(kernel_.now(), object.asks_from[hold->second.process]);
    }
    object.holds.erase(hold);
  }
  object.idle_since = kernel_.now();
  names_.erase(name);
}

void Oracle::Ended(const Process* process) {
  const auto its = [&](const auto& each) { return std::get<0>(each.first) == process; };
  std::erase_if(lost_, its);
  std::erase_if(wanted_, its);
  std::erase_if(callbacks_, [&](const auto& each) {
    if (each.second.process != process) return false;
    Violated(absl::StrCat("the callback of ", each.second.what, " never ran, though the client of ",
                          process->name, " has ended"));
    return true;
  });
}

std::function<void()> Oracle::Expects(const Process* process, std::string what, int64_t within) {
  const int64_t due = within == kNever ? kNever : kernel_.now() + within;
  callbacks_[next_] = {.process = process, .what = what, .due = due};
  return [this, id = next_++, what = std::move(what)] {
    if (callbacks_.erase(id) > 0) return;
    Violated(absl::StrCat("the callback of ", what, " runs twice, or after its client has ended"));
  };
}

// A hold may be lost, or wanted, before the call that acquired it returns.
void Oracle::Reported(Reports& reports, const Process* process, const std::string& name,
                      uint64_t token, const char* callback) {
  Trace::Say(callback, ": ", process->name, " ", name, " ", token);
  Report& report = reports[{process, name, token}];
  if (report.reported && report.fired != kNever && !data_lost_) {
    Violated(absl::StrCat("P4: ", callback, " was called twice for ", name, " of ", process->name,
                          ", token ", token));
  }
  report.reported = true;
}

void Oracle::TellsWanted(const Process* process, const std::string& name, uint64_t token) {
  Reported(wanted_, process, name, token, "on_wanted");
}

void Oracle::TellsLoss(const Process* process, const std::string& name, uint64_t token) {
  Reported(lost_, process, name, token, "on_lost");
  // Readers share a token, so it does not tell which of them was lost.
  for (const auto& [id, each] : objects_[name].holds) {
    if (each.mode != Mode::kExclusive || each.process != process || each.token != token ||
        token == 0) {
      continue;
    }
    if (!each.lost.stop_requested()) {
      return Violated(absl::StrCat("P4: on_lost runs before lost() is requested, of ", name));
    }
    if (kernel_.now() - each.granted > lasts_from_) {
      return Violated(
          absl::StrCat("a hold is lost, though only one server at a time lost its data: ", name,
                       " of ", Words(each)));
    }
  }
}

bool Oracle::Has(const Process* process, const std::string& name) {
  const auto& holds = objects_[name].holds;
  return std::any_of(holds.begin(), holds.end(),
                     [&](const auto& each) { return each.second.process == process; });
}

bool Oracle::HasOrWants(const Process* process, const std::string& name) {
  const auto& waiting = objects_[name].waiting;
  return Has(process, name) || std::any_of(waiting.begin(), waiting.end(), [&](const auto& each) {
           return each.first.first == process;
         });
}

bool Oracle::Uses(const Process* process, const std::string& name) {
  const auto left = objects_[name].left.find(process);
  return (left != objects_[name].left.end() && kernel_.now() - left->second < 5 * kSecond) ||
         HasOrWants(process, name);
}

void Oracle::Died(Process* process) {
  std::erase_if(observers_, [&](const auto& each) { return each.second.process == process; });
  std::erase_if(requests_, [&](const auto& each) { return each.second.process == process; });
  std::erase_if(callbacks_, [&](const auto& each) { return each.second.process == process; });
  Ended(process);
  for (auto& [name, object] : objects_) {
    std::erase_if(object.waiting, [&](const auto& each) { return each.first.first == process; });
    std::erase_if(object.holds, [&](const auto& each) { return each.second.process == process; });
    object.idle_since = kernel_.now();
  }
}

uint64_t Oracle::Observes(Process* process, const std::string& name) {
  observers_[next_] = {.process = process, .name = name};
  return next_++;
}

void Oracle::Leads(const std::string& name, uint64_t epoch, const std::string& leader) {
  const auto [term, fresh] = leaders_.try_emplace({name, epoch}, leader);
  if (!fresh && term->second != leader && tokens_grow_) {
    Violated(absl::StrCat("the epoch ", epoch, " of ", name, " has two leaders: ", term->second,
                          " and ", leader));
  }
}

int64_t Oracle::SawLeader(const std::string& name, uint64_t epoch, const std::string& value) {
  const size_t space = value.rfind(' ');
  int64_t number = 0;  // lock() has no value
  if (space != value.npos && absl::SimpleAtoi(value.substr(space + 1), &number)) {
    Leads(name, epoch, value.substr(0, space));
  }
  return number;
}

void Oracle::ToldLeader(const std::string& name, uint64_t epoch, const std::string& value,
                        uint64_t largest_before) {
  SawLeader(name, epoch, value);
  if (epoch >= largest_before || data_lost_ || !tokens_grow_) return;
  Violated(absl::StrCat("a caller is told that the leader of ", name, " has the epoch ", epoch,
                        ", after ", largest_before));
}

void Oracle::Saw(uint64_t id, uint64_t epoch, const std::string& value) {
  const auto found = observers_.find(id);
  if (found == observers_.end()) return Violated("an observer is told though it has ended");
  Observer& observer = found->second;
  if (epoch == 0) {
    observer.over = true;
    return;
  }
  const int64_t number = SawLeader(observer.name, epoch, value);
  if (epoch < observer.epoch ||
      (epoch == observer.epoch && (observer.over || number <= observer.number))) {
    Violated(absl::StrCat("an observer of ", observer.name, " is told of ", epoch, " \"", value,
                          "\" after ", observer.epoch, " ", observer.number,
                          observer.over ? ", which was over" : ""));
  }
  observer.epoch = epoch;
  observer.number = number;
  observer.over = false;
}

bool Oracle::AllSaw(const std::string& name, uint64_t epoch, bool over) const {
  return std::all_of(observers_.begin(), observers_.end(), [&](const auto& each) {
    const Observer& observer = each.second;
    return observer.name != name || observer.epoch > epoch ||
           (observer.epoch == epoch && (observer.over || !over));
  });
}

void Oracle::Opened(const std::string& name, int64_t count) {
  if (latches_[name].begun >= count || (uses_redisson_ && MayLackCounts(name))) return;
  Violated(absl::StrCat(name, " is open after ", latches_[name].begun, " of ", count, " counts"));
}

void Oracle::LosesCounts(int64_t until, bool for_good) {
  if (strict_) return;
  if (for_good) loses_counts_until_ = std::max(loses_counts_until_, until);
  repeats_counts_until_ = std::max(repeats_counts_until_, until + kCountsReturn);
}

void Oracle::CheckCounts(const std::string& name, const Process* process, int64_t counted,
                         int64_t confirmed) {
  // Redisson's clients repeat no counts, and a latch of theirs that does not exist is open.
  const bool opens = uses_redisson_ && MayLackCounts(name);
  if (MayLackCounts(name)) confirmed = opens ? 0 : latches_[name].done_by[process];
  if (kernel_.now() < repeats_counts_until_) confirmed = 0;
  if (counted > latches_[name].begun && !opens) {
    Violated(absl::StrCat("P2: ", counted, " have counted at ", name, ", but only ",
                          latches_[name].begun, " were asked to"));
  }
  if (counted < confirmed) {
    Violated(absl::StrCat("P2: ", counted, " have counted at ", name, ", though ", confirmed,
                          " counts were confirmed"));
  }
}

// Some process that nothing delays waits for it.
bool Oracle::IsWanted(const Object& object) const {
  return std::any_of(object.waiting.begin(), object.waiting.end(),
                     [this](const auto& each) { return IsFit(each.first.first); });
}

// No other owner keeps it out.
bool Oracle::MayEnter(const Object& object, const Request& request) const {
  int64_t permits = request.permits;
  for (const auto& [id, hold] : object.holds) {
    if (!KeepsOut(hold)) continue;
    permits += hold.permits;
    // To Redisson, an owner is a thread of one client.
    const bool same =
        hold.owner == request.owner && (hold.process == request.process || !uses_redisson_);
    const bool may_share = request.mode == Mode::kPermits || same ||
                           (request.mode == Mode::kShared && hold.mode == Mode::kShared);
    if (!may_share) return false;
  }
  return permits <= request.capacity;
}

// Neither a hold nor another request keeps it out.
bool Oracle::MustEnter(const Request& request) {
  if (!IsFit(request.process) || request.capacity_varies) return false;
  int64_t queued = 0;
  for (const std::string& name : request.names) {
    const Object& object = objects_[name];
    if (kernel_.now() <= object.taken_until || !MayEnter(object, request)) return false;
    queued = std::max(queued, object.waiting.at({request.process, request.mode}).latest);
  }
  int64_t permits = request.permits;
  for (const auto& [id, other] : requests_) {
    const bool meet =
        &other != &request &&
        std::any_of(other.names.begin(), other.names.end(), [&](const auto& name) {
          return std::find(request.names.begin(), request.names.end(), name) != request.names.end();
        });
    if (!meet) continue;
    if (other.in_steps) return false;
    if (IsFrozen(other.process) || other.process->stopped_until + 3 * kSecond > kernel_.now()) {
      return false;
    }
    const bool later = order_margin_ != kNever && objects_[request.names.front()].ordered &&
                       other.since > queued + order_margin_ && other.process != request.process;
    if (request.mode == Mode::kPermits) {
      if (!later) permits += other.permits;
    } else if (request.mode == Mode::kShared) {
      if (other.mode == Mode::kExclusive) return false;
    } else if (!later) {
      return false;
    }
  }
  const Object& object = objects_[request.names.front()];
  for (const auto& [id, hold] : object.holds) {
    if (request.mode == Mode::kPermits && KeepsOut(hold)) permits += hold.permits;
  }
  return permits <= request.capacity;
}

bool Oracle::IsWelcome(uint64_t id) {
  const Request& request = requests_.at(id);
  if (!MustEnter(request) || request.in_steps || longest_idle_ == kNever) return false;
  return std::all_of(request.names.begin(), request.names.end(), [&](const auto& name) {
    const Object& object = objects_[name];
    const int64_t since = kernel_.now() - longest_idle_;
    const auto before = [&](const auto& each) { return each.second < since; };
    return !IsExcused(object) && object.waiting.size() == 1 &&
           object.waiting.begin()->second.waiters == 1 &&
           std::all_of(object.left.begin(), object.left.end(), before) &&
           std::all_of(object.granted.begin(), object.granted.end(), before);
  });
}

bool Oracle::IsTooLong(const Object& object, int64_t since) const {
  const int64_t settled = std::max(since, object.excused_until + longest_idle_);
  return kernel_.now() - since > longest_idle_ || kernel_.now() - settled > settled_idle_;
}

// P3 for each call: it is not kept waiting once nothing stands in its way.
void Oracle::CheckRequests() {
  for (auto& [id, request] : requests_) {
    const bool excused = std::any_of(request.names.begin(), request.names.end(),
                                     [&](const auto& name) { return IsExcused(objects_[name]); });
    if (excused || !MustEnter(request)) {
      request.may_enter_since = kNever;
    } else if (request.may_enter_since == kNever) {
      request.may_enter_since = kernel_.now();
    } else if (std::all_of(request.names.begin(), request.names.end(), [&](const auto& name) {
                 return IsTooLong(objects_[name], request.may_enter_since);
               })) {
      return Violated(absl::StrCat("P3: nothing has kept ", request.process->name, " from ",
                                   absl::StrJoin(request.names, ", "), " for ",
                                   (kernel_.now() - request.may_enter_since) / kMilli,
                                   " ms, and it still waits"));
    }
  }
}

bool Oracle::IsHeld(const Object& object) const {
  return std::any_of(object.holds.begin(), object.holds.end(),
                     [&](const auto& each) { return KeepsOut(each.second); });
}

// A free name of a multi-lock, such as {o1}0, may wait for another, but not if all are free.
bool Oracle::IsHeldInPart(const std::string& name) const {
  const std::string group = name.substr(0, name.find('}') + 1);
  return std::any_of(objects_.begin(), objects_.end(), [&](const auto& each) {
    return each.first.starts_with(group) && IsHeld(each.second);
  });
}

// A hold with tell_if_wanted is told of a waiter within the time of a handover.
void Oracle::CheckTold(const Object& object) {
  for (const auto& [id, hold] : object.holds) {
    if (!hold.wanted.stop_possible() || hold.wanted.stop_requested() || !IsFit(hold.process) ||
        !Valid(hold)) {
      continue;
    }
    for (const auto& [who, line] : object.waiting) {
      const auto& [process, mode] = who;
      const bool wants = hold.mode == Mode::kExclusive || mode == Mode::kExclusive;
      const int64_t since =
          std::max({line.latest, hold.granted, hold.process->stopped_until, process->stopped_until,
                    ExcusedUntil(hold.process), ExcusedUntil(process), object.excused_until,
                    object.unprotected_until});
      if (!wants || !IsFit(process) || !IsTooLong(object, since)) continue;
      return Violated(absl::StrCat(Words(hold), " of ", hold.name, " is not told that ",
                                   process->name, " waits since ", line.latest / kMicro, " us"));
    }
  }
}

void Oracle::CheckIdle() {
  const int64_t since = kernel_.now() - std::exchange(checked_, kernel_.now());
  CheckRequests();
  CheckReports();
  for (auto& [name, object] : objects_) {
    CheckOrder(object);
    CheckTold(object);
    const bool idle = IsWanted(object) && kernel_.now() > object.taken_until &&
                      !(name.front() == '{' ? IsHeldInPart(name) : IsHeld(object));
    if (!object.waiting.empty() || !object.holds.empty()) {
      used_ += since;
      // A fault excuses only those who wait.
      if (object.waiting.empty() || !IsExcused(object)) judged_ += since;
    }
    if (!idle || IsExcused(object)) {
      object.idle_since = kernel_.now();
    } else if (IsTooLong(object, object.idle_since)) {
      return Violated(absl::StrCat("P3: ", name, " has waiters and no owner for ",
                                   (kernel_.now() - object.idle_since) / kMilli, " ms"));
    }
  }
}

}  // namespace redlatch::sim
