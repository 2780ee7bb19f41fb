#include "src/redis/wire/codec.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"

namespace redlatch::redis {

namespace {

// CRC-16/XMODEM, a byte at a time.
constexpr std::array<uint16_t, 256> CrcTable() {
  constexpr uint32_t kPolynomial = 0x1021;
  std::array<uint16_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t crc = byte << 8U;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 0x8000U) != 0 ? (crc << 1U) ^ kPolynomial : crc << 1U;
    }
    table[byte] = static_cast<uint16_t>(crc);
  }
  return table;
}
constexpr std::array<uint16_t, 256> kCrc = CrcTable();

Slot Hash(std::string_view text) {
  uint32_t crc = 0;
  for (const char c : text) {
    crc = ((crc << 8U) ^ kCrc[((crc >> 8U) ^ static_cast<unsigned char>(c)) & 0xFFU]) & 0xFFFFU;
  }
  return static_cast<Slot>(crc % kSlots);
}

std::string_view Digits(uint32_t number, std::array<char, 8>& room) {
  const auto [end, error] = std::to_chars(room.data(), room.data() + room.size(), number, 16);
  return {room.data(), static_cast<size_t>(end - room.data())};
}

// For each slot, the least number whose hexadecimal digits are a tag in it.
std::unique_ptr<const std::array<uint32_t, kSlots>> MakeTags() {
  auto tags = std::make_unique<std::array<uint32_t, kSlots>>();
  std::array<char, 8> room{};
  int missing = kSlots;
  for (uint32_t number = 1; missing > 0; ++number) {
    uint32_t& tag = (*tags)[Hash(Digits(number, room))];
    if (tag != 0) continue;
    tag = number;
    --missing;
  }
  return tags;
}

}  // namespace

Slot SlotOf(std::string_view key) {
  const size_t open = key.find('{');
  if (open == std::string_view::npos) return Hash(key);
  const size_t close = key.find('}', open + 1);
  if (close == std::string_view::npos || close == open + 1) return Hash(key);
  return Hash(key.substr(open + 1, close - open - 1));
}

std::string TagOf(Slot slot) {
  static const auto* const tags = MakeTags().release();
  std::array<char, 8> room{};
  std::string tag = "{";
  return tag.append(Digits((*tags)[slot], room)).append("}");
}

namespace {

constexpr size_t kLongestText = 80;
constexpr size_t kMostElements = 8;
constexpr size_t kLongestArray = 400;  // of text; after that, "..." replaces further elements

std::string Shortened(const std::string& text) {
  return absl::CHexEscape(text.substr(0, kLongestText)) + (text.size() > kLongestText ? "..." : "");
}

}  // namespace

std::string Reply::DebugString() const {
  switch (type) {
    case Type::kNil:
      return "nil";
    case Type::kInteger:
      return std::to_string(integer);
    case Type::kString:
      return '"' + Shortened(text) + '"';
    case Type::kStatus:
      return Shortened(text);
    case Type::kError:
      return "error " + Shortened(text);
    case Type::kArray: {
      std::string out = "[";
      size_t shown = 0;
      for (; shown < elements.size() && shown < kMostElements; ++shown) {
        if (out.size() > kLongestArray) break;
        if (shown > 0) out.append(", ");
        out.append(elements[shown].DebugString());
      }
      if (shown < elements.size()) out.append(", ...");
      return out + ']';
    }
  }
  return "";
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

// hiredis calls these while it reads. It hands back what they return as `task->parent->obj`, so
// that a reply grows in place: the outermost is `root`, and a child is appended to its parent's
// vector, whose earlier children are complete by then and may move.
struct Building {
  const ReplyLimits* limits;
  Reply root = {};
  size_t elements = 0;
  std::string_view refused;  // why one of these functions returned nullptr
};

namespace {

constexpr std::string_view kNoMemory = "there is no memory for it";
constexpr int kDeepest = 7;  // hiredis 0.14 stops at eight, later ones at hundreds

Building* BuildingOf(const redisReadTask* task) { return static_cast<Building*>(task->privdata); }

Reply* Refuse(const redisReadTask* task, std::string_view why) {
  BuildingOf(task)->refused = why;
  return nullptr;
}

bool IsResp2(const redisReadTask* task) {
  return task->type == REDIS_REPLY_STRING || task->type == REDIS_REPLY_ARRAY ||
         task->type == REDIS_REPLY_INTEGER || task->type == REDIS_REPLY_STATUS ||
         task->type == REDIS_REPLY_ERROR;
}

// Puts a reply in its place. An exception must not pass through hiredis.
template <class Fill>
Reply* Put(const redisReadTask* task, Fill fill) noexcept {
  if (!IsResp2(task)) return Refuse(task, "a reply of RESP 3");
  try {
    Reply& reply = task->parent == nullptr
                       ? BuildingOf(task)->root = Reply()
                       : static_cast<Reply*>(task->parent->obj)->elements.emplace_back();
    fill(reply);
    return &reply;
  } catch (const std::bad_alloc&) {
    return Refuse(task, kNoMemory);
  }
}

void* CreateString(const redisReadTask* task, char* text, size_t size) {
  return Put(task, [&](Reply& reply) {
    reply.type = task->type == REDIS_REPLY_ERROR    ? Reply::Type::kError
                 : task->type == REDIS_REPLY_STATUS ? Reply::Type::kStatus
                                                    : Reply::Type::kString;
    reply.text.assign(text, size);
  });
}

int Depth(const redisReadTask* task) {
  int depth = 0;
  for (; task != nullptr; task = task->parent) ++depth;
  return depth;
}

void* CreateArrayOf(const redisReadTask* task, size_t elements) {
  Building* building = BuildingOf(task);
  building->elements += elements;
  if (building->elements > building->limits->elements) {
    return Refuse(task, "an array of more elements than the limit");
  }
  if (Depth(task) > kDeepest) return Refuse(task, "arrays nested deeper than seven");
  return Put(task, [&](Reply& reply) {
    reply.type = Reply::Type::kArray;
    constexpr size_t kTrusted = 64;  // a count alone must not cost memory
    reply.elements.reserve(std::min(elements, kTrusted));
  });
}

// hiredis 0.14 counts elements in an int, 1.0 in a size_t. The assignment in Functions() picks the
// overload.
[[maybe_unused]] void* CreateArray(const redisReadTask* task, int elements) {
  return CreateArrayOf(task, static_cast<size_t>(elements));
}
[[maybe_unused]] void* CreateArray(const redisReadTask* task, size_t elements) {
  return CreateArrayOf(task, elements);
}

void* CreateInteger(const redisReadTask* task, long long value) {  // NOLINT(google-runtime-int)
  return Put(task, [&](Reply& reply) {
    reply.type = Reply::Type::kInteger;
    reply.integer = value;
  });
}

void* CreateNil(const redisReadTask* task) {
  return Put(task, [](Reply&) {});
}

void FreeObject(void*) {}  // it is a part of the root

// hiredis 1.0 also reads RESP 3. For a double or a boolean it would return a pointer that is no
// Reply; these functions return one.
template <typename Functions>
void RefuseResp3(Functions* functions) {
  if constexpr (requires { functions->createDouble, functions->createBool; }) {
    functions->createDouble = [](const redisReadTask* task, double, char*, size_t) {
      return CreateNil(task);
    };
    functions->createBool = [](const redisReadTask* task, int) { return CreateNil(task); };
  }
}

redisReplyObjectFunctions* Functions() {
  static redisReplyObjectFunctions functions = [] {
    redisReplyObjectFunctions made = {};
    made.createString = CreateString;
    made.createArray = CreateArray;
    made.createInteger = CreateInteger;
    made.createNil = CreateNil;
    made.freeObject = FreeObject;
    RefuseResp3(&made);
    return made;
  }();
  return &functions;
}

}  // namespace

// redisFormatCommandArgv() calls sprintf() for each word, which took a tenth of a call's cost on
// this side.
Command::Command(absl::Span<const std::string_view> args) {
  constexpr std::string_view kEnd = "\r\n";
  constexpr size_t kMostAround = 1 + 20 + 2 * kEnd.size();  // '$', a length, and two ends
  size_t most = kMostAround;
  for (const std::string_view arg : args) most += kMostAround + arg.size();
  char* const begin = bytes_.Extend(most);
  char* const end = begin + most;
  char* at = begin;
  const auto put = [&at](std::string_view text) {
    std::memcpy(at, text.data(), text.size());
    at += text.size();
  };
  const auto put_number = [&](char type, size_t value) {
    *at++ = type;
    at = std::to_chars(at, end, value).ptr;
    put(kEnd);
  };
  put_number('*', args.size());
  for (const std::string_view arg : args) {
    put_number('$', arg.size());
    if (!arg.empty()) put(arg);
    put(kEnd);
  }
  bytes_.Truncate(static_cast<size_t>(at - begin));
}

struct ReplyParser::Impl {
  explicit Impl(ReplyLimits given)
      : limits(given), building{&limits}, reader(redisReaderCreateWithFunctions(Functions())) {
    if (reader == nullptr) throw std::bad_alloc();
    reader->privdata = &building;
  }
  ~Impl() { redisReaderFree(reader); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  absl::Status Lost(std::string_view why) {
    error = absl::DataLossError(std::string("the server's answer cannot be read: ").append(why));
    return error;
  }

  ReplyLimits limits;
  Building building;
  redisReader* reader;
  size_t fed = 0;  // bytes since the last whole reply
  absl::Status error;
};

ReplyParser::ReplyParser(ReplyLimits limits) : impl_(std::make_unique<Impl>(limits)) {}
ReplyParser::ReplyParser(ReplyParser&&) noexcept = default;
ReplyParser& ReplyParser::operator=(ReplyParser&&) noexcept = default;
ReplyParser::~ReplyParser() = default;

absl::Status ReplyParser::Take(std::string_view bytes, std::vector<Reply>& replies) {
  Impl& its = *impl_;
  if (!its.error.ok()) return its.error;
  its.fed += bytes.size();
  redisReaderFeed(its.reader, bytes.data(), bytes.size());
  for (;;) {
    void* made = nullptr;
    if (redisReaderGetReply(its.reader, &made) != REDIS_OK) {
      const std::string_view refused = its.building.refused;
      return its.Lost(refused.empty() ? its.reader->errstr : refused);
    }
    auto* const reply = static_cast<Reply*>(made);
    const size_t left = reply == nullptr ? 0 : its.reader->len - its.reader->pos;
    if (its.fed - left > its.limits.bytes) return its.Lost("a reply larger than the limit");
    if (reply == nullptr) return absl::OkStatus();
    its.fed = left;
    its.building.elements = 0;
    try {
      replies.push_back(std::move(*reply));
    } catch (const std::bad_alloc&) {
      return its.Lost(kNoMemory);
    }
  }
}

}  // namespace redlatch::redis
