// Links the whole library, and needs no server: no server listens at port 1.
#include <iostream>

#include "redlatch/client.h"
#include "redlatch/version.h"

int main() {
  const auto client = redlatch::Client::Connect("redis://127.0.0.1:1");
  std::cout << "redlatch " << redlatch::Version() << ": " << client.status() << "\n";
  return absl::IsUnavailable(client.status()) && redlatch::Version() == REDLATCH_VERSION_STRING ? 0 : 1;
}
