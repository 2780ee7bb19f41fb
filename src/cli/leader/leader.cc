// `redlatch leader` says which candidate of an election leads.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "redlatch/client.h"
#include "redlatch/election.h"
#include "src/cli/term/command_line.h"
#include "src/cli/term/output.h"
#include "src/cli/term/server.h"

namespace redlatch::cli {
namespace {

std::string JsonOf(const std::string& name, const std::optional<Leader>& leader) {
  JsonObject json;
  json.Text("name", name);
  if (!leader) {
    json.Null("leader");
    return json.Finish();
  }
  JsonObject its;
  its.Text("value", leader->value);
  its.Number("epoch", static_cast<int64_t>(leader->epoch.value()));
  its.Number("since_us", absl::ToUnixMicros(leader->since));
  its.Text("client", leader->client);
  json.Json("leader", its.Finish());
  return json.Finish();
}

std::string TextOf(const std::optional<Leader>& leader) {
  if (!leader) return "no leader";
  return absl::StrCat(leader->value.empty() ? "-" : Printable(leader->value), "  epoch ",
                      leader->epoch.value(), "  since ",
                      absl::FormatTime("%Y-%m-%d %H:%M:%S", leader->since, absl::LocalTimeZone()));
}

// Prints each change until this process is killed, or the output cannot be written.
int Watch(const Election& election,
          const std::function<void(const std::optional<Leader>&)>& print) {
  const auto observation = election.Observe([&](const std::optional<Leader>& leader) {
    print(leader);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
    Complain({"the output could not be written: ", std::strerror(errno)});
    _exit(kFailure);
  });
  if (!observation.ok()) return Refuse(observation.status());
  for (;;) pause();
}

}  // namespace

int ShowLeader(const std::vector<std::string>& words) {
  bool watch = false;
  bool as_json = false;
  CommandLine line("leader");
  line.Flag("--watch", &watch);
  line.Flag("--json", &as_json);
  line.Operands(1, "say one name: redlatch leader NAME");
  line.NeedsName("election", "say redlatch leader NAME; redlatch ls lists them");
  if (const std::optional<int> over = line.Parse(words)) return *over;
  const std::string& name = line.operands()[0];
  // A private server that is not running has no leader. It is not started only to be asked.
  if (!watch) {
    const auto server = Server::Open(line.server());
    if (absl::IsNotFound(server.status())) return Refuse(server.status());
  }
  const auto warn = [watch](std::string_view warning) {  // Server::Open() has warned, too
    if (watch) Complain({"warning: ", warning});
  };
  const absl::StatusOr<Client> client =
      Client::Connect(line.server(), {.program = "redlatch leader", .on_warning = warn});
  if (!client.ok()) return Refuse(client.status());
  const Election election(*client, name);
  const auto print = [&](const std::optional<Leader>& leader) {
    std::puts(as_json ? JsonOf(name, leader).c_str() : TextOf(leader).c_str());
  };
  if (watch) return Watch(election, print);
  const auto leader = election.Leader();
  if (!leader.ok()) return Refuse(leader.status());
  if (*leader || as_json) print(*leader);
  if (!*leader) Complain({"the election \"", Printable(name), "\" has no leader"});
  return *leader ? 0 : kNo;
}

}  // namespace redlatch::cli
