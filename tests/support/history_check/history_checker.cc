#include "tests/support/history_check/history_checker.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace redlatch::history {

bool HistoryChecker::EndsSooner::operator()(const Call* a, const Call* b) const {
  return std::tie(a->until, a->asked.step) < std::tie(b->until, b->asked.step);
}

void HistoryChecker::Add(const HistoryEvent& event) {
  if (event.time < now_.time && now_.step != 0) {
    Report(Rule::kFormat, absl::StrCat("time ", event.time, " comes after ", now_.time));
  }
  now_ = {now_.step + 1, event.line != 0 ? event.line : now_.line + 1, event.time};
  if (event.what <= What::kReadWrite) return Declare(event);
  if (event.what <= What::kRead) return Begin(event);
  switch (event.what) {
    case What::kFree:
      return CheckFree(event);
    case What::kQuiet:
      ++quiet_;
      for (auto& [name, object] : objects_) {
        object.possible = 0;
        object.owners.clear();
      }
      return;
    case What::kCalm:
      calm_.emplace(event.time, std::max<int64_t>(event.amount, 1));
      return;
    case What::kStorm:
      return EndCalm();
    default:
      break;
  }
  const auto found = calls_by_name_.find(std::string(event.call));
  if (found == calls_by_name_.end()) {
    return Report(Rule::kFormat, absl::StrCat("call ", event.call, " has not begun"));
  }
  Call& call = *found->second;
  const bool ends = event.what <= What::kUnknown;
  if (ends == (call.returned.step != 0) && event.what != What::kQueued) {
    return Report(Rule::kFormat, ends ? "a call returns twice" : "a call has not returned",
                  {&call});
  }
  if (ends) return Return(call, event);
  if (event.what == What::kQueued) return Queue(call, event);
  if (event.what == What::kUntil) return Hold(call, event.until);
  End(call);
  if (event.what == What::kReleased) MayHold(call, false);
}

void HistoryChecker::Finish(int64_t time) {
  now_.time = std::max(now_.time, time);
  EndCalm();
}

void HistoryChecker::Declare(const HistoryEvent& event) {
  Object& object = Get(event.objects);
  const int64_t amount = event.amount < 0 ? 1 : event.amount;
  if (event.what == What::kSemaphore) object.capacities = {{.permits = amount, .from = event.time}};
  if (event.what == What::kLatch) object.latch = amount;
  if (event.what == What::kReadWrite) object.window = event.window;
}

void HistoryChecker::Begin(const HistoryEvent& event) {
  Call& call = calls_.emplace_back();
  call.name = std::string(event.call);
  call.owner = std::string(event.owner.empty() ? event.call : event.owner);
  call.what = event.what;
  call.kind = event.kind;
  call.waits = event.waits;
  call.amount = event.amount < 0 ? 1 : event.amount;
  call.asked = now_;
  for (const absl::string_view name : absl::StrSplit(event.objects, ',')) {
    call.objects.push_back(&Get(name));
  }
  if (!calls_by_name_.emplace(call.name, &call).second) {
    Report(Rule::kFormat, "two calls have one name", {&call});
  }
  Object& object = *call.objects.front();
  const bool of_permits = call.kind == Kind::kPermits || call.what == What::kResize;
  const bool of_latch = What::kCount <= call.what && call.what <= What::kRead;
  if ((of_permits && object.capacities.empty()) || (of_latch && object.latch == 0)) {
    Report(Rule::kFormat, absl::StrCat(object.name, " is not declared"), {&call});
  }
  if (call.what == What::kAcquire) return BeginAcquire(call);
  if (call.what == What::kForce) return BeginForce(call);
  if (call.what == What::kResize) {
    object.capacities.push_back({.permits = call.amount, .from = now_.time, .set_by = &call});
  }
  if (call.what == What::kCount) {
    Key& key = object.keys[call.owner];
    ++key.possible;
    if (key.possible > 1 || key.certain) return;
    key.amount = call.amount;
    key.asked = now_.step;
    object.may_have_counted += call.amount;
  }
  // The counts that are certain when the question is asked.
  if (call.what == What::kRead) call.limit = object.latch - object.counted;
  if (call.what != What::kWait) return;
  call.was_open = object.counted >= object.latch || object.passed != nullptr;
  if (call.waits) object.waiters[now_.step] = &call;
}

void HistoryChecker::BeginAcquire(Call& call) {
  MayHold(call, true);
  for (Object* const object : call.objects) {
    call.before.push_back(object->largest);
    if (!call.waits) continue;
    if (call.objects.size() == 1) object->waiters[now_.step] = &call;
    if (call.objects.size() > 1) ++object->waiters_for_more;
  }
}

// Holds that were granted before or during the call are no longer certain from here on.
void HistoryChecker::BeginForce(Call& call) {
  for (Object* const object : call.objects) {
    ++object->forces;
    for (const Holds* const holds : {&object->exclusive, &object->shared}) {
      const std::vector<Call*> forced(holds->begin(), holds->end());
      for (Call* const hold : forced) End(*hold);
    }
  }
}

void HistoryChecker::Return(Call& call, const HistoryEvent& event) {
  call.returned = now_;
  for (Object* const object : call.objects) {
    if (call.waits) CheckProgress(*object);
    object->waiters.erase(call.asked.step);
    if (call.queued.step != 0) std::erase(object->writers, &call);
    const bool waited_for_more =
        call.waits && call.what == What::kAcquire && call.objects.size() > 1;
    if (waited_for_more && --object->waiters_for_more == 0) {
      object->free_since = std::max(object->free_since, now_.time);
    }
    if (call.what == What::kForce && event.what != What::kUnknown) {
      --object->forces;
      object->forced = now_.step;
    }
  }
  if (call.what == What::kAcquire) ReturnAcquire(call, event);
  if (call.what == What::kResize) ReturnResize(call, event.what);
  if (call.what >= What::kCount) ReturnFromLatch(call, event);
}

void HistoryChecker::ReturnAcquire(Call& call, const HistoryEvent& event) {
  const auto names = [](std::string* out, const Object* object) { out->append(object->name); };
  const std::string asked_for = absl::StrJoin(call.objects, ",", names);
  const bool ok = event.what == What::kOk;
  if (!event.objects.empty() && (!ok || event.objects != asked_for)) {
    Report(Rule::kAllOrNone,
           absl::StrCat(Words(call), " asked for ", asked_for, " and has ", event.objects),
           {&call});
  }
  if (event.what == What::kFailed) MayHold(call, false);
  call.ended = !ok;
  if (!ok) return;
  call.token = event.token;
  call.limit = LeastAndMost(*call.objects.front(), call.asked.time).second;
  if (call.token != 0) CheckTokens(call);
  for (const Object* const object : call.objects) {
    if (call.kind == Kind::kRead) CheckOrder(call, *object);
  }
  Hold(call, event.until);
}

// Once the resize is executed, capacities that were set before it was called no longer count.
void HistoryChecker::ReturnResize(Call& call, What outcome) {
  std::vector<Capacity>& all = call.objects.front()->capacities;
  if (outcome == What::kFailed) {
    std::erase_if(all, [&](const Capacity& one) { return one.set_by == &call; });
  }
  if (outcome != What::kOk) return;
  for (Capacity& one : all) {
    const bool earlier = one.set_by == nullptr || (one.set_by->returned.step != 0 &&
                                                   one.set_by->returned.step < call.asked.step);
    if (earlier) one.replaced = std::min(one.replaced, now_.time);
  }
}

void HistoryChecker::ReturnCount(Call& call, What outcome) {
  Object& latch = *call.objects.front();
  Key& key = latch.keys[call.owner];
  if (outcome == What::kOk && !key.certain) {
    key.certain = true;
    latch.counted += key.amount;
    if (latch.counted >= latch.latch) latch.free_since = std::max(latch.free_since, now_.time);
  }
  if (outcome != What::kFailed || --key.possible > 0 || key.certain) return;
  latch.may_have_counted -= key.amount;
  if (latch.passed == nullptr || latch.passed->returned.step < key.asked) return;
  latch.passed_with -= key.amount;
  if (latch.passed_with >= latch.latch) return;
  Report(Rule::kLatch,
         absl::StrCat(Words(*latch.passed), " passed ", latch.name, ", and without ", call.name,
                      " only ", latch.passed_with, " of ", latch.latch, " can have been counted"),
         {latch.passed, &call});
}

void HistoryChecker::ReturnFromLatch(Call& call, const HistoryEvent& event) {
  Object& latch = *call.objects.front();
  if (call.what == What::kCount) return ReturnCount(call, event.what);
  const bool ok = event.what == What::kOk;
  if (call.what == What::kWait && ok && latch.passed == nullptr) {
    latch.passed = &call;
    latch.passed_with = latch.may_have_counted;
    if (latch.passed_with >= latch.latch) return;
    return Report(Rule::kLatch,
                  absl::StrCat(Words(call), " passes ", latch.name, ", and only ",
                               latch.passed_with, " of ", latch.latch, " can have been counted"),
                  {&call});
  }
  if (call.what == What::kWait && event.what == What::kFailed && call.was_open) {
    Report(Rule::kLatch,
           absl::StrCat(Words(call), " finds ", latch.name, " closed after it opened"), {&call});
  }
  if (call.what != What::kRead || !ok) return;
  const int64_t least = std::max<int64_t>(0, latch.latch - latch.may_have_counted);
  const int64_t most = std::max<int64_t>(0, call.limit);
  if (least <= event.amount && event.amount <= most) return;
  Report(Rule::kLatch,
         absl::StrCat(Words(call), " reads ", event.amount, " of ", latch.name, ", which can be ",
                      least, " to ", most),
         {&call});
}

void HistoryChecker::Queue(Call& call, const HistoryEvent& event) {
  if (call.returned.step != 0) return;  // the event came late
  call.queued_until = event.until;
  if (call.queued.step != 0) return;
  call.queued = now_;
  for (Object* const object : call.objects) object->writers.push_back(&call);
}

// The hold is certain from now on until `until`, or longer if it already was.
void HistoryChecker::Hold(Call& call, int64_t until) {
  if (call.ended || until <= now_.time || until <= call.until) return;
  for (Object* const object : call.objects) {
    if (object->forces > 0 || object->forced > call.asked.step) {
      call.ended = true;
      return;
    }
  }
  std::vector<bool> goes_on;
  for (Object* const object : call.objects) {
    Expire(*object);
    Holds& holds = call.shared() ? object->shared : object->exclusive;
    goes_on.push_back(holds.erase(&call) > 0);
  }
  call.until = until;
  for (size_t i = 0; i < call.objects.size(); ++i) {
    Object& object = *call.objects[i];
    if (!goes_on[i]) {
      if (object.exclusive.empty() && object.shared.empty()) CheckProgress(object);
      CheckExclusion(call, object);
      if (call.shared()) object.permits += call.amount;
    }
    (call.shared() ? object.shared : object.exclusive).insert(&call);
    if (!goes_on[i] && call.kind == Kind::kPermits) CheckCapacity(call, object);
  }
}

void HistoryChecker::End(Call& call) {
  if (call.ended) return;
  call.ended = true;
  for (Object* const object : call.objects) {
    Expire(*object);
    if ((call.shared() ? object->shared : object->exclusive).erase(&call) == 0) continue;
    if (call.shared()) object->permits -= call.amount;
    if (object->exclusive.empty() && object->shared.empty()) object->free_since = now_.time;
  }
}

void HistoryChecker::Expire(Object& object) {
  for (Holds* const holds : {&object.exclusive, &object.shared}) {
    while (!holds->empty() && (*holds->begin())->until <= now_.time) {
      const Call& call = **holds->begin();
      if (call.shared()) object.permits -= call.amount;
      object.free_since = std::max(object.free_since, call.until);
      holds->erase(holds->begin());
    }
  }
}

// Notes whether the server may have granted the call, and not yet ended that grant.
void HistoryChecker::MayHold(Call& call, bool may) {
  if (call.is_possible == may || (!may && call.quiet != quiet_)) return;
  call.is_possible = may;
  call.quiet = quiet_;
  for (Object* const object : call.objects) {
    Owner& owner = object->owners[call.owner];
    if (may) {
      call.may_share = call.may_share || owner.possible > 0;
      owner.last_asked = now_.step;
    }
    owner.possible += may ? 1 : -1;
    object->possible += may ? call.amount : -call.amount;
  }
}

// The smallest and the largest capacity that may have counted at any time since `from`.
std::pair<int64_t, int64_t> HistoryChecker::LeastAndMost(const Object& object, int64_t from) const {
  if (object.capacities.empty()) return {1, 1};
  std::pair<int64_t, int64_t> found = {kNever, 0};
  for (const Capacity& one : object.capacities) {
    if (one.replaced < from) continue;
    found = {std::min(found.first, one.permits), std::max(found.second, one.permits)};
  }
  return found;
}

void HistoryChecker::CheckExclusion(const Call& call, const Object& object) {
  for (const Holds* const holds : {&object.exclusive, &object.shared}) {
    if (holds == &object.shared && call.shared()) return;
    for (const Call* const other : *holds) {
      if (other->owner == call.owner) continue;
      return Report(
          Rule::kExclusion,
          absl::StrCat("two hold ", object.name, ": ", Words(*other), " and ", Words(call)),
          {other, &call});
    }
  }
}

void HistoryChecker::CheckCapacity(const Call& call, const Object& object) {
  if (object.permits <= call.limit) return;
  int64_t limit = call.limit;
  std::string words;
  std::vector<const Call*> calls;
  for (const Call* const one : object.shared) {
    limit = std::max(limit, one->limit);
    absl::StrAppend(&words, ", ", one->amount, " by ", Words(*one));
    calls.push_back(one);
  }
  if (object.permits <= limit) return;
  Report(Rule::kCapacity,
         absl::StrCat(object.permits, " permits of ", object.name, " are held, of ", limit, words),
         calls);
}

void HistoryChecker::CheckTokens(Call& call) {
  const bool reads = call.kind == Kind::kRead;
  const Rule rule = reads ? Rule::kReadTokens : Rule::kTokens;
  for (size_t i = 0; i < call.objects.size(); ++i) {
    Object& object = *call.objects[i];
    // The holds of one owner share a token as long as one of them may be held.
    const bool shares = call.kind != Kind::kLock &&
                        (call.may_share || object.owners[call.owner].last_asked > call.asked.step);
    const auto may_have = [&](const Call& other) {
      return reads || (shares && other.owner == call.owner);
    };
    const Call* const before = call.before[i];
    if (before != nullptr &&
        (call.token < before->token || (call.token == before->token && !may_have(*before)))) {
      Report(rule,
             absl::StrCat("a token of ", object.name, " does not grow: ", Words(*before),
                          ", and then ", Words(call)),
             {before, &call});
    } else if (!reads) {
      const auto [found, fresh] = object.tokens.try_emplace(call.token, &call);
      if (!fresh && !may_have(*found->second)) {
        Report(rule,
               absl::StrCat("one token of ", object.name, " for two: ", Words(*found->second),
                            " and ", Words(call)),
               {found->second, &call});
      }
    }
    if (object.largest == nullptr || object.largest->token < call.token) object.largest = &call;
  }
}

void HistoryChecker::CheckOrder(const Call& call, const Object& object) {
  for (const Call* const writer : object.writers) {
    const bool asked_later = writer->queued.step < call.asked.step &&
                             writer->queued.time + object.window <= call.asked.time;
    if (!asked_later || writer->queued_until <= now_.time || writer->owner == call.owner) continue;
    return Report(Rule::kOrder,
                  absl::StrCat(Words(call), " reads ", object.name, ", but asked at ",
                               call.asked.time, ", after ", Words(*writer), " was queued at ",
                               writer->queued.time, " to write"),
                  {writer, &call});
  }
}

void HistoryChecker::CheckFree(const HistoryEvent& event) {
  Object& object = Get(event.objects);
  Expire(object);
  const auto [least, most] = LeastAndMost(object, now_.time);
  const int64_t free = event.amount < 0 ? 1 : event.amount;
  const bool is_lock = object.capacities.empty();
  const bool held = !object.exclusive.empty() || !object.shared.empty();
  if (free + (is_lock ? (held ? 1 : 0) : object.permits) > most) {
    Report(Rule::kFree,
           absl::StrCat(free, " of ", object.name, " are free, and too many are held"));
  }
  if (free + object.possible < least) {
    Report(Rule::kFree, absl::StrCat("only ", free, " of ", object.name, " are free, and ",
                                     object.possible, " can be held"));
  }
}

// The object has had no certain hold since `free_since`.
void HistoryChecker::CheckProgress(Object& object) {
  Expire(object);
  const bool busy = object.latch > 0 ? object.counted < object.latch
                                     : !object.exclusive.empty() || !object.shared.empty();
  if (!calm_ || busy || object.waiters.empty() || object.waiters_for_more > 0) return;
  const Call& oldest = *object.waiters.begin()->second;
  const int64_t since = std::max({object.free_since, calm_->first, oldest.asked.time});
  longest_idle_ = std::max(longest_idle_, now_.time - since);
  if (now_.time - since <= calm_->second) return;
  Report(Rule::kProgress,
         absl::StrCat(object.name, " is free for ", now_.time - since, " from ", since,
                      " on while ", Words(oldest), " waits"),
         {&oldest});
  object.free_since = now_.time;
}

void HistoryChecker::EndCalm() {
  for (auto& [name, object] : objects_) CheckProgress(object);
  calm_.reset();
}

HistoryChecker::Object& HistoryChecker::Get(absl::string_view name) {
  const auto found = objects_.find(name);
  if (found != objects_.end()) return found->second;
  Object& object = objects_[std::string(name)];
  object.name = std::string(name);
  return object;
}

void HistoryChecker::Report(Rule rule, const std::string& words,
                            const std::vector<const Call*>& calls) {
  Violation violation{
      .rule = rule, .time = now_.time, .words = absl::StrCat("at ", now_.time, ": ", words)};
  for (const Call* const call : calls) {
    for (const Mark& mark : {call->asked, call->queued, call->returned}) {
      if (mark.step != 0) violation.lines.push_back(mark.line);
    }
  }
  violation.lines.push_back(now_.line);
  std::sort(violation.lines.begin(), violation.lines.end());
  violation.lines.erase(std::unique(violation.lines.begin(), violation.lines.end()),
                        violation.lines.end());
  violations_.push_back(std::move(violation));
}

std::string HistoryChecker::Words(const Call& call) const {
  std::string words = absl::StrCat(call.owner, " (", call.name, ", asked at ", call.asked.time);
  if (call.returned.step != 0) absl::StrAppend(&words, ", told at ", call.returned.time);
  if (call.token != 0) absl::StrAppend(&words, ", token ", call.token);
  if (call.until == kNever) absl::StrAppend(&words, ", until it is released");
  if (0 < call.until && call.until < kNever) absl::StrAppend(&words, ", until ", call.until);
  return absl::StrCat(words, ")");
}

HistoryChecker Judge(const History& history) {
  HistoryChecker checker;
  for (const HistoryEvent& event : history.events) checker.Add(event);
  checker.Finish(std::numeric_limits<int64_t>::min());
  return checker;
}

}  // namespace redlatch::history
