#include "src/redis/link/listener.h"

#include <algorithm>
#include <utility>

#include "src/base/status.h"

namespace redlatch::redis {

Listener::~Listener() {
  stopping_ = true;
  Wake();
}

absl::Status Listener::Add(Member& member) {
  const base::MutexLock lock(mu_);
  if (!wake_.Open()) return absl::UnavailableError("no file descriptor is left (raise ulimit -n)");
  if (!worker_.Start()) return base::NoThread();
  members_.push_back(&member);
  ++changes_;
  Wake();
  return absl::OkStatus();
}

void Listener::Remove(Member& member) {
  const base::MutexLock lock(mu_);
  const auto found = std::find(members_.begin(), members_.end(), &member);
  if (found == members_.end()) return;
  members_.erase(found);
  const uint64_t change = ++changes_;
  Wake();
  while (changes_seen_ < change) seen_.Wait(mu_);
}

// Updates the places to the present members.
void Listener::UpdatePlaces() {
  const base::MutexLock lock(mu_);
  if (changes_seen_ == changes_) return;
  std::vector<Place> updated;
  for (Member* const member : members_) {
    const auto known = std::find_if(places_.begin(), places_.end(),
                                    [&](const Place& place) { return place.member == member; });
    updated.push_back(known == places_.end() ? Place{.member = member} : *known);
  }
  places_ = std::move(updated);
  changes_seen_ = changes_;
  seen_.SignalAll();
}

// The worker's sleep would not end when bytes come, so it only has this one once it must end.
base::Instant Listener::ServeAndSleep() {
  if (stopping_) return base::Instant::Infinite();
  UpdatePlaces();
  const base::Instant now = base::Now();
  for (Place& place : places_) {
    if (woken_ || place.ready || place.watched.until <= now) place.watched = place.member->Serve();
    place.ready = false;
  }
  woken_ = Sleep();
  return base::Instant();
}

// Returns true if it was woken.
bool Listener::Sleep() {
  base::Instant until = base::Instant::Infinite();
  fds_.assign(1, {.fd = wake_.fd(), .events = POLLIN, .revents = 0});
  for (const Place& place : places_) {
    until = std::min(until, place.watched.until);
    fds_.push_back({.fd = place.watched.fd, .events = place.watched.events, .revents = 0});
  }
  if (base::Poll(fds_.data(), fds_.size(), until) <= 0) return false;
  for (size_t i = 0; i < places_.size(); ++i) places_[i].ready = fds_[i + 1].revents != 0;
  if (fds_[0].revents == 0) return false;
  wake_.Drain();
  return true;
}

}  // namespace redlatch::redis
