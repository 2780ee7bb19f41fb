#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/random.h"
#include "src/engine/machine/timing.h"
#include "src/engine/protocol/wire.h"

namespace redlatch::engine {
namespace {

// Whole milliseconds, rounded up: a lease is never shorter at the server than here.
int64_t Millis(absl::Duration value) {
  constexpr int64_t kNanos = 1'000'000;
  const int64_t nanos = absl::ToInt64Nanoseconds(value);
  return nanos / kNanos + (nanos % kNanos > 0 ? 1 : 0);
}

// An owner that is not the client itself.
bool IsExplicit(const Subject& subject) { return subject.owner != subject.identity.client; }

}  // namespace

Identity NewIdentity() {
  Identity identity;
  identity.client = absl::StrFormat("%016x%016x", base::RandomBits(), base::RandomBits());
  return identity;
}

template <class... Pieces>
void Request::Add(const Pieces&... pieces) {
  const auto add = [this](const absl::AlphaNum& piece) {
    text_.append({piece.data(), piece.size()});
  };
  (add(pieces), ...);
}

void Request::Put(std::string_view value) {
  Begin();
  text_.append(value);
}

void Request::PutKey(const KeySet& keys, std::string_view suffix) {
  Begin();
  keys.AppendTo(text_, suffix);
}

void Request::PutNumber(int64_t value) {
  Begin();
  Add(value);
}

void Request::PutMillis(absl::Duration value) { PutNumber(Millis(value)); }

void Request::PutHold(const Subject& subject, GrantId grant) {
  Begin();
  text_.append(subject.identity.client);
  text_.append(":");
  Add(grant & ~kMayStay);
  if (MayStay(grant)) text_.append("k");
}

void Request::AddChannel(const Subject& subject) {
  Add(absl::string_view(kChannelPrefix.data(), kChannelPrefix.size()),
      subject.deployment == nullptr ? "" : subject.deployment->slot_tag(subject.keys.main()),
      subject.identity.client);
}

void Request::Keys(const Plan& plan, const KeySet& keys) {
  Put(keys.main());
  PutKey(keys, plan.keys.queue);
  PutKey(keys, plan.keys.waiters);
  PutKey(keys, kFenceSuffix);
}

void Request::Gone(const Subject& subject, GrantId grant) {
  PutKey(subject.keys, subject.plan.keys.gone);
  text_.append(subject.identity.client);
  text_.append(".");
  Add(grant & ~kMayStay);
}

void Request::ExtraKeys(const Subject& subject, bool quarantined) {
  for (const std::string& suffix : subject.plan.keys.extras) PutKey(subject.keys, suffix);
  for (const KeySet& other : subject.plan.others) Keys(subject.plan, other);
  if (quarantined) Put(ReignKey(subject.deployment->slot_tag(subject.keys.main())));
  key_count_ = starts_.size();
}

// The last words of a script that looks whether there is a quarantine.
void Request::PutReign(const Subject& subject) {
  if (!subject.plan.quarantined) return;
  Put(subject.deployment->reign(subject.keys.main()));
  PutMillis(subject.quarantine);
}

void Request::Bid(const Subject& subject, const engine::Bid& bid, const Told& told) {
  PutHold(subject, bid.grant);
  const absl::Duration claim = std::min(bid.terms.lease, subject.claim);
  PutMillis(bid.claims ? claim : bid.terms.lease);
  Begin();
  const absl::string_view waits = subject.plan.others.empty() ? " 1 " : " 2 ";
  const absl::string_view tries = bid.calls ? " 3 " : " 0 ";
  Add(bid.block, " ", bid.attempt, bid.wait ? waits : tries,
      Millis(HeartbeatInterval(bid.terms.lease, subject.plan.traits.longest_heartbeat)),
      bid.terms.manual ? " 1 " : " 0 ", bid.ticket, " ", Millis(claim), bid.listen ? " 1 " : " 0 ");
  AddChannel(subject);
  const bool counted = subject.plan.sharing.counts;
  const bool more = !subject.plan.extra_args.empty() || bid.terms.args != nullptr;
  if (counted || IsExplicit(subject) || more) Put(subject.owner);
  if (counted) PutNumber(bid.terms.capacity);
  if (told.counts > 0) {
    Begin();
    Add(told.counts, " ", told.last);
  }
  for (const std::string& arg : subject.plan.extra_args) Put(arg);
  if (bid.terms.args != nullptr) {
    for (const std::string& arg : *bid.terms.args) Put(arg);
  }
}

Request::Request(const Subject& subject, const Send& send) {
  Keys(subject.plan, subject.keys);
  std::visit([&](const auto& what) { Ask(subject, send, what); }, send.what);
}

void Request::Ask(const Subject& subject, const Send& send, const ToAcquire& what) {
  script_ = &subject.plan.scripts.acquire;
  Gone(subject, send.grant);
  ExtraKeys(subject, subject.plan.quarantined);
  Bid(subject, what.bid, what.told);
  PutReign(subject);
}

void Request::Ask(const Subject& subject, const Send& send, const ToRenew& what) {
  script_ = &subject.plan.scripts.renew;
  ExtraKeys(subject, false);
  PutHold(subject, send.grant);
  PutMillis(send.lease);
  if (!MayStay(send.grant)) return;
  Begin();
  AddChannel(subject);
  PutNumber(static_cast<int64_t>(what.last_token));
}

void Request::Ask(const Subject& subject, const Send& send, const ToRelease& what) {
  script_ = &subject.plan.scripts.release;
  const bool plain = !what.next && !what.tombstone && what.last_used == what.last_reserved &&
                     (subject.plan.sharing.joins || !IsExplicit(subject));
  if (!plain) {
    Gone(subject, send.grant);
    Gone(subject, what.next ? what.next->grant : send.grant);
  }
  ExtraKeys(subject, subject.plan.quarantined);
  PutHold(subject, send.grant);
  if (plain) return PutReign(subject);
  Begin();
  Add(what.last_used, " ", what.last_reserved, " ", what.tombstone ? Millis(send.lease) : 0);
  Put(subject.owner);
  if (what.next) Bid(subject, *what.next);
  PutReign(subject);
}

void Request::Ask(const Subject& subject, const Send& send, const ToCancel& what) {
  script_ = &subject.plan.scripts.cancel;
  Gone(subject, send.grant);
  ExtraKeys(subject, subject.plan.quarantined);
  PutHold(subject, send.grant);
  PutNumber(what.tombstone ? Millis(send.lease) : 0);
  PutNumber(what.block);
  PutReign(subject);
}

Request::Request(const Subject& subject, const LuaScript& script,
                 absl::Span<const std::string> args, std::string_view own_key)
    : script_(&script) {
  Keys(subject.plan, subject.keys);
  if (!own_key.empty()) PutKey(subject.keys, own_key);
  const bool hands_over = &script == &subject.plan.scripts.force_release;
  ExtraKeys(subject, hands_over && subject.plan.quarantined);
  for (const std::string& arg : args) Put(arg);
  if (hands_over) PutReign(subject);
}

redis::ScriptCall Request::call() {
  words_.clear();
  for (size_t i = 0; i < starts_.size(); ++i) {
    const size_t end = i + 1 < starts_.size() ? size_t{starts_[i + 1]} : text_.size();
    words_.push_back(text_.view().substr(starts_[i], end - starts_[i]));
  }
  const auto words = absl::MakeConstSpan(words_);
  return {
      .script = script_, .keys = words.subspan(0, key_count_), .args = words.subspan(key_count_)};
}

}  // namespace redlatch::engine
