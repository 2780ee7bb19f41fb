#include "src/redis/link/subscriber_thread.h"

#include <algorithm>
#include <utility>

#include "src/base/clock.h"
#include "src/base/status.h"
#include "src/base/thread.h"

namespace redlatch::redis {
SubscriberThread::~SubscriberThread() {
  std::thread thread;
  {
    const base::MutexLock lock(mu_);
    stopping_ = true;
    thread = std::move(thread_);
  }
  if (!thread.joinable()) return;
  Wake();
  base::Join(thread);
}

absl::Status SubscriberThread::Add(Listener& listener) {
  const base::MutexLock lock(mu_);
  if (!thread_.joinable()) {
    if (!wake_.Open()) {
      return absl::UnavailableError("no file descriptor is left (raise ulimit -n)");
    }
    if (!base::TryStartThread(thread_, "redlatch-listen", [this] { Run(); })) {
      return base::NoThread();
    }
  }
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

// Updates the places to the present listeners. False if the thread must end.
bool SubscriberThread::UpdatePlaces(std::vector<Place>& places) {
  const base::MutexLock lock(mu_);
  if (stopping_) return false;
  if (changes_seen_ == changes_) return true;
  std::vector<Place> updated;
  for (Listener* const listener : listeners_) {
    const auto known = std::find_if(places.begin(), places.end(),
                                    [&](const Place& place) { return place.listener == listener; });
    updated.push_back(known == places.end() ? Place{.listener = listener} : *known);
  }
  places = std::move(updated);
  changes_seen_ = changes_;
  seen_.SignalAll();
  return true;
}

void SubscriberThread::Run() {
  std::vector<Place> places;
  bool woken = false;
  while (UpdatePlaces(places)) {
    const int alone = places.size() == 1 ? wake_.fd() : -1;
    const base::Instant now = base::Now();
    for (Place& place : places) {
      const Readiness ready = std::exchange(place.ready, {});
      if (woken || ready.Meets(place.awaited.interest) || place.awaited.until <= now) {
        place.awaited = place.listener->Turn(ready, alone);
      }
    }
    woken = Sleep(places);
  }
}

// Returns true if it was woken.
bool SubscriberThread::Sleep(std::vector<Place>& places) {
  base::Instant until = base::Instant::Infinite();
  fds_.assign(1, {.fd = wake_.fd(), .events = POLLIN, .revents = 0});
  for (Place& place : places) {
    Transport* const transport = place.awaited.transport;
    place.polled =
        transport == nullptr ? Transport::Polled() : transport->BeginPoll(place.awaited.interest);
    until = std::min({until, place.awaited.until, place.polled.until});
    if (place.polled.already.Meets(Interest::kReadAndWrite)) until = base::Instant();
    fds_.push_back({.fd = place.polled.fd, .events = place.polled.events, .revents = 0});
  }
  const bool came = base::Poll(fds_.data(), fds_.size(), until) > 0;
  for (size_t i = 0; i < places.size(); ++i) {
    Place& place = places[i];
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
