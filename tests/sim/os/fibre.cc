#include "tests/sim/os/fibre.h"

#include <cxxabi.h>
#include <link.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdlib>
#include <cstring>
#include <utility>

namespace redlatch::sim {
namespace {

constexpr size_t kStackSize = size_t{256} << 10;

// The program's own thread-local variables, as the one real thread has them; and what they are when
// a thread begins.
struct ThreadLocals {
  char* here = nullptr;
  size_t size = 0;
  std::vector<char> at_start;

  static const ThreadLocals& Get() {
    static const ThreadLocals* const found = [] {
      auto* made = new ThreadLocals;
      dl_iterate_phdr(&Find, made);
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

// Stacks are used again: to map one takes longer than many a simulated thread lives.
std::vector<char*>& FreeStacks() {
  static auto* const stacks = new std::vector<char*>;
  return *stacks;
}

char* TakeStack() {
  if (!FreeStacks().empty()) {
    char* const stack = FreeStacks().back();
    FreeStacks().pop_back();
    return stack;
  }
  void* const made = mmap(nullptr, kStackSize, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (made == MAP_FAILED) abort();
  mprotect(made, 4096, PROT_NONE);
  return static_cast<char*>(made);
}

}  // namespace

Fibre* Fibre::current_ = nullptr;

Fibre::Fibre(Process* its_process, std::function<void()> code)
    : process(its_process), code_(std::move(code)), stack_(TakeStack()) {
  const ThreadLocals& locals = ThreadLocals::Get();
  thread_locals_ = std::make_unique<char[]>(locals.size + 1);
  memcpy(thread_locals_.get(), locals.at_start.data(), locals.size);
}

Fibre::~Fibre() { FreeStacks().push_back(stack_); }

void Fibre::SwapThreadLocals() {
  const ThreadLocals& locals = ThreadLocals::Get();
  std::swap_ranges(locals.here, locals.here + locals.size, thread_locals_.get());
  auto* const exceptions = reinterpret_cast<uint64_t*>(abi::__cxa_get_globals());
  std::swap_ranges(exceptions, exceptions + 2, exception_state_);
}

__attribute__((noinline)) void Fibre::Enter() {
  current_ = this;
  SwapThreadLocals();
  if (_setjmp(outside_) == 0) {
    if (started_) _longjmp(inside_, 1);
    started_ = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stack_;
    context.uc_stack.ss_size = kStackSize;
    context.uc_link = nullptr;
    makecontext(&context, &Fibre::Main, 0);
    setcontext(&context);
  }
  current_->SwapThreadLocals();
  current_ = nullptr;
}

__attribute__((noinline)) void Fibre::Leave() {
  if (_setjmp(inside_) == 0) _longjmp(outside_, 1);
}

void Fibre::Main() { current_->Run(); }

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
