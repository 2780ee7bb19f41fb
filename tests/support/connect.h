#ifndef REDLATCH_TESTS_SUPPORT_CONNECT_H_
#define REDLATCH_TESTS_SUPPORT_CONNECT_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"

namespace redlatch::support {

inline Client Connect(const std::string& url, const ClientOptions& options = {}) {
  absl::StatusOr<Client> client = Client::Connect(url, options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_CONNECT_H_
