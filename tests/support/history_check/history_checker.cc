#include "tests/support/history_check/history_checker.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace redlatch::history {

bool HistoryChecker::EndsSooner::operator()(const Call* a, const Call* b) const {
  return std::tie(a->until, a->asked.step) < std::tie(b->until, b->asked.step);
}

void HistoryChecker::Add(const HistoryEvent& event) {
  if (event.time < now_.time && now_.step != 0) {
    Report(Rule::kFormat, absl::StrCat("time ", event.time, " comes after ", now_.time));
  }
  now_ = {now_.step + 1, event.line != 0 ? event.line : now_.line + 1, event.time};
  switch (event.what) {
    case What::kSemaphore:
      Get(event.object).capacity = std::max<int64_t>(event.amount, 1);
      return;
    case What::kAcquire:
    case What::kForce:
      return Begin(event);
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
  if (ends == (call.returned.step != 0)) {
    return Report(Rule::kFormat, ends ? "a call returns twice" : "a call has not returned",
                  {&call});
  }
  if (ends) return Return(call, event);
  if (event.what == What::kUntil) return Hold(call, event.until);
  End(call);
  if (event.what == What::kReleased) MayHold(call, false);
}

void HistoryChecker::Finish(int64_t time) {
  now_.time = std::max(now_.time, time);
  EndCalm();
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
  call.object = &Get(event.object);
  Object& object = *call.object;
  if (!calls_by_name_.emplace(call.name, &call).second) {
    Report(Rule::kFormat, "two calls have one name", {&call});
  }
  if (call.kind == Kind::kPermits && object.capacity == 0) {
    Report(Rule::kFormat, absl::StrCat(object.name, " is not declared"), {&call});
  }
  if (call.what == What::kAcquire) {
    MayHold(call, true);
    call.before = object.largest;
    if (call.waits) object.waiters[now_.step] = &call;
    return;
  }
  // Holds that were granted before or during a forced release are no longer certain from here on.
  ++object.forces;
  for (const Holds* const holds : {&object.exclusive, &object.shared}) {
    const std::vector<Call*> forced(holds->begin(), holds->end());
    for (Call* const hold : forced) End(*hold);
  }
}

void HistoryChecker::Return(Call& call, const HistoryEvent& event) {
  call.returned = now_;
  Object& object = *call.object;
  if (call.waits) CheckProgress(object);
  object.waiters.erase(call.asked.step);
  if (call.what == What::kForce) {
    if (event.what == What::kUnknown) return;
    --object.forces;
    object.forced = now_.step;
    return;
  }
  if (event.what == What::kFailed) MayHold(call, false);
  call.ended = event.what != What::kOk;
  if (call.ended) return;
  call.token = event.token;
  if (call.token != 0) CheckToken(call);
  Hold(call, event.until);
}

// The hold is certain from now on until `until`, or longer if it already was.
void HistoryChecker::Hold(Call& call, int64_t until) {
  if (call.ended || until <= now_.time || until <= call.until) return;
  Object& object = *call.object;
  if (object.forces > 0 || object.forced > call.asked.step) {
    call.ended = true;
    return;
  }
  Expire(object);
  Holds& holds = call.shared() ? object.shared : object.exclusive;
  const bool goes_on = holds.erase(&call) > 0;
  call.until = until;
  if (!goes_on) {
    if (object.exclusive.empty() && object.shared.empty()) CheckProgress(object);
    CheckExclusion(call);
    if (call.shared()) object.permits += call.amount;
  }
  holds.insert(&call);
  if (!goes_on && call.kind == Kind::kPermits) CheckCapacity(object);
}

void HistoryChecker::End(Call& call) {
  if (call.ended) return;
  call.ended = true;
  Object& object = *call.object;
  Expire(object);
  if ((call.shared() ? object.shared : object.exclusive).erase(&call) == 0) return;
  if (call.shared()) object.permits -= call.amount;
  if (object.exclusive.empty() && object.shared.empty()) object.free_since = now_.time;
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
  if (call.is_possible == may) return;
  call.is_possible = may;
  Owner& owner = call.object->owners[call.owner];
  if (may) {
    call.may_share = owner.possible > 0;
    owner.last_asked = now_.step;
  }
  owner.possible += may ? 1 : -1;
}

void HistoryChecker::CheckExclusion(const Call& call) {
  const Object& object = *call.object;
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

void HistoryChecker::CheckCapacity(const Object& object) {
  if (object.permits <= object.capacity) return;
  std::string words;
  for (const Call* const one : object.shared) {
    absl::StrAppend(&words, ", ", one->amount, " by ", Words(*one));
  }
  Report(Rule::kCapacity,
         absl::StrCat(object.permits, " permits of ", object.name, " are held, of ",
                      object.capacity, words),
         {object.shared.begin(), object.shared.end()});
}

void HistoryChecker::CheckToken(Call& call) {
  Object& object = *call.object;
  // The holds of one owner share a token as long as one of them may be held.
  const bool shares = call.kind != Kind::kLock &&
                      (call.may_share || object.owners[call.owner].last_asked > call.asked.step);
  const auto may_have = [&](const Call& other) { return shares && other.owner == call.owner; };
  const Call* const before = call.before;
  if (before != nullptr &&
      (call.token < before->token || (call.token == before->token && !may_have(*before)))) {
    Report(Rule::kTokens,
           absl::StrCat("a token of ", object.name, " does not grow: ", Words(*before),
                        ", and then ", Words(call)),
           {before, &call});
  } else {
    const auto [found, fresh] = object.tokens.try_emplace(call.token, &call);
    if (!fresh && !may_have(*found->second)) {
      Report(Rule::kTokens,
             absl::StrCat("one token of ", object.name, " for two: ", Words(*found->second),
                          " and ", Words(call)),
             {found->second, &call});
    }
  }
  if (object.largest == nullptr || object.largest->token < call.token) object.largest = &call;
}

// The object has had no certain hold since `free_since`.
void HistoryChecker::CheckProgress(Object& object) {
  Expire(object);
  const bool busy = !object.exclusive.empty() || !object.shared.empty();
  if (!calm_ || busy || object.waiters.empty()) return;
  const Call& oldest = *object.waiters.begin()->second;
  const int64_t since = std::max({object.free_since, calm_->first, oldest.asked.time});
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
  std::set<uint64_t> lines = {now_.line};
  for (const Call* const call : calls) {
    for (const Mark& mark : {call->asked, call->returned}) {
      if (mark.step != 0) lines.insert(mark.line);
    }
  }
  violations_.push_back({.rule = rule,
                         .words = absl::StrCat("at ", now_.time, ": ", words),
                         .lines = {lines.begin(), lines.end()}});
}

std::string HistoryChecker::Words(const Call& call) {
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

std::string Words(const Violation& violation, const History& history) {
  std::string words = violation.words;
  for (const uint64_t line : violation.lines) {
    absl::StrAppend(&words, "\n    ", history.Words(line));
  }
  return words;
}

}  // namespace redlatch::history
