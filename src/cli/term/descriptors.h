#ifndef REDLATCH_SRC_CLI_TERM_DESCRIPTORS_H_
#define REDLATCH_SRC_CLI_TERM_DESCRIPTORS_H_

#include <vector>

namespace redlatch::cli {

// Where the caller has closed standard streams, ours must not take their numbers. A program that is
// executed finds them closed.
void OccupyStandardDescriptors();

// For a process beside the command, which has its own of these: a pipe that waits for its last
// writer, or a lock file, must not wait for that process. Standard error stays.
void LetGoOfDescriptorsBut(std::vector<int> kept);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_DESCRIPTORS_H_
