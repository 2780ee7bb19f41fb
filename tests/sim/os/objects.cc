#include "tests/sim/os/objects.h"

#include <errno.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace redlatch::sim {

namespace {

int Ready(const std::vector<std::shared_ptr<Descriptor>>& descriptors, pollfd* fds) {
  int ready = 0;
  for (size_t i = 0; i < descriptors.size(); ++i) {
    fds[i].revents = 0;
    if (fds[i].fd < 0) continue;
    fds[i].revents =
        descriptors[i] == nullptr
            ? static_cast<short>(POLLNVAL)
            : static_cast<short>(descriptors[i]->Events() & (fds[i].events | POLLERR | POLLHUP));
    if (fds[i].revents != 0) ++ready;
  }
  return ready;
}

}  // namespace

void Descriptor::Changed() {
  for (Fibre* const fibre : pollers) Kernel::Current()->Wake(fibre);
  for (const auto& each : sets) {
    if (const auto set = each.lock(); set != nullptr && set->Events() != 0) set->Changed();
  }
}

// A closed descriptor leaves the sets that it is in.
short SetDescriptor::Events() const {
  for (const Member& each : members_) {
    const auto descriptor = each.descriptor.lock();
    if (descriptor != nullptr && (descriptor->Events() & (each.events | POLLERR | POLLHUP)) != 0) {
      return POLLIN;
    }
  }
  return 0;
}

std::vector<SetDescriptor::Member>::iterator SetDescriptor::Find(
    const std::shared_ptr<Descriptor>& member) {
  return std::ranges::find_if(members_,
                              [&](const Member& each) { return each.descriptor.lock() == member; });
}

int SetDescriptor::Add(const std::shared_ptr<SetDescriptor>& self,
                       const std::shared_ptr<Descriptor>& member, short events) {
  if (Find(member) != members_.end()) return EEXIST;
  members_.push_back({.descriptor = member, .events = events});
  member->sets.push_back(self);
  if (Events() != 0) Changed();
  return 0;
}

int SetDescriptor::Remove(const std::shared_ptr<Descriptor>& member) {
  const auto found = Find(member);
  if (found == members_.end()) return ENOENT;
  members_.erase(found);
  std::erase_if(member->sets, [this](const auto& each) { return each.lock().get() == this; });
  return 0;
}

int PollDescriptors(Kernel& kernel, pollfd* fds, size_t count, int timeout_ms) {
  kernel.SystemCall();
  std::vector<std::shared_ptr<Descriptor>> descriptors(count);
  for (size_t i = 0; i < count; ++i) descriptors[i] = kernel.Find(fds[i].fd);
  const int64_t deadline = timeout_ms < 0 ? kNever : kernel.DeadlineIn(timeout_ms * kMilli);
  Fibre* const fibre = Fibre::Current();
  for (;;) {
    const int ready = Ready(descriptors, fds);
    if (ready > 0 || timeout_ms == 0) return ready;
    for (const auto& each : descriptors) {
      if (each != nullptr) each->pollers.push_back(fibre);
    }
    const bool woken = kernel.Wait(deadline);
    for (const auto& each : descriptors) {
      if (each != nullptr) std::erase(each->pollers, fibre);
    }
    if (!woken) return Ready(descriptors, fds);
  }
}

namespace {

// Fibres in the order in which they began to wait.
struct WaitList {
  Fibre* first = nullptr;

  void Add(Fibre* fibre) {
    Fibre** end = &first;
    while (*end != nullptr) end = &(*end)->next;
    fibre->next = nullptr;
    *end = fibre;
  }
  void Remove(Fibre* fibre) {
    for (Fibre** at = &first; *at != nullptr; at = &(*at)->next) {
      if (*at != fibre) continue;
      *at = fibre->next;
      return;
    }
  }
  Fibre* Take() {
    // The threads of a dead process never wake.
    while (first != nullptr && first->process->dead) first = first->next;
    Fibre* const taken = first;
    if (taken != nullptr) first = taken->next;
    return taken;
  }
};

// The content of a pthread_mutex_t. It is all zeros until the first lock, and its kind (at offset
// 16) must stay unchanged.
struct Mutex {
  Fibre* owner;
  WaitList waiting;
  int32_t kind[2];
  Process* first_user;
  bool shared;

  static Mutex& Of(pthread_mutex_t* mutex) { return *reinterpret_cast<Mutex*>(mutex); }

  bool Take() {
    if (owner != nullptr) return false;
    owner = Fibre::Current();
    if (first_user == nullptr) first_user = owner->process;
    shared = shared || first_user != owner->process;
    if (shared) ++owner->shared_mutexes;
    return true;
  }
  void Release(Kernel& kernel) {
    // If it was locked before a second process used it, it was not counted.
    if (shared && owner->shared_mutexes > 0) --owner->shared_mutexes;
    owner = nullptr;
    if (Fibre* const next = waiting.Take()) kernel.Wake(next);
  }
};
static_assert(sizeof(Mutex) <= sizeof(pthread_mutex_t) && offsetof(Mutex, kind) == 16);

struct Condition {
  WaitList waiting;

  static Condition& Of(pthread_cond_t* condition) {
    return *reinterpret_cast<Condition*>(condition);
  }
};
static_assert(sizeof(Condition) <= sizeof(pthread_cond_t));

}  // namespace

void LockMutex(Kernel& kernel, pthread_mutex_t* mutex) {
  Mutex& its = Mutex::Of(mutex);
  kernel.Preempt();
  while (!its.Take()) {
    if (its.owner == Fibre::Current()) {
      fprintf(stderr, "a thread locks a mutex that it holds\n");
      abort();
    }
    its.waiting.Add(Fibre::Current());
    kernel.Block(kNever);
  }
}

bool TryLockMutex(Kernel& kernel, pthread_mutex_t* mutex) {
  kernel.Preempt();
  return Mutex::Of(mutex).Take();
}

void UnlockMutex(Kernel& kernel, pthread_mutex_t* mutex) {
  Mutex::Of(mutex).Release(kernel);
  kernel.Preempt();
}

bool WaitForCondition(Kernel& kernel, pthread_cond_t* condition, pthread_mutex_t* mutex,
                      int64_t deadline) {
  Condition& its = Condition::Of(condition);
  its.waiting.Add(Fibre::Current());
  Mutex::Of(mutex).Release(kernel);
  const bool woken = kernel.Wait(deadline);
  if (!woken) its.waiting.Remove(Fibre::Current());
  LockMutex(kernel, mutex);
  return woken;
}

void WakeCondition(Kernel& kernel, pthread_cond_t* condition, bool all) {
  Condition& its = Condition::Of(condition);
  do {
    Fibre* const next = its.waiting.Take();
    if (next == nullptr) return;
    kernel.Wake(next);
  } while (all);
}

}  // namespace redlatch::sim
