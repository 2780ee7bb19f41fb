// One character after the other of text that may be any bytes.
#ifndef REDLATCH_SRC_BASE_UTF8_H_
#define REDLATCH_SRC_BASE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace redlatch::base {

struct Character {
  uint32_t code = 0;
  size_t size = 0;  // in bytes; 0: these are no UTF-8
};

// REQUIRES: `bytes` is not empty.
Character FirstCharacter(std::string_view bytes);

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_UTF8_H_
