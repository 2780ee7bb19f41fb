#include "src/redis/wire/slot.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <memory>

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

// The least number, in hexadecimal digits, of each slot.
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

}  // namespace redlatch::redis
