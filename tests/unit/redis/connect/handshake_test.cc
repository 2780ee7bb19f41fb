#include "src/redis/connect/handshake.h"

#include "src/redis/url/url.h"
#include "tests/support/testing.h"

namespace redlatch::redis {
namespace {

Reply Text(std::string text) { return {.type = Reply::Type::kString, .text = std::move(text)}; }

Reply List(std::vector<Reply> elements) {
  return {.type = Reply::Type::kArray, .elements = std::move(elements)};
}

TEST(Handshake, RefusesReplicaForCommands) {
  const Handshake handshake(*ParseUrl("redis://a"), Handshake::Purpose::kCommands);
  std::vector<Reply> replies = {List({Text("role"), Text("replica")}),
                                Text("redis_version:7.0.15\r\n"),
                                Text("role:slave\r\nmaster_host:b\r\nmaster_port:6380\r\n")};
  replies.resize(handshake.reply_count());
  ServerInfo info;
  const absl::Status status = handshake.Check(replies, &info);
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(status.message(), HasSubstr("is a replica of b:6380"));
}

ConditionalDelete DeleteOf(const std::string& server) {
  const Handshake handshake(*ParseUrl("redis://a"), Handshake::Purpose::kCommands);
  std::vector<Reply> replies = {List({}), Text(server)};
  replies.resize(handshake.reply_count());
  ServerInfo info;
  handshake.Check(replies, &info).IgnoreError();
  return info.conditional_delete;
}

TEST(Handshake, VersionTellsHowServerDeletesConditionally) {
  using Delete = ConditionalDelete;
  EXPECT_EQ(DeleteOf("redis_version:7.0.15\r\n"), Delete::kNone);
  EXPECT_EQ(DeleteOf("redis_version:8.2.9\r\n"), Delete::kNone);
  EXPECT_EQ(DeleteOf("redis_version:8.4.0\r\n"), Delete::kDelex);
  EXPECT_EQ(DeleteOf("redis_version:10.0.0\r\n"), Delete::kDelex);
  EXPECT_EQ(DeleteOf("redis_version:7.2.4\r\nvalkey_version:8.1.8\r\n"), Delete::kNone);
  EXPECT_EQ(DeleteOf("redis_version:7.2.4\r\nvalkey_version:9.0.0\r\n"), Delete::kDelifeq);
}

}  // namespace
}  // namespace redlatch::redis
