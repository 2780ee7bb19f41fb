// `redlatch leader` says which candidate of an election leads.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "redlatch/client.h"
#include "redlatch/election.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "src/cli/term/command_line.h"
#include "src/cli/term/output.h"
#include "src/cli/term/server.h"
#include "src/lock/key_set.h"
#include "src/lock/kinds.h"

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

using MaybeLeader = absl::StatusOr<std::optional<Leader>>;
using Print = std::function<void(const std::optional<Leader>&)>;

// Only reads, so it works for a user that may do nothing else, and on a replica. `server` is opened
// if it is not yet, and closed by a failure.
MaybeLeader Ask(const std::string& url, const std::string& name, std::unique_ptr<Server>& server) {
  if (server == nullptr) {
    // A private server that is not running has no leader, and is not started to ask it.
    absl::StatusOr<std::unique_ptr<Server>> opened = Server::Open(url);
    if (!opened.ok()) return opened.status();
    server = *std::move(opened);
  }
  std::optional<Leader> leader;
  Questions questions;
  questions.Add({"MGET", name, internal::AuxiliaryKey(name, internal::kinds::kLeaderSuffix)},
                [&](const redis::Reply& reply) {
                  if (reply.elements.size() != 2) return;
                  leader = ReadLeader(reply.elements[1].text, reply.elements[0].text);
                });
  std::string type = "none";
  Questions of_type;
  of_type.Add({"TYPE", name}, [&type](const redis::Reply& reply) { type = reply.text; });
  absl::Status asked = questions.Ask(*server);
  // A user may be allowed to read the key and not its type.
  if (asked.ok() && !leader) (void)of_type.Ask(*server);
  if (type != "none" && type != "string") {
    return absl::FailedPreconditionError(absl::StrCat("WRONGTYPE ", Printable(name),
                                                      " is in use as a ", type,
                                                      ", not as an election; use another name"));
  }
  if (asked.ok()) return leader;
  server.reset();
  return asked;
}

// Asks every second, until this process is killed. Says once that the server does not answer, and
// once that it answers again.
[[noreturn]] void AskEverySecond(const std::function<absl::Status()>& ask) {
  bool silent = false;
  for (;; base::Parker().ParkUntil(base::Now() + absl::Seconds(1))) {
    const absl::Status asked = ask();
    if (!asked.ok() && !silent) {
      Complain({std::string(asked.message()), "; changes are not seen until it answers"});
    }
    if (asked.ok() && silent) Complain({"the server answers again"});
    silent = !asked.ok();
  }
}

// Prints the leader whenever a question shows another one: for a user that may only read.
int WatchByReading(const std::string& url, const std::string& name, const Print& print) {
  std::unique_ptr<Server> server;
  MaybeLeader seen = Ask(url, name, server);
  if (!seen.ok()) return Refuse(seen.status());
  print(*seen);
  AskEverySecond([&]() -> absl::Status {
    MaybeLeader now = Ask(url, name, server);
    if (!now.ok()) return now.status();
    if (*now != *seen) print(*now);
    seen = std::move(now);
    return absl::OkStatus();
  });
}

// Prints each change until this process is killed, or the output cannot be written.
int Watch(const std::string& url, const std::string& name, const Print& print) {
  const absl::StatusOr<Client> client =
      Client::Connect(url, {.program = "redlatch leader", .on_warning = [](std::string_view text) {
                              Complain({"warning: ", text});
                            }});
  if (absl::IsPermissionDenied(client.status())) return WatchByReading(url, name, print);
  if (!client.ok()) return Refuse(client.status());
  const auto observation = Election(*client, name).Observe(print);
  if (absl::IsPermissionDenied(observation.status())) return WatchByReading(url, name, print);
  if (!observation.ok()) return Refuse(observation.status());
  AskEverySecond([&] { return client->Ping().status(); });
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
  const auto print = [&](const std::optional<Leader>& leader) {
    std::puts(as_json ? JsonOf(name, leader).c_str() : TextOf(leader).c_str());
    if (!watch || (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)) return;
    Complain({"the output could not be written: ", std::strerror(errno)});
    _exit(kFailure);
  };
  if (absl::Status bad = internal::CheckMainKey(name); !bad.ok()) return Refuse(bad);
  if (watch) return Watch(line.server(), name, print);
  std::unique_ptr<Server> server;
  const MaybeLeader leader = Ask(line.server(), name, server);
  if (!leader.ok()) return Refuse(leader.status());
  if (*leader || as_json) print(*leader);
  if (!*leader) Complain({"the election \"", Printable(name), "\" has no leader"});
  return *leader ? 0 : kNo;
}

}  // namespace redlatch::cli
