#include "src/redis/wire/reply_parser.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/base/words.h"

namespace redlatch::redis {

// Why the bytes cannot be read.
struct ReplyParser::Refused {
  std::string why;
};

namespace {

using Type = Reply::Type;

constexpr std::string_view kEnd = "\r\n";
// Types that are one line; a length and a text; a count and that many elements.
constexpr std::string_view kLines = "+-:_#,(";
constexpr std::string_view kTexts = "$!=";
constexpr std::string_view kArrays = "*%~>|";
constexpr size_t kFormat = 4;               // "txt:"
constexpr size_t kKept = size_t{16} << 10;  // of the room that a large reply needed

bool Has(std::string_view types, char type) { return types.find(type) != types.npos; }

// As Redis writes it: no plus sign, no zero in front.
bool ReadInteger(std::string_view text, int64_t& value) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || (digits[0] == '0' && text.size() > 1)) return false;
  return base::ReadNumber(text, value);
}

}  // namespace

absl::Status ReplyParser::Lost(std::string_view why) noexcept {
  error_ = base::WithMemory([&] {
    return absl::DataLossError(std::string("the server's answer cannot be read: ").append(why));
  });
  return error_;
}

absl::Status ReplyParser::Take(std::string_view bytes, std::vector<Reply>& replies) try {
  if (!error_.ok()) return error_;
  if (rest_.empty()) {
    const size_t used = ReadParts(bytes, replies);
    rest_.assign(bytes.substr(used));
  } else {
    rest_.append(bytes);
    rest_.erase(0, ReadParts(rest_, replies));
    if (rest_.empty() && rest_.capacity() > kKept) rest_ = std::string();
  }
  return absl::OkStatus();
} catch (const Refused& refused) {
  return Lost(refused.why);
} catch (const std::bad_alloc&) {
  return Lost("there is no memory for it");
}

// Returns how many bytes it has used.
size_t ReplyParser::ReadParts(std::string_view bytes, std::vector<Reply>& replies) {
  size_t used = 0;
  while (used < bytes.size()) {
    const std::string_view rest = bytes.substr(used);
    const size_t part = rest.size() < needed_ ? 0 : ReadPart(rest);
    const size_t size = part > 0 ? part : std::max(rest.size(), needed_);
    if (bytes_ + size > limits_.bytes) throw Refused{"a reply larger than the limit"};
    if (part == 0) break;
    used += part;
    bytes_ += part;
    scanned_ = needed_ = 0;
    if (!whole_) continue;
    replies.push_back(std::move(reply_));
    reply_ = Reply();
    whole_ = false;
    bytes_ = elements_ = 0;
  }
  return used;
}

// Reads a part of a reply: a value, or the beginning of an array. Returns its size; 0: it is not
// there yet.
size_t ReplyParser::ReadPart(std::string_view bytes) {
  const char type = bytes[0];
  if (!Has(kLines, type) && !Has(kTexts, type) && !Has(kArrays, type)) {
    throw Refused{absl::StrCat("a reply cannot begin with \"",
                               absl::CHexEscape(absl::string_view(&type, 1)), "\"")};
  }
  const size_t end = bytes.find(kEnd, scanned_);
  if (end == bytes.npos) {
    scanned_ = bytes.size() - 1;
    return 0;
  }
  const std::string_view line = bytes.substr(1, end - 1);
  const size_t header = end + kEnd.size();
  if (Has(kTexts, type)) return ReadText(bytes, header, line);
  if (Has(kArrays, type)) {
    OpenArray(type, line);
  } else {
    ReadLine(type, line);
  }
  return header;
}

size_t ReplyParser::ReadText(std::string_view bytes, size_t header, std::string_view line) {
  int64_t length = 0;
  const bool valid = ReadInteger(line, length);
  const char type = bytes[0];
  if (type == '$' && valid && length == -1) {
    Append();
    Complete();
    return header;
  }
  if (!valid || length < (type == '=' ? int64_t{kFormat} : 0)) {
    throw Refused{"a text of no valid length"};
  }
  const size_t size = static_cast<size_t>(length);
  needed_ = header + size + kEnd.size();
  if (bytes.size() < needed_) return 0;
  std::string_view text = bytes.substr(header, size);
  if (bytes.substr(header + size, kEnd.size()) != kEnd) {
    throw Refused{"a text longer than its length says"};
  }
  if (type == '=') text.remove_prefix(kFormat);
  Reply& reply = Append();
  reply.type = type == '!' ? Type::kError : Type::kString;
  reply.text = text;
  Complete();
  return needed_;
}

void ReplyParser::ReadLine(char type, std::string_view line) {
  Reply& reply = Append();
  bool valid = true;
  switch (type) {
    case '+':
    case '-':
      reply.type = type == '+' ? Type::kStatus : Type::kError;
      reply.text = line;
      break;
    case ':':
      reply.type = Type::kInteger;
      valid = ReadInteger(line, reply.integer);
      break;
    case '#':
      reply.type = Type::kInteger;
      reply.integer = line == "t" ? 1 : 0;
      valid = line == "t" || line == "f";
      break;
    case '_':
      valid = line.empty();
      break;
    default:  // a double, or a number of any size
      reply.type = Type::kString;
      reply.text = line;
      valid = !line.empty();
  }
  if (!valid) throw Refused{"a value that its type does not have"};
  Complete();
}

void ReplyParser::OpenArray(char type, std::string_view line) {
  int64_t count = 0;
  const bool valid = ReadInteger(line, count);
  if (type == '*' && valid && count == -1) {
    Append();
    return Complete();
  }
  if (!valid || count < 0) throw Refused{"an array of no valid size"};
  if (type == '>' && depth_ > 0) throw Refused{"a push inside of a reply"};
  size_t elements = limits_.elements + 1;
  if (static_cast<uint64_t>(count) <= limits_.elements) {
    elements = static_cast<size_t>(count) * (type == '%' || type == '|' ? 2 : 1);
  }
  elements_ += elements;
  if (elements_ > limits_.elements) throw Refused{"an array of more elements than the limit"};
  if (depth_ == kDeepest) throw Refused{"arrays nested deeper than seven"};
  const bool is_attribute = type == '|';
  if (is_attribute && elements == 0) return;
  Reply& reply = Append();
  reply.type = type == '>' ? Type::kPush : Type::kArray;
  constexpr size_t kTrusted = 64;  // a count alone must not cost memory
  reply.elements.reserve(std::min(elements, kTrusted));
  if (elements == 0) return Complete();
  open_[depth_++] = {.left = elements, .is_attribute = is_attribute};
}

// The innermost array that is open; if there is none, the reply.
Reply& ReplyParser::Innermost() {
  Reply* last = &reply_;
  for (size_t depth = 1; depth < depth_; ++depth) last = &last->elements.back();
  return *last;
}

Reply& ReplyParser::Append() { return depth_ == 0 ? reply_ : Innermost().elements.emplace_back(); }

// A value is complete, and maybe the arrays that it ends.
void ReplyParser::Complete() {
  while (depth_ > 0) {
    if (--open_[depth_ - 1].left > 0) return;
    --depth_;
    if (!open_[depth_].is_attribute) continue;
    if (depth_ == 0) {
      reply_ = Reply();
    } else {
      Innermost().elements.pop_back();
    }
    return;
  }
  whole_ = true;
}

}  // namespace redlatch::redis
