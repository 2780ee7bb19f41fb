#include "tests/support/lock_history.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "src/base/unique_fd.h"
#include "tests/support/fatal.h"

namespace redlatch::support {

// Each member is written once, but for the last two; 0 is: not yet.
struct HistoryWriter::Slot {
  std::atomic<int64_t> invoked;  // the first to be written
  std::atomic<int64_t> returned;
  std::atomic<int64_t> ended;  // release called, or loss noticed
  std::atomic<int64_t> deadline;
  std::atomic<uint64_t> token;
  int64_t owner;
  int32_t lock;
  int32_t permits;
  bool waits;
  bool shared;
  std::atomic<bool> held;
};

namespace {

constexpr size_t kSlots = size_t{1} << 17;
constexpr int64_t kOwnersAProcess = 1000;

}  // namespace

HistoryWriter::HistoryWriter(const std::string& path, int process) : process_(process) {
  const base::UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  CheckErrno(file.get() >= 0, path.c_str());
  const size_t size = kSlots * sizeof(Slot);
  CheckErrno(ftruncate(file.get(), static_cast<off_t>(size)) == 0, "ftruncate");
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  CheckErrno(memory != MAP_FAILED, "mmap");
  slots_ = static_cast<Slot*>(memory);  // a hole of a file: all zero
}

HistoryWriter::~HistoryWriter() { munmap(slots_, kSlots * sizeof(Slot)); }

bool HistoryWriter::full() const { return used_ + 1000 > kSlots; }

uint32_t HistoryWriter::Invoke(int lock, int owner, bool waits, bool shared, int permits) {
  const uint32_t number = used_++;
  if (number >= kSlots) Fatal("a history is full");
  Slot& slot = slots_[number];
  slot.lock = lock;
  slot.owner = owner < 0 ? owner : process_ * kOwnersAProcess + owner;
  slot.waits = waits;
  slot.shared = shared;
  slot.permits = permits;
  slot.invoked = base::Now().nanos();
  return number;
}

void HistoryWriter::Refused(uint32_t acquisition) {
  slots_[acquisition].returned = base::Now().nanos();
}

void HistoryWriter::Held(uint32_t acquisition, uint64_t token) {
  Slot& slot = slots_[acquisition];
  const int64_t now = base::Now().nanos();
  slot.token = token;
  slot.held = true;
  slot.returned = now;
}

void HistoryWriter::Remaining(uint32_t acquisition, base::Instant asked, absl::Duration remaining) {
  if (remaining <= absl::ZeroDuration()) return Lost(acquisition);
  Slot& slot = slots_[acquisition];
  slot.deadline = std::max(slot.deadline.load(), (asked + remaining).nanos());
}

void HistoryWriter::Lost(uint32_t acquisition) { ReleaseInvoked(acquisition); }

void HistoryWriter::ReleaseInvoked(uint32_t acquisition) {
  int64_t none = 0;
  slots_[acquisition].ended.compare_exchange_strong(none, base::Now().nanos());
}

uint64_t HistoryWriter::TokenOf(uint32_t acquisition) const { return slots_[acquisition].token; }

std::vector<Acquisition> ReadHistory(const std::string& path) {
  std::vector<Acquisition> read;
  const base::UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return read;  // ended before it began
  const size_t size = kSlots * sizeof(HistoryWriter::Slot);
  if (lseek(file.get(), 0, SEEK_END) < static_cast<off_t>(size)) return read;
  void* const memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  CheckErrno(memory != MAP_FAILED, "mmap");
  const auto* const slots = static_cast<const HistoryWriter::Slot*>(memory);
  for (size_t i = 0; i < kSlots; ++i) {
    const HistoryWriter::Slot& slot = slots[i];
    if (slot.invoked == 0) continue;  // two threads may have begun, and one not written
    Acquisition one{.lock = slot.lock,
                    .owner = slot.owner,
                    .waits = slot.waits,
                    .shared = slot.shared,
                    .permits = slot.permits,
                    .invoked = base::Instant::FromNanos(slot.invoked)};
    if (slot.returned != 0) {
      one.returned = base::Instant::FromNanos(slot.returned);
      one.outcome = slot.held ? Acquisition::Outcome::kHeld : Acquisition::Outcome::kRefused;
      one.token = slot.token;
      one.certain_until = base::Instant::FromNanos(slot.deadline);
      if (slot.ended != 0) {
        one.certain_until = std::min(one.certain_until, base::Instant::FromNanos(slot.ended));
      }
    }
    read.push_back(one);
  }
  munmap(memory, size);
  return read;
}

}  // namespace redlatch::support
