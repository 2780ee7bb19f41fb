// What a user's program does first, built against redlatch as a user would.
#include <redlatch/version.h>

#include <cstdio>

#if __has_include(<redlatch/client.h>)
#include <redlatch/client.h>

static bool RefusesToConnectToNothing() {
  const absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect("redis://127.0.0.1:1");
  std::printf("%s\n", client.status().ToString().c_str());
  return absl::IsUnavailable(client.status());
}
#else
static bool RefusesToConnectToNothing() { return true; }
#endif

int main() {
  char headers[32];
  std::snprintf(headers, sizeof headers, "%d.%d.%d", REDLATCH_VERSION_MAJOR, REDLATCH_VERSION_MINOR,
                REDLATCH_VERSION_PATCH);
  if (redlatch::Version() != headers || redlatch::Version() != REDLATCH_VERSION_STRING) return 1;
  return RefusesToConnectToNothing() ? 0 : 1;
}
