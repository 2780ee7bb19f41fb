#include "src/cli/look/looker.h"

#include <utility>

#include "src/cli/look/quorum_looker.h"
#include "src/cli/term/server.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {
namespace {

class AtServer final : public Looker {
 public:
  explicit AtServer(std::unique_ptr<Server> server) : server_(std::move(server)) {}

  const std::string& name() const override { return server_->name(); }
  absl::StatusOr<Sight> LookClosely(const std::string& name) override {
    return cli::LookClosely(*server_, name);
  }
  absl::Status Break(const Sight& seen) override { return cli::Break(*server_, seen.row); }

 private:
  const std::unique_ptr<Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Looker>> Looker::Open(std::string_view url) {
  const absl::StatusOr<redis::Url> parsed = redis::ParseUrl(url);
  if (!parsed.ok()) return parsed.status();
  if (parsed->kind == redis::Url::Kind::kQuorum) {
    return std::make_unique<QuorumLooker>(*parsed, url);
  }
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Open(url);
  if (!server.ok()) return server.status();
  return std::make_unique<AtServer>(*std::move(server));
}

}  // namespace redlatch::cli
