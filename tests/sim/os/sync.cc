#include "tests/sim/os/sync.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace redlatch::sim {
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
    // The threads of a dead process wait for nothing.
    while (first != nullptr && first->process->dead) first = first->next;
    Fibre* const taken = first;
    if (taken != nullptr) first = taken->next;
    return taken;
  }
};

// What is kept in the memory of a pthread_mutex_t, which is all zeros where nothing has locked it
// yet, and whose kind (at offset 16) stays as it is.
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
