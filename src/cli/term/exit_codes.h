#ifndef REDLATCH_SRC_CLI_TERM_EXIT_CODES_H_
#define REDLATCH_SRC_CLI_TERM_EXIT_CODES_H_

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

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_EXIT_CODES_H_
