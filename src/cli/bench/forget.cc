#include "src/cli/bench/forget.h"

#include <functional>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/cli/bench/places.h"
#include "src/cli/bench/plain_lock.h"
#include "src/cli/look/lock_keys.h"
#include "src/redis/connect/plain_connection.h"

namespace redlatch::cli {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(5);

absl::Status Forget(const BenchPlan& plan, const std::vector<std::string>& names,
                    const std::function<redis::Url(const std::string& name)>& where) {
  absl::Status status;
  for (const std::string& name : names) {
    auto connection = redis::PlainConnection::Open(where(name), base::Now() + kPatience);
    status.Update(connection.ok() ? Ask(*connection, DeleteLocks({name}), plan).status()
                                  : connection.status());
    if (absl::IsUnavailable(status)) break;  // and so would the next ones be, each after a while
  }
  return status;
}

}  // namespace

absl::Status ForgetBench(const BenchPlan& plan) {
  std::vector<std::string> names = {SharedName(plan), HandOverName(plan)};
  names.insert(names.end(), plan.own_names.begin(), plan.own_names.end());
  if (plan.url.members.empty()) {
    return Forget(plan, names, [&](const std::string& name) { return UrlOf(plan, name); });
  }
  absl::Status status;
  for (const redis::Url& member : plan.url.members) {
    status.Update(Forget(plan, names, [&](const std::string&) { return member; }));
  }
  return status;
}

}  // namespace redlatch::cli
