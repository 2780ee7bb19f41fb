#include "src/base/fork_guard.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

#include "src/base/atomic.h"
#include "src/base/random.h"

namespace redlatch::base {
namespace {

Atomic<uint64_t>* MapPage() {
  const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) std::abort();
  return new (page) Atomic<uint64_t>(0);
}

Atomic<uint64_t>* Page() {
  static Atomic<uint64_t>* const page = [] {
    auto* made = MapPage();
    if (madvise(made, static_cast<size_t>(sysconf(_SC_PAGESIZE)), MADV_WIPEONFORK) != 0) {
      // Before Linux 4.14. This notices fork(), but not a raw clone().
      pthread_atfork(nullptr, nullptr, [] { Page()->store(0); });
    }
    return made;
  }();
  return page;
}

}  // namespace

ForkGuard::ForkGuard() : process_(Page()), made_in_(0) {
  uint64_t number = Page()->load();
  if (number == 0) {
    const uint64_t fresh = RandomBits() | 1;
    if (Page()->compare_exchange_strong(number, fresh)) number = fresh;
  }
  made_in_ = number;
}

}  // namespace redlatch::base
