#ifndef REDLATCH_SRC_DEMO_DIRECTORY_H_
#define REDLATCH_SRC_DEMO_DIRECTORY_H_

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace redlatch::demo {

// A directory with one file, gone when this is.
class Directory {
 public:
  Directory() {
    std::error_code error;
    std::string path = (std::filesystem::temp_directory_path(error) / "redlatch-demo.XXXXXX");
    if (!error && mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~Directory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  const std::string& path() const { return path_; }  // empty: it could not be made

 private:
  std::string path_;
};

}  // namespace redlatch::demo

#endif  // REDLATCH_SRC_DEMO_DIRECTORY_H_
