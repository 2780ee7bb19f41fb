#include "src/redis/wire/codec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

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
    case Type::kArray:
    case Type::kPush: {
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

// sprintf() for each word took a tenth of a call's cost on this side.
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

}  // namespace redlatch::redis
