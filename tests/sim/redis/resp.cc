#include "tests/sim/redis/resp.h"

#include <charconv>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/redis/command.h"

namespace redlatch::sim {

using redis::Reply;

void Output::Score(double score) { Text(FormatScore(score)); }

void RespOutput::Nil() { bytes_ += resp3() ? "_\r\n" : "$-1\r\n"; }
void RespOutput::Integer(int64_t number) { absl::StrAppend(&bytes_, ":", number, "\r\n"); }
void RespOutput::Text(std::string_view text) {
  Header('$', text.size());
  bytes_.append(text).append("\r\n");
}
void RespOutput::Status(std::string_view text) { bytes_.append("+").append(text).append("\r\n"); }
void RespOutput::Error(std::string_view text) { bytes_.append("-").append(text).append("\r\n"); }
void RespOutput::Map(size_t pairs) { resp3() ? Header('%', pairs) : Output::Map(pairs); }
void RespOutput::Pairs(size_t count) { resp3() ? Array(count) : Output::Pairs(count); }
void RespOutput::Pair() {
  if (resp3()) Array(2);
}
void RespOutput::Score(double score) {
  if (!resp3()) return Output::Score(score);
  absl::StrAppend(&bytes_, ",", FormatScore(score), "\r\n");
}
void RespOutput::Lines(std::string_view text) {
  if (!resp3()) return Text(text);
  constexpr std::string_view kFormat = "txt:";
  Header('=', kFormat.size() + text.size());
  bytes_.append(kFormat).append(text).append("\r\n");
}
void RespOutput::Header(char type, size_t size) {
  bytes_ += type;
  absl::StrAppend(&bytes_, size, "\r\n");
}

void ReplyOutput::Integer(int64_t number) {
  Add({.type = Reply::Type::kInteger, .integer = number});
}
void ReplyOutput::Text(std::string_view text) {
  Add({.type = Reply::Type::kString, .text = std::string(text)});
}
void ReplyOutput::Status(std::string_view text) {
  Add({.type = Reply::Type::kStatus, .text = std::string(text)});
}
void ReplyOutput::Error(std::string_view text) {
  Add({.type = Reply::Type::kError, .text = std::string(text)});
}
void ReplyOutput::Array(size_t size) {
  Reply array{.type = Reply::Type::kArray};
  if (size == 0) return Add(std::move(array));
  open_.push_back({std::move(array), size});
}

void ReplyOutput::Add(Reply reply) {
  while (!open_.empty()) {
    Open& open = open_.back();
    open.array.elements.push_back(std::move(reply));
    if (--open.missing > 0) return;
    reply = std::move(open.array);
    open_.pop_back();
  }
  replies_.push_back(std::move(reply));
}

namespace {

// Reads "<mark><number>\r\n" at `at`. Returns the position after it, or 0 if it is incomplete.
size_t ReadNumber(std::string_view stream, size_t at, char mark, int64_t& number) {
  const size_t end = stream.find("\r\n", at);
  if (end == std::string_view::npos) return 0;
  const auto parsed = std::from_chars(stream.data() + at + 1, stream.data() + end, number);
  if (stream[at] != mark || parsed.ec != std::errc() || parsed.ptr != stream.data() + end ||
      number < 0) {
    const std::string_view line = stream.substr(at, end - at);
    Unknown("such a request", {&line, 1});
  }
  return end + 2;
}

}  // namespace

size_t ReadCommand(std::string_view stream, std::vector<std::string_view>& words) {
  words.clear();
  int64_t count = 0, length = 0;
  size_t at = ReadNumber(stream, 0, '*', count);
  for (int64_t i = 0; at != 0 && i < count; ++i) {
    at = ReadNumber(stream, at, '$', length);
    if (at == 0 || stream.size() < at + static_cast<size_t>(length) + 2) return 0;
    words.push_back(stream.substr(at, static_cast<size_t>(length)));
    at += static_cast<size_t>(length) + 2;
  }
  return at;
}

}  // namespace redlatch::sim
