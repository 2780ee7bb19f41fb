#include "src/cli/look/processes.h"

#include "absl/strings/str_cat.h"
#include "src/lock/description.h"

namespace redlatch::cli {
void Processes::Ask(Server& server, const std::vector<std::string>& holds) {
  Questions questions;
  for (const std::string& hold : holds) {
    const std::string client(internal::ClientOf(hold));
    if (client.empty() || !by_client_.try_emplace(client).second) continue;
    questions.Add({"GET", absl::StrCat(std::string(internal::kDescriptionKeyPrefix), client)},
                  [this, client](const redis::Reply& reply) {
                    by_client_[client] =
                        internal::ReadDescription(reply.text).value_or(LockInfo::Process());
                  });
  }
  (void)questions.Ask(server, Unreachable::kIsNil);
}

LockInfo::Process Processes::Of(std::string_view hold) const {
  const auto found = by_client_.find(std::string(internal::ClientOf(hold)));
  return found == by_client_.end() ? LockInfo::Process() : found->second;
}

std::string Described(const LockInfo::Process& process, std::string_view hold) {
  if (process.pid != 0) {
    return Printable(absl::StrCat(process.host, ":", process.pid, " ", process.program));
  }
  const std::string_view client = internal::ClientOf(hold);
  if (client.empty()) {
    return absl::StrCat("\"", Cut(Printable(hold), 40), "\", not by redlatch");
  }
  return absl::StrCat("client ", std::string(client.substr(0, 8)), ", process unknown");
}

std::string InProse(const LockInfo::Process& process, std::string_view hold) {
  if (process.pid == 0) return Described(process, hold);
  return Printable(absl::StrCat(process.program, " (", process.host, ", pid ", process.pid, ")"));
}

void AddProcess(const LockInfo::Process& process, JsonObject& json) {
  if (process.pid == 0) return;
  json.Text("host", process.host);
  json.Number("pid", process.pid);
  json.Text("program", process.program);
}

}  // namespace redlatch::cli
