#ifndef REDLATCH_TESTS_SIM_REDIS_REQUEST_PARSER_H_
#define REDLATCH_TESTS_SIM_REDIS_REQUEST_PARSER_H_

#include <string_view>
#include <vector>

namespace redlatch::sim {

// Reads one command, an array of bulk strings, from the front of a stream. Returns how many bytes
// it takes, 0 if it is not complete. The words point into the stream. Ends the run if it is no
// command.
size_t ReadCommand(std::string_view stream, std::vector<std::string_view>& words);

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_REDIS_REQUEST_PARSER_H_
