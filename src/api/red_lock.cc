#include "redlatch/red_lock.h"

#include <memory>
#include <utility>

#include "lua/scripts.h"
#include "src/lock/client_core.h"
#include "src/lock/kinds.h"
#include "src/quorum/quorum.h"

namespace redlatch {
namespace {

Client OfQuorum(const std::vector<Client>& clients) {
  std::vector<std::shared_ptr<internal::ClientCore>> cores;
  cores.reserve(clients.size());
  for (const Client& client : clients) cores.push_back(client.core());
  return Client(internal::ClientCore::QuorumOf(cores, quorum::Quorum::Make));
}

}  // namespace

RedLock::RedLock(const std::vector<Client>& clients, std::string_view name, RedLockOptions options)
    : RedisLockBase(
          OfQuorum(clients), name,
          LockOptions{
              .lease = options.lease, .turn = options.turn, .on_lost = std::move(options.on_lost)},
          &internal::kinds::kQuorumKeys) {}

RedLock::RedLock(const Client& client, std::string_view name, RedLockOptions options)
    : RedLock(std::vector<Client>{client}, name, std::move(options)) {}

LockScripts RedLock::Scripts() const { return lua::kQuorumScripts; }

LockTraits RedLock::Traits() const { return {.kind = internal::kinds::kQuorum}; }

std::vector<std::string> RedLock::ExtraKeys() const {
  return {std::string(internal::kinds::kTurnSuffix)};
}

}  // namespace redlatch
