#ifndef REDLATCH_SRC_DEMO_SHOW_H_
#define REDLATCH_SRC_DEMO_SHOW_H_

#include <string>

namespace redlatch::demo {

// The demonstration: starts the workers, kills one, freezes another, and counts. The exit code.
int RunShow(const std::string& url);

}  // namespace redlatch::demo

#endif  // REDLATCH_SRC_DEMO_SHOW_H_
