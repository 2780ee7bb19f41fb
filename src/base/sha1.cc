#include "src/base/sha1.h"

#include <array>
#include <bit>
#include <cstdint>

namespace redlatch::base {
namespace {

constexpr size_t kBlockSize = 64;

void Digest(std::string_view block, std::array<uint32_t, 5>& state) {
  std::array<uint32_t, 80> words;
  for (size_t i = 0; i < 16; ++i) {
    words[i] = 0;
    for (size_t j = 0; j < 4; ++j) {
      words[i] = words[i] << 8U | static_cast<uint8_t>(block[4 * i + j]);
    }
  }
  for (size_t i = 16; i < 80; ++i) {
    words[i] = std::rotl(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
  }
  auto [a, b, c, d, e] = state;
  for (size_t i = 0; i < 80; ++i) {
    uint32_t mixed = 0;
    if (i < 20) {
      mixed = ((b & c) | (~b & d)) + 0x5A827999U;
    } else if (i < 40) {
      mixed = (b ^ c ^ d) + 0x6ED9EBA1U;
    } else if (i < 60) {
      mixed = ((b & c) | (b & d) | (c & d)) + 0x8F1BBCDCU;
    } else {
      mixed = (b ^ c ^ d) + 0xCA62C1D6U;
    }
    const uint32_t next = std::rotl(a, 5) + mixed + e + words[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
}

}  // namespace

std::string Sha1Hex(std::string_view text) {
  std::string padded(text);
  padded += '\x80';
  while (padded.size() % kBlockSize != kBlockSize - 8) padded += '\0';
  const uint64_t bits = uint64_t{text.size()} * 8;
  for (int shift = 56; shift >= 0; shift -= 8) {
    padded += static_cast<char>(static_cast<uint8_t>(bits >> static_cast<unsigned>(shift)));
  }
  std::array<uint32_t, 5> state = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
  for (size_t i = 0; i < padded.size(); i += kBlockSize) {
    Digest(std::string_view(padded).substr(i, kBlockSize), state);
  }
  std::string hex;
  for (const uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) {
      hex += "0123456789abcdef"[(word >> static_cast<unsigned>(shift)) & 0xFU];
    }
  }
  return hex;
}

}  // namespace redlatch::base
