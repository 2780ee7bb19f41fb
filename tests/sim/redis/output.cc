#include "tests/sim/redis/output.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace redlatch::sim {

using redis::Reply;

void RespOutput::Nil() { bytes_ += "$-1\r\n"; }
void RespOutput::Integer(int64_t number) { absl::StrAppend(&bytes_, ":", number, "\r\n"); }
void RespOutput::Text(std::string_view text) {
  absl::StrAppend(&bytes_, "$", text.size(), "\r\n");
  bytes_.append(text).append("\r\n");
}
void RespOutput::Status(std::string_view text) { bytes_.append("+").append(text).append("\r\n"); }
void RespOutput::Error(std::string_view text) { bytes_.append("-").append(text).append("\r\n"); }
void RespOutput::Array(size_t size) { absl::StrAppend(&bytes_, "*", size, "\r\n"); }

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

}  // namespace redlatch::sim
