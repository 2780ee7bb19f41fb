#include "src/demo/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace redlatch::demo {
namespace {

// Of one length, so that the last is found from the end.
constexpr size_t kRecordSize = 48;
using Text = std::array<char, kRecordSize + 1>;

absl::Status Failed(const std::string& path) { return absl::ErrnoToStatus(errno, path); }

Text Encode(const FencedCounter::Record& record) {
  Text text;
  std::snprintf(text.data(), text.size(), "%15" PRId64 " %20" PRIu64 " %8d %c\n", record.count,
                record.token.value(), record.worker, record.written ? 'w' : 'r');
  return text;
}

absl::StatusOr<FencedCounter::Record> ReadAt(int file, size_t index, const std::string& path) {
  Text text = {};
  if (pread(file, text.data(), kRecordSize, static_cast<off_t>(index * kRecordSize)) !=
      static_cast<ssize_t>(kRecordSize)) {
    return Failed(path);
  }
  FencedCounter::Record record;
  uint64_t token = 0;
  char kind = 0;
  if (std::sscanf(text.data(), "%" SCNd64 " %" SCNu64 " %d %c", &record.count, &token,
                  &record.worker, &kind) != 4) {
    return absl::DataLossError(absl::StrCat(path, " has a record that is none"));
  }
  record.token = FencingToken(token);
  record.written = kind == 'w';
  return record;
}

absl::StatusOr<size_t> CountRecords(int file, const std::string& path) {
  struct stat about = {};
  if (fstat(file, &about) != 0) return Failed(path);
  return static_cast<size_t>(about.st_size) / kRecordSize;
}

absl::StatusOr<FencedCounter::Record> ReadLast(int file, const std::string& path) {
  const absl::StatusOr<size_t> records = CountRecords(file, path);
  if (!records.ok()) return records.status();
  if (*records == 0) return FencedCounter::Record{};
  return ReadAt(file, *records - 1, path);
}

// One access; a reading one takes over the count that it finds. Returns the count.
absl::StatusOr<int64_t> Append(const std::string& path, FencedCounter::Record record) {
  const int file = open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC);
  if (file < 0) return Failed(path);
  const absl::Cleanup closed = [file] { close(file); };  // ends the flock too
  if (flock(file, LOCK_EX) != 0) return Failed(path);

  const absl::StatusOr<FencedCounter::Record> last = ReadLast(file, path);
  if (!last.ok()) return last.status();
  if (record.token < last->token) {
    return absl::FailedPreconditionError(absl::StrCat("token ", record.token.value(),
                                                      " is older than ", last->token.value(),
                                                      ", the newest that the file has seen"));
  }
  if (!record.written) record.count = last->count;
  const Text text = Encode(record);
  if (write(file, text.data(), kRecordSize) != static_cast<ssize_t>(kRecordSize)) {
    return Failed(path);
  }
  return record.count;
}

}  // namespace

absl::Status FencedCounter::Create() const {
  const int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return Failed(path_);
  close(file);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> FencedCounter::Read(FencingToken token, int worker) const {
  return Append(path_, {.token = token, .worker = worker});
}

absl::Status FencedCounter::Write(int64_t count, FencingToken token, int worker) const {
  return Append(path_, {.count = count, .token = token, .worker = worker, .written = true})
      .status();
}

absl::StatusOr<std::vector<FencedCounter::Record>> FencedCounter::Journal() const {
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Failed(path_);
  const absl::Cleanup closed = [file] { close(file); };
  const absl::StatusOr<size_t> records = CountRecords(file, path_);
  if (!records.ok()) return records.status();
  std::vector<Record> journal;
  for (size_t i = 0; i < *records; ++i) {
    const absl::StatusOr<Record> record = ReadAt(file, i, path_);
    if (!record.ok()) return record.status();
    journal.push_back(*record);
  }
  return journal;
}

}  // namespace redlatch::demo
