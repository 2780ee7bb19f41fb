#ifndef REDLATCH_TESTS_SIM_OS_OBJECTS_H_
#define REDLATCH_TESTS_SIM_OS_OBJECTS_H_

#include <poll.h>
#include <pthread.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/sim/os/kernel.h"

namespace redlatch::sim {

// What a file descriptor of a simulated process stands for.
class Descriptor {
 public:
  virtual ~Descriptor() = default;

  // The events of poll(2) that hold now.
  virtual short Events() const = 0;
  virtual void Closed() {}

  // Wakes the fibres that poll it.
  void Changed();

  Process* owner = nullptr;
  std::vector<Fibre*> pollers;
  std::vector<std::weak_ptr<Descriptor>> sets;  // epoll sets with this one in them
  int signal = 0;                               // see F_SETSIG
};

class EventDescriptor final : public Descriptor {
 public:
  short Events() const override { return count > 0 ? POLLIN | POLLOUT : POLLOUT; }

  uint64_t count = 0;
};

// An epoll set. Nothing waits in it: it is polled.
class SetDescriptor final : public Descriptor {
 public:
  short Events() const override;

  // epoll_ctl(2). Returns 0 or an errno.
  int Add(const std::shared_ptr<SetDescriptor>& self, const std::shared_ptr<Descriptor>& member,
          short events);
  int Remove(const std::shared_ptr<Descriptor>& member);

 private:
  struct Member {
    std::weak_ptr<Descriptor> descriptor;
    short events;
  };
  std::vector<Member>::iterator Find(const std::shared_ptr<Descriptor>& member);

  std::vector<Member> members_;
};

// poll(2) on simulated descriptors.
int PollDescriptors(Kernel& kernel, pollfd* fds, size_t count, int timeout_ms);

void LockMutex(Kernel& kernel, pthread_mutex_t* mutex);
bool TryLockMutex(Kernel& kernel, pthread_mutex_t* mutex);
void UnlockMutex(Kernel& kernel, pthread_mutex_t* mutex);

// Returns false if the deadline came first.
bool WaitForCondition(Kernel& kernel, pthread_cond_t* condition, pthread_mutex_t* mutex,
                      int64_t deadline);
void WakeCondition(Kernel& kernel, pthread_cond_t* condition, bool all);

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_OS_OBJECTS_H_
