#include "src/lock/observations.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "lua/scripts.h"
#include "src/base/random.h"
#include "src/base/sha1.h"
#include "src/base/words.h"
#include "src/lock/client_core.h"
#include "src/lock/users_code.h"

namespace redlatch::internal {
namespace {

// How long a caller waits for its subscription, and the client for a reply.
constexpr absl::Duration kTimeout = absl::Milliseconds(500);
// See LeaderView. The delay is jittered, since many clients may observe one election.
constexpr absl::Duration kAfterLease = absl::Milliseconds(150);
// A registration lasts for this many heartbeats.
constexpr int kHeartbeatsKept = 3;

// Reads '<epoch> <revision> <since_us> <client> <value>'.
bool ReadNews(std::string_view text, LeaderNews& news) {
  if (!base::TakeNumber(text, news.epoch) || !base::TakeNumber(text, news.revision) ||
      !base::TakeNumber(text, news.since_us)) {
    return false;
  }
  news.client = base::TakeWord(text);
  news.value = text;
  return true;
}

}  // namespace

// ---- LeaderListener.

void LeaderListener::Tell(EventDriver& driver, std::optional<Leader> leader, uint64_t number) {
  std::shared_ptr<bool> queued;
  {
    const base::MutexLock lock(mu_);
    if (ended_ || number < number_ || number <= told_) return;
    newest_ = std::move(leader);
    number_ = number;
    if (!queued_.expired()) return;
    queued_ = queued = std::make_shared<bool>();
  }
  driver.Complete([self = shared_from_this(), queued] { self->Run(); });
}

void LeaderListener::Run() {
  Election::LeaderCallback ended;  // destroyed outside the mutex
  mu_.Lock();
  while (!ended_ && told_ < number_) {
    const std::optional<Leader> leader = std::exchange(newest_, std::nullopt);
    told_ = number_;
    runs_on_ = std::this_thread::get_id();
    mu_.Unlock();
    RunUsersCode("an observer of an election", [&] { callback_(leader); });
    mu_.Lock();
    runs_on_ = {};
  }
  queued_.reset();
  if (ended_) ended = std::exchange(callback_, nullptr);
  returned_.SignalAll();
  mu_.Unlock();
}

// The callback is destroyed here or by Run(), never on a thread of the client that uses the core,
// since the callback may own the last handle of the client.
void LeaderListener::End() {
  Election::LeaderCallback ended;
  mu_.Lock();
  ended_ = true;
  if (runs_on_ != std::this_thread::get_id()) {
    while (runs_on_ != std::thread::id()) returned_.Wait(mu_);
    ended = std::exchange(callback_, nullptr);
  }
  mu_.Unlock();
}

// ---- Observations.

std::optional<LeaderReply> ReadLeaderReply(std::string_view text) {
  LeaderReply reply;
  int64_t left_ms = 0;
  if (!base::TakeNumber(text, left_ms) || !base::TakeNumber(text, reply.subscribers) ||
      !ReadNews(text, reply.news)) {
    return std::nullopt;
  }
  reply.left = absl::Milliseconds(left_ms);
  return reply;
}

std::optional<Leader> LeaderOf(const LeaderNews& news) {
  if (!news.has_leader()) return std::nullopt;
  return Leader{.value = news.value,
                .epoch = FencingToken(news.epoch),
                .since = absl::FromUnixMicros(news.since_us),
                .client = news.client};
}

absl::Status Observations::Add(const NamedLock& election, absl::Duration heartbeat,
                               std::shared_ptr<LeaderListener> listener) {
  absl::Status subscribed =
      core_.server_group().Subscribe(election.keys.main(), base::Now() + kTimeout);
  if (!subscribed.ok() && !absl::IsUnavailable(subscribed)) return subscribed;
  Change known;
  {
    const base::MutexLock lock(mu_);
    if (secret_.empty()) secret_ = base::RandomHex();
    const LeaderView fresh(heartbeat, base::Jittered(kAfterLease));
    Watch& watch = watches_.try_emplace(std::string(election.keys.main()), Watch{election, fresh})
                       .first->second;
    watch.listeners.push_back(listener);
  }
  absl::Cleanup undo = [&] { Remove(*listener); };  // if memory is lacking
  {
    const base::MutexLock lock(mu_);
    const auto found = watches_.find(election.keys.main());
    if (found != watches_.end()) known = Newest(found->second);
  }
  Tell(known);
  std::move(undo).Cancel();
  core_.WakeBackground();
  return absl::OkStatus();
}

void Observations::Remove(const LeaderListener& listener) {
  const base::MutexLock lock(mu_);
  for (auto watch = watches_.begin(); watch != watches_.end();) {
    auto& all = watch->second.listeners;
    std::erase_if(all, [&](const auto& each) { return each.get() == &listener; });
    watch = all.empty() ? watches_.erase(watch) : std::next(watch);
  }
}

auto Observations::Newest(const Watch& watch) -> Change {
  if (!watch.view.known()) return {};
  return {.leader = LeaderOf(*watch.view.known()), .number = watch.changes, .to = watch.listeners};
}

void Observations::Tell(const Change& change) {
  EventDriver& driver = core_.event_driver();
  for (const auto& each : change.to) each->Tell(driver, change.leader, change.number);
}

void Observations::OnMessage(std::string_view text) {
  const std::string_view proof = base::TakeWord(text);
  const std::string_view said = text;
  size_t size = 0;
  if (!base::TakeNumber(text, size) || text.size() <= size || text[size] != ' ') return;
  LeaderNews news;
  if (!ReadNews(text.substr(size + 1), news)) return;
  Change change;
  {
    const base::MutexLock lock(mu_);
    const auto watch = watches_.find(text.substr(0, size));
    if (watch == watches_.end() ||
        proof != base::Sha1Hex(absl::StrCat(secret_, base::Sha1Hex(said), secret_)) ||
        !watch->second.view.OnMessage(std::move(news), base::Now())) {
      return;
    }
    ++watch->second.changes;
    change = Newest(watch->second);
  }
  Tell(change);
}

void Observations::TakeReply(const KeySet& keys, base::Instant sent, const Result& result) {
  const auto* const text = std::get_if<ScriptText>(&result.what);
  auto reply = text == nullptr ? std::nullopt : ReadLeaderReply(text->text);
  // The server may have refused the channel earlier. This call does not wait.
  redis::ServerGroup& group = core_.server_group();
  if (reply && !group.subscription(keys.main()).acknowledged) {
    group.Subscribe(keys.main(), base::Now()).IgnoreError();
  }
  Change change;
  {
    const base::MutexLock lock(mu_);
    const auto found = watches_.find(keys.main());
    if (found == watches_.end()) return;
    LeaderView& view = found->second.view;
    if (!reply) {
      view.OnSilence(base::Now());
    } else if (view.OnReply(std::move(reply->news), reply->left, sent, base::Now())) {
      ++found->second.changes;
    }
    change = Newest(found->second);  // for listeners whose completion was dropped
  }
  core_.WakeBackground();
  Tell(change);
}

void Observations::AskAll(const redis::ServerGroup::Concerned& concerned) {
  const base::MutexLock lock(mu_);
  for (auto& [key, watch] : watches_) {
    if (!concerned || concerned(key)) watch.view.AskNow(base::Now());
  }
}

base::Instant Observations::due() const {
  base::Instant due = base::Instant::Infinite();
  const base::MutexLock lock(mu_);
  for (const auto& [key, watch] : watches_) due = std::min(due, watch.view.due());
  return due;
}

ScriptBatch::Jobs Observations::TakeDue() {
  ScriptBatch::Jobs jobs;
  const base::Instant now = base::Now();
  const base::MutexLock lock(mu_);
  for (auto& [key, watch] : watches_) {
    if (now < watch.view.due()) continue;
    const int64_t ttl_ms = absl::ToInt64Milliseconds(kHeartbeatsKept * watch.view.heartbeat());
    ScriptRequest what{.script = &lua::kElectionLeader,
                       .args = {core_.ChannelFor(key), secret_, absl::StrCat(ttl_ms)}};
    jobs.push_back({.other = watch.election,
                    .request = {.what = std::move(what), .sent = now},
                    .then = [this, keys = watch.election.keys,
                             now](const Result& result) { TakeReply(keys, now, result); },
                    .until = now + kTimeout});
  }
  // Only now: if memory was lacking, none was asked.
  for (auto& [key, watch] : watches_) {
    if (watch.view.due() <= now) watch.view.OnAsked();
  }
  return jobs;
}

}  // namespace redlatch::internal
