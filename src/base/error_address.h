// The address of the page about an error, with which the messages for users end.
//
// docs/troubleshooting.md has a section for each anchor, and docs/check_errors.py checks that each
// message has one.
#ifndef REDLATCH_SRC_BASE_ERROR_ADDRESS_H_
#define REDLATCH_SRC_BASE_ERROR_ADDRESS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace redlatch::base {

inline constexpr std::string_view kSite = "https://redlatch.dev";

// Returns the anchor of the section about the message. Returns an empty text if there is none,
// as for an expected outcome.
std::string_view AnchorOf(std::string_view message);

// Appends " [https://redlatch.dev/e/<anchor>]" to a message about which there is a section. Only
// the text from `from` on decides which, so that a lock's name before it does not. An address that
// is in the text already is moved to its end. Changes nothing if memory is lacking.
void AddAddress(std::string& message, size_t from = 0) noexcept;

// Cuts all addresses out of the text. Returns the first one, or an empty text if there is none.
std::string TakeAddress(std::string& text);

// Returns true for outcomes that have no section: success, a lock that is busy, a wait that was
// stopped.
bool IsExpected(absl::StatusCode code);
// Returns the status, without payloads, with an address at the end of its message.
absl::Status WithAddress(const absl::Status& status) noexcept;

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_ERROR_ADDRESS_H_
