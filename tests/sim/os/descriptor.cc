#include "tests/sim/os/descriptor.h"

#include <algorithm>

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
  for (const auto& each : watchers) {
    if (const std::shared_ptr<Descriptor> watcher = each.lock()) watcher->Changed();
  }
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

}  // namespace redlatch::sim
