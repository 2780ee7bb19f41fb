// Prints the address of each function of ours that one uncontended lock() and one unlock() enter,
// on the calling thread, in the order of their first entry. tests/call_trace/check.py counts them.
#include <cstddef>
#include <cstdio>

#include "redlatch/client.h"
#include "redlatch/simple_lock.h"

namespace {

thread_local bool tracing = false;
void* entered[4096];
size_t count = 0;

}  // namespace

extern "C" {
__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void* function, void*) {
  if (!tracing) return;
  for (size_t i = 0; i < count; ++i) {
    if (entered[i] == function) return;
  }
  if (count < 4096) entered[count++] = function;
}
__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void*, void*) {}
}

namespace {

__attribute__((no_instrument_function)) void Print(const char* call) {
  for (size_t i = 0; i < count; ++i) std::printf("%s %p\n", call, entered[i]);
  count = 0;
}

}  // namespace

__attribute__((no_instrument_function)) int main() {
  absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect("embedded:");
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", std::string(client.status().message()).c_str());
    return 1;
  }
  redlatch::SimpleLock lock(*client, "call-trace");
  for (int i = 0; i < 10; ++i) {  // connections are made, scripts are known
    lock.lock();
    lock.unlock();
  }
  tracing = true;
  lock.lock();
  tracing = false;
  Print("lock");
  tracing = true;
  lock.unlock();
  tracing = false;
  Print("unlock");
}
