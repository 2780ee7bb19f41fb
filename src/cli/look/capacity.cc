#include "src/cli/look/capacity.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "src/cli/look/sight.h"
#include "src/cli/term/command_line.h"
#include "src/cli/term/complain.h"
#include "src/cli/term/exit_codes.h"
#include "src/cli/term/refusal.h"
#include "src/cli/term/server.h"
#include "src/cli/term/text.h"

namespace redlatch::cli {
namespace {

int Set(const std::string& url, const Sight& seen, const std::string& name, int64_t capacity) {
  if (absl::Status set = SetCapacity(url, name, capacity); !set.ok()) return Refuse(set);
  const std::string before = !seen.exists ? "nobody has used that name lately"
                                          : absl::StrCat(seen.info.capacity, " before");
  std::printf("semaphore \"%s\": %s in all, %s\n", Printable(name).c_str(),
              Counted(capacity, "permit").c_str(), before.c_str());
  return 0;
}

int ShowOrSet(Server& server, const std::string& url, const std::string& name,
              std::optional<int64_t> capacity) {
  const absl::StatusOr<Sight> seen = LookClosely(server, url, name);
  if (!seen.ok()) return Refuse(seen.status());
  if (seen->exists && seen->row.kind != "semaphore") {
    Complain({Called(seen->row), " is not a semaphore; redlatch inspect shows what it is"});
    return kRefused;
  }
  if (capacity) return Set(url, *seen, name, *capacity);
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
  absl::Status parsed = line.Parse(words);
  std::optional<int64_t> capacity;
  if (parsed.ok() && !line.help()) {
    if (line.operands().empty() || line.operands()[0].empty()) {
      parsed = WrongUsage("the semaphore's name is missing", "say redlatch capacity NAME [N]");
    } else if (line.operands().size() > 1) {
      int64_t number = 0;
      if (absl::SimpleAtoi(line.operands()[1], &number)) {
        capacity = number;
      } else {
        parsed = WrongUsage(absl::StrCat("\"", Printable(line.operands()[1]), "\" is not a number"),
                            "say how many permits there are to be in all");
      }
    }
  }
  if (!parsed.ok()) {
    Complain({std::string(parsed.message())});
    return kFailure;
  }
  if (line.help()) {
    std::fputs(Help(kCapacityPage).c_str(), stdout);
    return 0;
  }
  const absl::StatusOr<std::unique_ptr<Server>> server = Server::Open(line.server());
  if (!server.ok()) return Refuse(server.status());
  return ShowOrSet(**server, line.server(), line.operands()[0], capacity);
}

}  // namespace redlatch::cli
