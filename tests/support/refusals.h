// Reasons for which a server serves nobody for a while, as in a failover.
#ifndef REDLATCH_TESTS_SUPPORT_REFUSALS_H_
#define REDLATCH_TESTS_SUPPORT_REFUSALS_H_

#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/await.h"
#include "tests/support/raw_connection.h"
#include "tests/support/redis_server.h"

namespace redlatch::support {

struct Refusal {
  std::string name;
  std::function<void(RedisServer&)> begin;
  std::function<void(RedisServer&)> end;
};

// Each can be begun and ended often.
inline std::vector<Refusal> Refusals() {
  const auto set = [](const std::string& setting, const std::string& value) {
    return [=](RedisServer& server) { server.Do({"CONFIG", "SET", setting, value}); };
  };
  const auto fails_to_save = [](RedisServer& server) {
    const std::string in_the_way = server.directory() + "/dump.rdb";
    mkdir(in_the_way.c_str(), 0700);
    std::ofstream(in_the_way + "/file") << "so that it cannot be replaced";
    server.Do({"CONFIG", "SET", "save", "3600 1"});
    EXPECT_TRUE(Await([&] {
      server.Command({"BGSAVE"});
      return server.Info("rdb_last_bgsave_status") == "err";
    }));
  };
  const auto loads = [](RedisServer& server) {
    server.Do({"DEBUG", "POPULATE", "1000", "key", "2000"});
    server.Do({"CONFIG", "SET", "loading-process-events-interval-bytes", "1024"});
    server.Do({"CONFIG", "SET", "key-load-delay", "1000"});
    static std::vector<RawConnection> reloading;
    reloading.push_back(RawConnection::ToSocket(server.socket_path()));
    EXPECT_TRUE(reloading.back().Send({"DEBUG", "RELOAD"}));
    EXPECT_TRUE(Await([&] {
      return server.Text({"GET", "k"}).find("LOADING") != std::string::npos;
    }));
  };
  return {
      {"refused", [](RedisServer& server) { server.Kill(); },
       [](RedisServer& server) { server.Restart(); }},
      {"replica",
       [](RedisServer& server) {
         server.Do({"REPLICAOF", "127.0.0.1", "1"});
       },
       [](RedisServer& server) {
         server.Do({"REPLICAOF", "NO", "ONE"});
       }},
      {"maxclients", set("maxclients", "1"), set("maxclients", "10000")},
      {"MISCONF", fails_to_save, set("stop-writes-on-bgsave-error", "no")},
      {"LOADING", loads, [](RedisServer&) {}},  // ends by itself, after a second or more
  };
}

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_REFUSALS_H_
