#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "src/cli/look/sight.h"
#include "src/cli/term/command_line.h"
#include "src/cli/term/commands.h"
#include "src/cli/term/outcome.h"
#include "src/cli/term/server.h"
#include "src/cli/term/text.h"

namespace redlatch::cli {
namespace {

int Set(const Server& server, const Sight& seen, const std::string& name, int64_t capacity) {
  if (absl::Status set = SetCapacity(server, name, capacity); !set.ok()) return Refuse(set);
  const std::string before = !seen.exists ? "nobody has used that name lately"
                                          : absl::StrCat(seen.info.capacity, " before");
  std::printf("semaphore \"%s\": %s in all, %s\n", Printable(name).c_str(),
              Counted(capacity, "permit").c_str(), before.c_str());
  return 0;
}

int ShowOrSet(Server& server, const std::string& name, std::optional<int64_t> capacity) {
  const absl::StatusOr<Sight> seen = LookClosely(server, name);
  if (!seen.ok()) return Refuse(seen.status());
  if (seen->exists && !seen->row.is_semaphore()) {
    Complain({Called(seen->row), " is not a semaphore; redlatch inspect shows what it is"});
    return kRefused;
  }
  if (capacity) return Set(server, *seen, name, *capacity);
  if (!seen->exists) {
    Complain({"there is no semaphore \"", Printable(name), "\" at ", server.name(),
              "; redlatch ls --all lists what there is"});
    return kNo;
  }
  std::printf("%s\n", absl::StrCat(seen->info.capacity).c_str());
  return 0;
}

}  // namespace

int Capacity(const std::vector<std::string>& words) {
  CommandLine line("capacity");
  line.Operands(2, "say redlatch capacity NAME [N]");
  line.NeedsName("semaphore", "say redlatch capacity NAME [N]");
  if (const std::optional<int> over = line.Parse(words)) return *over;
  std::optional<int64_t> capacity;
  if (line.operands().size() > 1) {
    const std::string& number = line.operands()[1];
    if (!absl::SimpleAtoi(number, &capacity.emplace())) {
      return Refuse(WrongUsage(absl::StrCat("\"", Printable(number), "\" is not a number"),
                               "say how many permits there are to be in all"));
    }
  }
  const absl::StatusOr<std::unique_ptr<Server>> server = Server::Open(line.server());
  if (!server.ok()) return Refuse(server.status());
  return ShowOrSet(**server, line.operands()[0], capacity);
}

}  // namespace redlatch::cli
