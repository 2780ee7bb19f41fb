#include "src/redis/wire/reply_parser.h"

#include "tests/support/testing.h"

namespace redlatch::redis {
namespace {

Reply Text(Reply::Type type, std::string text) { return {.type = type, .text = std::move(text)}; }
Reply String(std::string text) { return Text(Reply::Type::kString, std::move(text)); }
Reply Status(std::string text) { return Text(Reply::Type::kStatus, std::move(text)); }
Reply Error(std::string text) { return Text(Reply::Type::kError, std::move(text)); }
Reply Integer(int64_t value) { return {.type = Reply::Type::kInteger, .integer = value}; }
Reply Array(std::vector<Reply> elements) {
  return {.type = Reply::Type::kArray, .elements = std::move(elements)};
}
Reply Push(std::vector<Reply> elements) {
  return {.type = Reply::Type::kPush, .elements = std::move(elements)};
}
Reply Nil() { return {}; }

std::string Repeat(std::string_view text, size_t times) {
  std::string repeated;
  for (size_t i = 0; i < times; ++i) repeated.append(text);
  return repeated;
}

struct Read {
  std::vector<Reply> replies;
  absl::Status status;
};

Read ReadPieces(const std::vector<std::string_view>& pieces, ReplyLimits limits = {}) {
  ReplyParser parser(limits);
  Read read;
  for (const std::string_view piece : pieces) {
    if (read.status.ok()) read.status = parser.Take(piece, read.replies);
  }
  return read;
}

Read ReadBytewise(std::string_view bytes, ReplyLimits limits = {}) {
  std::vector<std::string_view> pieces;
  for (size_t i = 0; i < bytes.size(); ++i) pieces.push_back(bytes.substr(i, 1));
  return ReadPieces(pieces, limits);
}

const struct {
  std::string_view bytes;
  Reply reply;
} kReplies[] = {
    {"+OK\r\n", Status("OK")},
    {"+\r\n", Status("")},
    {"-ERR no\r\n", Error("ERR no")},
    {":0\r\n", Integer(0)},
    {":-1\r\n", Integer(-1)},
    {":9223372036854775807\r\n", Integer(std::numeric_limits<int64_t>::max())},
    {":-9223372036854775808\r\n", Integer(std::numeric_limits<int64_t>::min())},
    {"$-1\r\n", Nil()},
    {"$0\r\n\r\n", String("")},
    {"$2\r\n\r\n\r\n", String("\r\n")},
    {std::string_view("$7\r\na\0\r\n\xff*1\r\n", 13), String(std::string("a\0\r\n\xff*1", 7))},
    {"*-1\r\n", Nil()},
    {"*0\r\n", Array({})},
    {"*2\r\n$-1\r\n*-1\r\n", Array({Nil(), Nil()})},
    {"*2\r\n*0\r\n*0\r\n", Array({Array({}), Array({})})},
    {"*3\r\n:1\r\n-WRONGTYPE key\r\n$2\r\nab\r\n",
     Array({Integer(1), Error("WRONGTYPE key"), String("ab")})},
    {"*3\r\n*2\r\n+a\r\n*1\r\n:7\r\n$0\r\n\r\n*2\r\n:1\r\n$-1\r\n",
     Array({Array({Status("a"), Array({Integer(7)})}), String(""), Array({Integer(1), Nil()})})},
    {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:7\r\n",
     Array({Array({Array({Array({Array({Array({Array({Integer(7)})})})})})})})},
    // RESP 3
    {"_\r\n", Nil()},
    {"#t\r\n", Integer(1)},
    {"#f\r\n", Integer(0)},
    {",-1.5e3\r\n", String("-1.5e3")},
    {",inf\r\n", String("inf")},
    {"(3492890328409238509324850943850943825024385\r\n",
     String("3492890328409238509324850943850943825024385")},
    {"!8\r\nERR a\r\nb\r\n", Error("ERR a\r\nb")},
    {"=7\r\ntxt:a\r\n\r\n", String("a\r\n")},
    {"=4\r\ntxt:\r\n", String("")},
    {"%2\r\n+a\r\n:1\r\n+b\r\n%0\r\n", Array({Status("a"), Integer(1), Status("b"), Array({})})},
    {"~2\r\n+a\r\n~1\r\n_\r\n", Array({Status("a"), Array({Nil()})})},
    {">3\r\n$7\r\nmessage\r\n+c\r\n+text\r\n",
     Push({String("message"), Status("c"), Status("text")})},
    {">0\r\n", Push({})},
    {"|1\r\n+ttl\r\n%1\r\n+a\r\n:3600\r\n:7\r\n", Integer(7)},
    {"*2\r\n|1\r\n+a\r\n*1\r\n+b\r\n:1\r\n|0\r\n:2\r\n", Array({Integer(1), Integer(2)})},
    {"|1\r\n+a\r\n+b\r\n>1\r\n+c\r\n", Push({Status("c")})},
};

TEST(ReplyParserTest, ResultDoesNotDependOnCuts) {
  std::string stream;
  std::vector<Reply> expected;
  for (const auto& c : kReplies) {
    stream.append(c.bytes);
    expected.push_back(c.reply);
  }
  const std::string_view bytes = stream;
  EXPECT_EQ(ReadBytewise(bytes).replies, expected);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const Read read = ReadPieces({bytes.substr(0, cut), bytes.substr(cut)});
    EXPECT_TRUE(read.status.ok()) << read.status;
    EXPECT_EQ(read.replies, expected) << "cut at " << cut;
  }
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (size_t second = first; second <= bytes.size(); second += 7) {
      const Read read = ReadPieces(
          {bytes.substr(0, first), bytes.substr(first, second - first), bytes.substr(second)});
      EXPECT_EQ(read.replies, expected) << "cut at " << first << " and " << second;
    }
  }
}

TEST(ReplyParserTest, ReturnsOnlyWholeReplies) {
  for (const auto& c : kReplies) {
    SCOPED_TRACE(c.bytes);
    for (size_t size = 0; size < c.bytes.size(); ++size) {
      const Read read = ReadPieces({c.bytes.substr(0, size)});
      EXPECT_TRUE(read.status.ok()) << read.status;
      EXPECT_TRUE(read.replies.empty()) << "after " << size << " bytes";
    }
  }
}

TEST(ReplyParserTest, ReadsLargeStringsAndArrays) {
  const std::string large(3 << 20, '\r');
  const size_t many = 100'000;
  const std::string stream = "$" + std::to_string(large.size()) + "\r\n" + large + "\r\n*" +
                             std::to_string(many) + "\r\n" + Repeat(":7\r\n", many);
  std::vector<std::string_view> pieces;
  for (size_t at = 0; at < stream.size(); at += 16'384) {
    pieces.push_back(std::string_view(stream).substr(at, 16'384));
  }
  const Read read = ReadPieces(pieces);
  EXPECT_TRUE(read.status.ok()) << read.status;
  ASSERT_EQ(read.replies.size(), 2);
  EXPECT_TRUE(read.replies[0] == String(large));
  EXPECT_TRUE(read.replies[1] == Array(std::vector<Reply>(many, Integer(7))));
}

void ExpectLost(std::string_view bytes, const Read& read, size_t replies_before) {
  SCOPED_TRACE(bytes.substr(0, 80));
  EXPECT_EQ(read.status.code(), absl::StatusCode::kDataLoss) << read.status;
  EXPECT_THAT(std::string(read.status.message()), HasSubstr("the server's answer cannot be read"));
  EXPECT_EQ(read.replies.size(), replies_before);
}

TEST(ReplyParserTest, RefusesOtherProtocols) {
  std::vector<std::string> cases = absl::StrSplit(
      "x;\r\n;HTTP/1.1 400 Bad Request\r\n;:\r\n;:x\r\n;:1 \r\n;: 1\r\n;:+1\r\n;:01\r\n;:-0\r\n;"
      ":-\r\n;:9223372036854775808\r\n;:-9223372036854775809\r\n;:99999999999999999999999\r\n;"
      "$\r\n;$x\r\n;$-2\r\n;$99999999999999999999\r\n;*\r\n;*x\r\n;*-2\r\n;"
      "*99999999999999999999\r\n;*1\r\nx;*2\r\n:1\r\n\r\n;$2\r\nabc\r\n;$0\r\n:1\r\n;"
      "_x\r\n;#\r\n;#x\r\n;#true\r\n;,\r\n;(\r\n;!-1\r\n;!x\r\n;=-1\r\n;=3\r\ntxt\r\n;%-1\r\n;"
      "~-1\r\n;>-1\r\n;|-1\r\n;*1\r\n>1\r\n+a\r\n;>1\r\n>1\r\n+a\r\n;$?\r\n;*?\r\n;%?\r\n;"
      ".\r\n",
      ';');
  cases.emplace_back("\0", 1);
  cases.emplace_back(";4\r\nabcd\r\n");
  for (const std::string_view bytes : cases) {
    ExpectLost(bytes, ReadPieces({bytes}), 0);
    ExpectLost(bytes, ReadBytewise(bytes), 0);
    const std::string after = "+OK\r\n:7\r\n" + std::string(bytes);
    ExpectLost(after, ReadPieces({after}), 2);
    ExpectLost(after, ReadBytewise(after), 2);
  }
}

TEST(ReplyParserTest, RefusesArraysNestedDeeperThanSeven) {
  for (const size_t depth : {8, 9, 10, 100, 100'000}) {
    const std::string bytes = Repeat("*1\r\n", depth) + ":7\r\n";
    ExpectLost(bytes, ReadPieces({bytes}), 0);
    ExpectLost(bytes, ReadBytewise(bytes.substr(0, 100)), 0);
  }
  const std::string empty = Repeat("*1\r\n", 7) + "*0\r\n";
  ExpectLost(empty, ReadPieces({empty}), 0);
}

TEST(ReplyParserTest, RefusesHugeCountsBeforeTheyCostMemory) {
  for (const std::string_view bytes :
       {"*1000000000\r\n", "*1048577\r\n", "*2147483647\r\n", "*4294967296\r\n",
        "*9223372036854775807\r\n", "*2\r\n*1048575\r\n"}) {
    ExpectLost(bytes, ReadPieces({bytes}), 0);
  }
  // A large count within the limit costs no memory either.
  EXPECT_TRUE(ReadPieces({"*1048576\r\n"}).status.ok());
  for (const std::string_view bytes :
       {"%524289\r\n", "%9223372036854775807\r\n", "$67108865\r\n", "$9223372036854775807\r\n"}) {
    ExpectLost(bytes, ReadPieces({bytes}), 0);
  }
}

TEST(ReplyParserTest, RefusesReplyLargerThanLimit) {
  const ReplyLimits limits = {.bytes = 20};
  const std::string fits = "$12\r\n" + std::string(12, 'a') + "\r\n";  // 19 bytes
  const std::string exact = "$13\r\n" + std::string(13, 'a') + "\r\n";
  const std::string larger = "$14\r\n" + std::string(14, 'a') + "\r\n";
  for (const std::string& bytes : {Repeat(fits + exact, 3), Repeat(":1\r\n", 100)}) {
    EXPECT_TRUE(ReadPieces({bytes}, limits).status.ok());
    EXPECT_TRUE(ReadBytewise(bytes, limits).status.ok());
  }
  // The pieces in which it arrives make no difference.
  ExpectLost(larger, ReadPieces({larger}, limits), 0);
  ExpectLost(larger, ReadPieces({larger + exact}, limits), 0);
  ExpectLost(larger, ReadPieces({fits + larger}, limits), 1);
  ExpectLost(larger, ReadBytewise(fits + larger, limits), 1);
  const std::string endless = "+" + std::string(100, 'a');
  ExpectLost(endless, ReadBytewise(endless, limits), 0);
  const std::string promise = "$99999999999\r\n" + std::string(10, 'a');
  ExpectLost(promise, ReadBytewise(promise, limits), 0);
}

TEST(ReplyParserTest, CountsElementsOfAllArraysInReply) {
  const ReplyLimits limits = {.elements = 6};
  const std::string fits = "*2\r\n*2\r\n:1\r\n:2\r\n*2\r\n:3\r\n:4\r\n";
  const std::string more = "*2\r\n*2\r\n:1\r\n:2\r\n*3\r\n:3\r\n:4\r\n:5\r\n";
  EXPECT_EQ(ReadBytewise(Repeat(fits, 5), limits).replies.size(), 5);
  for (const Read& read : {ReadPieces({fits + more}, limits), ReadBytewise(fits + more, limits)}) {
    ExpectLost(more, read, 1);
    EXPECT_THAT(std::string(read.status.message()), HasSubstr("more elements than the limit"));
  }
}

TEST(ReplyParserTest, FailsForGoodAfterError) {
  ReplyParser parser;
  std::vector<Reply> replies;
  const absl::Status lost = parser.Take("*2\r\n:1\r\nx", replies);
  EXPECT_EQ(lost.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(parser.Take("+OK\r\n", replies), lost);
  EXPECT_EQ(parser.Take("", replies), lost);
  EXPECT_EQ(replies.size(), 0);
}

}  // namespace
}  // namespace redlatch::redis
