#include "tests/redis/memory/replaced_new.h"

#include <sys/prctl.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/redis/memory/fork_sweep.h"

namespace {

// A mark before each block reveals a second release of that block.
struct alignas(16) Mark {
  static constexpr uint64_t kInUse = 0x72656c65617365;
  uint64_t value;
};

bool IsOfLibrary() {
  char name[16] = "";
  prctl(PR_GET_NAME, name);
  return std::strncmp(name, "redlatch-", 9) == 0;
}

bool Fails() {
  if (redlatch::allocations_left > 0) return --redlatch::allocations_left == 0;
  return redlatch::threads_allocations_left > 0 && IsOfLibrary() &&
         redlatch::threads_allocations_left-- == 1;
}

}  // namespace

void* operator new(size_t size) {
  if (Fails()) throw std::bad_alloc();
  redlatch::Step();
  auto* mark = static_cast<Mark*>(std::malloc(sizeof(Mark) + size));
  if (mark == nullptr) throw std::bad_alloc();
  mark->value = Mark::kInUse;
  return mark + 1;
}
void* operator new(size_t size, const std::nothrow_t&) noexcept try {
  return operator new(size);
} catch (const std::bad_alloc&) {
  return nullptr;
}
void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  auto* mark = static_cast<Mark*>(memory) - 1;
  if (mark->value != Mark::kInUse) std::abort();
  mark->value = 0;
  std::free(mark);
  redlatch::Step();  // before the pointer to it is changed
}
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
