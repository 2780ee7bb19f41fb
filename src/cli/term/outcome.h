// How `redlatch` ends: what it exits with, and what it says if that is not what was asked for.
#ifndef REDLATCH_SRC_CLI_TERM_OUTCOME_H_
#define REDLATCH_SRC_CLI_TERM_OUTCOME_H_

#include <initializer_list>
#include <string_view>

#include "absl/status/status.h"

namespace redlatch::cli {

// What `redlatch` itself exits with, beside the code of a command that it ran. Those of 125 and
// above mean what they do with env(1), timeout(1) and shells.
inline constexpr int kNo = 1;             // nobody uses that name, or the user said no
inline constexpr int kNeedsChange = 1;    // the server, says the doctor
inline constexpr int kBusy = 120;         // somebody else had the lock for as long as --wait
inline constexpr int kUnreachable = 121;  // the server
inline constexpr int kLost = 122;         // the lock, while the command ran
inline constexpr int kRefused = 123;      // by the server or the library: it won't do it
inline constexpr int kFailure = 125;  // of redlatch itself, or what it was asked for makes no sense
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;
inline constexpr int kSignalled = 128;  // plus the signal's number

// One line on stderr, in one piece.
void Complain(std::initializer_list<std::string_view> parts);

// Says on stderr why redlatch, the library or the server won't do it, and how to mend that. The
// exit code; kNo for kNotFound.
int Refuse(const absl::Status& why);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_OUTCOME_H_
