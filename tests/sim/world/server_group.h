#ifndef REDLATCH_TESTS_SIM_WORLD_SERVER_GROUP_H_
#define REDLATCH_TESTS_SIM_WORLD_SERVER_GROUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/net/network.h"
#include "tests/sim/os/kernel.h"
#include "tests/sim/random.h"
#include "tests/sim/world/host.h"
#include "tests/sim/world/oracle.h"
#include "tests/sim/world/plan.h"

namespace redlatch::sim {

// What a server group sees of the rest of the world.
struct Surroundings {
  Kernel& kernel;
  Network& network;
  Oracle& oracle;
  const Plan& plan;
  std::function<std::vector<Process*>()> clients;
};

// The servers of one run: how they belong together, where clients find them, and the faults that
// only such a group can have. This class is the group of servers that know nothing of each other: a
// single one, or those of a quorum.
class ServerGroup {
 public:
  static std::unique_ptr<ServerGroup> Make(const Surroundings& world);

  explicit ServerGroup(const Surroundings& world);
  virtual ~ServerGroup() = default;
  ServerGroup(const ServerGroup&) = delete;
  ServerGroup& operator=(const ServerGroup&) = delete;

  const std::vector<std::unique_ptr<Host>>& hosts() const { return hosts_; }
  virtual std::string Url() const;
  // All to which clients connect.
  virtual std::vector<Address> Addresses() const;
  // The server that a fault is about.
  virtual Host& HostOf(const Fault& fault) { return *hosts_[static_cast<size_t>(fault.server)]; }
  // Whether what this server forgets is forgotten by the group.
  virtual bool Decides(const Host&) const { return true; }
  // Does what is due, now and then while the run lasts.
  virtual void Tick() {}
  // A fault of such groups alone; any other is ignored.
  virtual void Inject(const Fault&) {}
  // The process of a server ends, and another one starts.
  virtual void GoDown(Host& host, bool silently) { host.GoDown(silently); }
  virtual void ComeUp(Host& host, const Keyspace& data) { host.ComeUp(data); }

 protected:
  // Where the i-th server is: 10.0.0.1:6379 and on.
  static Address AddressOf(size_t i);
  Host& AddHost(ServerOptions options, Clock clock);

  Surroundings world_;
  Random random_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_WORLD_SERVER_GROUP_H_
