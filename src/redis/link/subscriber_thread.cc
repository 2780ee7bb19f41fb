#include "src/redis/link/subscriber_thread.h"

#include <algorithm>
#include <utility>

#include "src/base/status.h"

namespace redlatch::redis {

SubscriberThread::~SubscriberThread() {
  stopping_ = true;
  Wake();
}

absl::Status SubscriberThread::Add(Listener& listener) {
  const base::MutexLock lock(mu_);
  if (!wake_.Open()) return absl::UnavailableError("no file descriptor is left (raise ulimit -n)");
  if (!worker_.Start()) return base::NoThread();
  listeners_.push_back(&listener);
  ++changes_;
  Wake();
  return absl::OkStatus();
}

void SubscriberThread::Remove(Listener& listener) {
  const base::MutexLock lock(mu_);
  const auto found = std::find(listeners_.begin(), listeners_.end(), &listener);
  if (found == listeners_.end()) return;
  listeners_.erase(found);
  const uint64_t change = ++changes_;
  Wake();
  while (changes_seen_ < change) seen_.Wait(mu_);
}

// Updates the places to the present listeners.
void SubscriberThread::UpdatePlaces() {
  const base::MutexLock lock(mu_);
  if (changes_seen_ == changes_) return;
  std::vector<Place> updated;
  for (Listener* const listener : listeners_) {
    const auto known = std::find_if(places_.begin(), places_.end(),
                                    [&](const Place& place) { return place.listener == listener; });
    updated.push_back(known == places_.end() ? Place{.listener = listener} : *known);
  }
  places_ = std::move(updated);
  changes_seen_ = changes_;
  seen_.SignalAll();
}

// The worker's sleep would not end when bytes come, so it only has this one once it must end.
base::Instant SubscriberThread::ServeAndSleep() {
  if (stopping_) return base::Instant::Infinite();
  UpdatePlaces();
  const int alone = places_.size() == 1 ? wake_.fd() : -1;
  const base::Instant now = base::Now();
  for (Place& place : places_) {
    const Readiness ready = std::exchange(place.ready, {});
    if (woken_ || ready.Meets(place.awaited.interest) || place.awaited.until <= now) {
      place.awaited = place.listener->Serve(ready, alone);
    }
  }
  woken_ = Sleep();
  return base::Instant();
}

// Returns true if it was woken.
bool SubscriberThread::Sleep() {
  base::Instant until = base::Instant::Infinite();
  fds_.assign(1, {.fd = wake_.fd(), .events = POLLIN, .revents = 0});
  for (Place& place : places_) {
    Transport* const transport = place.awaited.transport;
    place.polled =
        transport == nullptr ? Transport::Polled() : transport->BeginPoll(place.awaited.interest);
    until = std::min({until, place.awaited.until, place.polled.until});
    if (place.polled.already.Meets(Interest::kReadAndWrite)) until = base::Instant();
    fds_.push_back({.fd = place.polled.fd, .events = place.polled.events, .revents = 0});
  }
  const bool came = base::Poll(fds_.data(), fds_.size(), until) > 0;
  for (size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    Transport* const transport = place.awaited.transport;
    if (transport == nullptr) continue;
    const int16_t here = came ? fds_[i + 1].revents : int16_t{0};
    if (place.polled.already.Meets(Interest::kReadAndWrite)) {
      place.ready = place.polled.already;
    } else if (here != 0 || !came || !place.polled.until.is_infinite()) {
      place.ready = transport->EndPoll(place.polled, here);
    }
  }
  if (!came || fds_[0].revents == 0) return false;
  wake_.Drain();
  return true;
}

}  // namespace redlatch::redis
