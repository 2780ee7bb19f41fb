#include "src/cli/term/for_each.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace redlatch::cli {

void ForEach(size_t count, size_t at_once, const std::function<void(size_t i)>& work) {
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < std::min(count, at_once); ++i) {
    threads.emplace_back([&] {
      for (size_t mine = next++; mine < count; mine = next++) work(mine);
    });
  }
}

}  // namespace redlatch::cli
