// redlatch-demo: what the lock is for, and what it does when a process dies or freezes.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "src/demo/show.h"
#include "src/demo/worker.h"

int main(int argc, char** argv) {
  if (argc == 6 && std::string_view(argv[1]) == "--worker") {
    return redlatch::demo::RunWorker(
        {.worker = std::atoi(argv[2]), .url = argv[3], .lock = argv[4], .counter_path = argv[5]});
  }
  if (argc > 2 || (argc == 2 && std::string_view(argv[1]).starts_with("-"))) {
    std::fprintf(stderr,
                 "usage: redlatch-demo [URL]\n\nThe default URL is embedded:; redlatch/client.h "
                 "lists the others.\n");
    return 2;
  }
  return redlatch::demo::RunShow(argc == 2 ? argv[1] : "embedded:");
}
