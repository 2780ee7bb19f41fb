#include "src/redis/wire/reply.h"

#include <cctype>

namespace redlatch::redis {
namespace {

constexpr size_t kLongestText = 80;
constexpr size_t kMostElements = 8;
constexpr size_t kLongestArray = 400;  // no further element after so much

void AppendText(std::string_view text, std::string* out) {
  constexpr char kHex[] = "0123456789abcdef";
  for (const char c : text.substr(0, kLongestText)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out->append(1, '\\').append(1, c);
    } else if (byte >= 0x20 && byte < 0x7f) {
      out->append(1, c);
    } else {
      out->append("\\x").append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
    }
  }
  if (text.size() > kLongestText) out->append("...");
}

}  // namespace

std::string Reply::DebugString() const {
  std::string out;
  switch (type) {
    case Type::kNil:
      return "nil";
    case Type::kInteger:
      return std::to_string(integer);
    case Type::kString:
      out.append(1, '"');
      AppendText(text, &out);
      return out.append(1, '"');
    case Type::kStatus:
    case Type::kError:
      if (type == Type::kError) out.append("error ");
      AppendText(text, &out);
      return out;
    case Type::kArray: {
      out.append(1, '[');
      size_t shown = 0;
      for (; shown < elements.size() && shown < kMostElements; ++shown) {
        if (out.size() > kLongestArray) break;
        if (shown > 0) out.append(", ");
        out.append(elements[shown].DebugString());
      }
      if (shown < elements.size()) out.append(", ...");
      return out.append(1, ']');
    }
  }
  return out;
}

std::string_view ValueOf(const Reply& list, std::string_view name) {
  for (size_t i = 0; i + 1 < list.elements.size(); i += 2) {
    if (list.elements[i].text == name) return list.elements[i + 1].text;
  }
  return {};
}

std::string_view InfoField(std::string_view info, std::string_view field) {
  size_t at = 0;
  while (at < info.size()) {
    const size_t end = std::min(info.find("\r\n", at), info.size());
    const std::string_view line = info.substr(at, end - at);
    if (line.size() > field.size() && line.substr(0, field.size()) == field &&
        line[field.size()] == ':') {
      return line.substr(field.size() + 1);
    }
    at = end + 2;
  }
  return {};
}

}  // namespace redlatch::redis
