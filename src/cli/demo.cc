// The smallest honest demonstration: connects, runs a script on the server, and says how long one
// round trip takes.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lua/scripts.h"
#include "src/base/clock.h"
#include "src/redis/channel.h"
#include "src/redis/scripts.h"
#include "src/redis/url.h"

namespace redlatch {
namespace {

constexpr int kRounds = 2000;

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "redlatch-demo: %s\n", std::string(status.message()).c_str());
  return 1;
}

double Microseconds(const std::vector<absl::Duration>& sorted, double share) {
  const auto at = static_cast<size_t>(share * static_cast<double>(sorted.size() - 1));
  return absl::ToDoubleMicroseconds(sorted[at]);
}

int Demo(std::string_view url_text) {
  const absl::StatusOr<redis::Url> url = redis::ParseUrl(url_text);
  if (!url.ok()) return Fail(url.status());
  redis::Channel channel(*url);
  std::printf("connecting to %s ...\n", channel.server().c_str());
  const absl::Status connected = channel.Connect(base::Now() + absl::Seconds(10));
  if (!connected.ok()) return Fail(connected);
  std::printf("connected: version %s\n", channel.server_info().version.c_str());
  for (const std::string& warning : channel.server_info().warnings) {
    std::printf("warning: %s\n", warning.c_str());
  }

  redis::Scripts scripts(channel);
  std::vector<absl::Duration> times;
  for (int round = 0; round < kRounds; ++round) {
    const std::string sent = "round " + std::to_string(round);
    const std::string_view args[] = {sent};
    const base::Instant begun = base::Now();
    const absl::StatusOr<redis::Reply> reply = scripts.Run(
        {.script = &lua::kDemoRoundTrip, .keys = {}, .args = args}, begun + url->command_timeout);
    if (!reply.ok()) return Fail(reply.status());
    times.push_back(base::Now() - begun);
    if (reply->elements.size() != 3 || reply->elements[0].text != sent) {
      return Fail(absl::InternalError("the script answered " + reply->DebugString()));
    }
  }
  std::sort(times.begin(), times.end());
  std::printf("ran %.*s %d times: median %.1f us, 99 %% within %.1f us, slowest %.1f us\n",
              static_cast<int>(lua::kDemoRoundTrip.name.size()), lua::kDemoRoundTrip.name.data(),
              kRounds, Microseconds(times, 0.5), Microseconds(times, 0.99), Microseconds(times, 1));
  return 0;
}

}  // namespace
}  // namespace redlatch

int main(int argc, char** argv) {
  if (argc > 2 || (argc == 2 && std::string_view(argv[1]).starts_with("-"))) {
    std::fprintf(stderr,
                 "usage: redlatch-demo [URL]\n\nThe URL is embedded: where none is given; "
                 "see redlatch/client.h for the others.\n");
    return 2;
  }
  return redlatch::Demo(argc == 2 ? argv[1] : "embedded:");
}
