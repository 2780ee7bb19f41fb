#include "tests/sim/os/fibre.h"

#include <cxxabi.h>
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#ifdef REDLATCH_SIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace redlatch::sim {
namespace {

constexpr size_t kStackSize = size_t{256} << 10;

// The program's own thread-local variables, where the one real thread has them, and their values
// when a thread starts.
struct ThreadLocals {
  char* here = nullptr;
  size_t size = 0;
  std::vector<char> at_start;
  mutable std::unique_ptr<char[]> spare;

  static const ThreadLocals& Get() {
    static const ThreadLocals* const found = [] {
      auto* made = new ThreadLocals;
      dl_iterate_phdr(&Find, made);
      made->spare = std::make_unique<char[]>(made->size + 1);
      return made;
    }();
    return *found;
  }

 private:
  // The first object is the program.
  static int Find(dl_phdr_info* info, size_t, void* out) {
    auto* const found = static_cast<ThreadLocals*>(out);
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const ElfW(Phdr)& header = info->dlpi_phdr[i];
      if (header.p_type != PT_TLS || info->dlpi_tls_data == nullptr) continue;
      found->here = static_cast<char*>(info->dlpi_tls_data);
      found->size = header.p_memsz;
      found->at_start.assign(header.p_memsz, 0);
      memcpy(found->at_start.data(), reinterpret_cast<void*>(info->dlpi_addr + header.p_vaddr),
             header.p_filesz);
    }
    return 1;
  }
};

void* main_fake_stack = nullptr;
const void* main_stack = nullptr;  // known once a fibre has been entered
size_t main_stack_size = 0;

// Stacks are reused: mapping a new one takes longer than many a simulated thread lives.
std::vector<char*>& FreeStacks() {
  static auto* const stacks = new std::vector<char*>;
  return *stacks;
}

char* TakeStack() {
  if (!FreeStacks().empty()) {
    char* const stack = FreeStacks().back();
    FreeStacks().pop_back();
#ifdef REDLATCH_SIM_ASAN
    ASAN_UNPOISON_MEMORY_REGION(stack, kStackSize);  // of the stack that a killed thread left
#endif
    return stack;
  }
  void* const made = mmap(nullptr, kStackSize, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (made == MAP_FAILED) abort();
  mprotect(made, 4096, PROT_NONE);
  return static_cast<char*>(made);
}

// AddressSanitizer must know which stack the program uses.
#ifdef REDLATCH_SIM_ASAN
void BeginSwitch(void** fake_stack, const void* bottom, size_t size) {
  __sanitizer_start_switch_fiber(fake_stack, bottom, size);
}
void EndSwitch(void* fake_stack) {
  const void* bottom = nullptr;
  size_t size = 0;
  __sanitizer_finish_switch_fiber(fake_stack, &bottom, &size);
  if (main_stack == nullptr) main_stack = bottom, main_stack_size = size;
}
#else
void BeginSwitch(void**, const void*, size_t) {}
void EndSwitch(void*) {}
#endif

}  // namespace

Fibre* Fibre::current_ = nullptr;

// Saves the registers that a call preserves on the current stack, and continues on another stack.
extern "C" void redlatch_sim_switch(void** left, void* entered);
#if defined(__x86_64__)
asm(R"(
.text
.type redlatch_sim_switch, @function
redlatch_sim_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size redlatch_sim_switch, .-redlatch_sim_switch
)");
constexpr size_t kFrame = 8, kReturnAddress = 6;  // words; one more keeps the stack aligned
#elif defined(__aarch64__)
asm(R"(
.text
.type redlatch_sim_switch, %function
redlatch_sim_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size redlatch_sim_switch, .-redlatch_sim_switch
)");
constexpr size_t kFrame = 20, kReturnAddress = 11;
#endif

namespace {

// The frame that redlatch_sim_switch() finds on a new stack. It returns to `code`.
void* FirstFrame(char* end, void (*code)()) {
  auto* const frame = reinterpret_cast<uintptr_t*>(end) - kFrame;
  std::fill_n(frame, kFrame, 0);
  frame[kReturnAddress] = reinterpret_cast<uintptr_t>(code);
  return frame;
}

}  // namespace

Fibre::Fibre(Process* its_process, std::function<void()> code)
    : process(its_process),
      code_(std::move(code)),
      stack_(TakeStack()),
      inside_(FirstFrame(stack_ + kStackSize, &Fibre::Main)) {
  const ThreadLocals& locals = ThreadLocals::Get();
  thread_locals_ = std::make_unique<char[]>(locals.size + 1);
  memcpy(thread_locals_.get(), locals.at_start.data(), locals.size);
}

Fibre::~Fibre() { FreeStacks().push_back(stack_); }

void Fibre::SwapThreadLocals() {
  const ThreadLocals& locals = ThreadLocals::Get();
  memcpy(locals.spare.get(), locals.here, locals.size);
  memcpy(locals.here, thread_locals_.get(), locals.size);
  thread_locals_.swap(locals.spare);
  auto* const exceptions = reinterpret_cast<uint64_t*>(abi::__cxa_get_globals());
  std::swap_ranges(exceptions, exceptions + 2, exception_state_);
}

void Fibre::Enter() {
  current_ = this;
  SwapThreadLocals();
  BeginSwitch(&main_fake_stack, stack_, kStackSize);
  redlatch_sim_switch(&outside_, inside_);
  EndSwitch(main_fake_stack);
  current_->SwapThreadLocals();
  current_ = nullptr;
}

void Fibre::Leave() {
  BeginSwitch(ended ? nullptr : &fake_stack_, main_stack, main_stack_size);
  redlatch_sim_switch(&inside_, outside_);
  EndSwitch(fake_stack_);
}

void Fibre::Main() {
  EndSwitch(nullptr);
  current_->Run();
}

void Fibre::Run() {
  code_();
  code_ = nullptr;
  while (!destructors_.empty()) {
    const Destructor last = destructors_.back();
    destructors_.pop_back();
    last.destroy(last.object);
  }
  ended = true;
  Leave();
  abort();  // it was entered after its end
}

}  // namespace redlatch::sim
