// One character after the other of text that may be any bytes.
#ifndef REDLATCH_SRC_BASE_UTF8_H_
#define REDLATCH_SRC_BASE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace redlatch::base {

struct Character {
  uint32_t code = 0;
  size_t size = 0;  // in bytes; 0: these are no UTF-8
};

// REQUIRES: `bytes` is not empty.
Character FirstCharacter(std::string_view bytes);

// For people: what does something else on a terminal than show itself (a control character, one
// that hides or turns round its neighbours, a byte that is not UTF-8) is written as \xNN, and a
// text of more than `most` bytes ends with "...". What has come through this comes through
// unchanged.
std::string Shown(std::string_view bytes, size_t most = std::string_view::npos);
// The same, with two backslashes for one: the bytes can be read from it.
std::string Printable(std::string_view bytes);

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_UTF8_H_
