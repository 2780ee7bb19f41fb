#include "benchmarks/lock_loop.h"

#include <cstdio>
#include <cstdlib>

#include "absl/status/statusor.h"
#include "benchmarks/bench_server.h"

namespace redlatch::bench {

Client& SharedClient() {
  static Client* const client = [] {
    absl::StatusOr<Client> made = Client::Connect(ServerUrl());
    if (!made.ok()) {
      std::fprintf(stderr, "cannot connect to the benchmarks' own server: %s\n",
                   made.status().ToString().c_str());
      std::exit(1);
    }
    return new Client(*std::move(made));
  }();
  return *client;
}

}  // namespace redlatch::bench
