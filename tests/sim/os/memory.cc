// malloc() and its relatives. The simulator runs in one real thread, in short processes that are
// forked from one that has warmed up. So this allocator needs no locks and returns nothing to the
// system, and takes a fraction of the time of libc's own.
#include "tests/sim/os/memory.h"

#ifdef REDLATCH_SIM_ASAN
void redlatch::sim::UseNewPages() {}
#else
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kMost = size_t{16} << 30;  // of addresses

// Precedes each block, which is aligned to 16 bytes.
struct Header {
  uint32_t its_class;
  uint32_t skipped;  // bytes between the block and what malloc() returned, for a greater alignment
};
struct Free {
  Free* next;
};

Free* unused[192];  // of each class
char* next = nullptr;
char* end = nullptr;

// Blocks have 16, 32, ... 1024 bytes including the header, and then four sizes per power of two.
uint32_t ClassOf(size_t size) {
  if (size <= 1024) return static_cast<uint32_t>((size + 15) / 16);
  const auto log = static_cast<size_t>(std::bit_width(size - 1));
  const size_t quarter = (size - 1) >> (log - 3);  // 4 to 7
  return static_cast<uint32_t>(65 + 4 * (log - 11) + quarter - 4);
}
size_t SizeOf(uint32_t of) {
  if (of <= 64) return size_t{16} * of;
  return size_t{(of - 65) % 4 + 5} << ((of - 65) / 4 + 8);
}

Header& HeaderOf(void* block) { return static_cast<Header*>(block)[-1]; }
size_t RoomIn(void* block) {
  return SizeOf(HeaderOf(block).its_class) - sizeof(Header) - HeaderOf(block).skipped;
}

void* TakeNew(uint32_t its_class) {
  if (next == nullptr) {
    void* const made = mmap(nullptr, kMost, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) abort();
    madvise(made, kMost, MADV_HUGEPAGE);
    next = static_cast<char*>(made) + sizeof(Header);
    end = static_cast<char*>(made) + kMost;
  }
  const size_t size = SizeOf(its_class);
  if (size > static_cast<size_t>(end - next)) abort();
  char* const block = next + sizeof(Header);
  next += size;
  HeaderOf(block) = {.its_class = its_class, .skipped = 0};
  return block;
}

void* Take(size_t size) {
  if (size > kMost / 2) {
    errno = ENOMEM;
    return nullptr;
  }
  const uint32_t its_class = ClassOf(size + sizeof(Header));
  Free* const taken = unused[its_class];
  if (taken == nullptr) return TakeNew(its_class);
  unused[its_class] = taken->next;
  return taken;
}

}  // namespace

void redlatch::sim::UseNewPages() {
  std::ranges::fill(unused, nullptr);
  next += kPage - reinterpret_cast<uintptr_t>(next) % kPage + sizeof(Header);
}

// NOLINTBEGIN: the names and types are libc's.
extern "C" {

void* malloc(size_t size) { return Take(size); }
void free(void* block) {
  if (block == nullptr) return;
  const Header header = HeaderOf(block);
  auto* const freed = reinterpret_cast<Free*>(static_cast<char*>(block) - header.skipped);
  freed->next = unused[header.its_class];
  unused[header.its_class] = freed;
}
void* calloc(size_t count, size_t size) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX / 2;
  void* const made = Take(bytes);
  return made == nullptr ? nullptr : memset(made, 0, bytes);
}
void* realloc(void* block, size_t size) {
  if (block == nullptr) return Take(size);
  const size_t room = RoomIn(block);
  if (size <= room) return block;
  void* const made = Take(size);
  if (made == nullptr) return nullptr;
  memcpy(made, block, room);
  free(block);
  return made;
}
void* aligned_alloc(size_t alignment, size_t size) {
  char* const made = static_cast<char*>(Take(size + alignment));
  if (made == nullptr) return nullptr;
  const size_t skipped = -reinterpret_cast<uintptr_t>(made) & (alignment - 1);
  const uint32_t its_class = HeaderOf(made).its_class;
  HeaderOf(made + skipped) = {.its_class = its_class, .skipped = static_cast<uint32_t>(skipped)};
  return made + skipped;
}
void* memalign(size_t alignment, size_t size) { return aligned_alloc(alignment, size); }
int posix_memalign(void** out, size_t alignment, size_t size) {
  *out = aligned_alloc(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}
size_t malloc_usable_size(void* block) { return block == nullptr ? 0 : RoomIn(block); }

}  // extern "C"
   // NOLINTEND
#endif
