#ifndef REDLATCH_TESTS_SIM_REDIS_RESP_H_
#define REDLATCH_TESTS_SIM_REDIS_RESP_H_

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/redis/wire/codec.h"

namespace redlatch::sim {

// The destination of a reply: bytes for a connection, values for Lua, or a Reply.
class Output {
 public:
  virtual ~Output() = default;
  virtual void Nil() = 0;
  virtual void Integer(int64_t number) = 0;
  virtual void Text(std::string_view text) = 0;
  virtual void Status(std::string_view text) = 0;
  virtual void Error(std::string_view text) = 0;  // "WRONGTYPE Operation against ..."
  virtual void Array(size_t size) = 0;            // that many values follow

  // What only RESP 3 has types for; elsewhere arrays and texts stand for it.
  virtual void Map(size_t pairs) { Array(2 * pairs); }  // as many names and values follow
  virtual void Push(size_t size) { Array(size); }
  virtual void Pairs(size_t count) { Array(2 * count); }  // each begins with Pair()
  virtual void Pair() {}
  virtual void Score(double score);
  virtual void Lines(std::string_view text) { Text(text); }

  // Texts and integers, one after the other.
  template <typename... Values>
  void All(const Values&... values) {
    (Put(values), ...);
  }
  // An array of them.
  template <typename... Values>
  void List(const Values&... values) {
    Array(sizeof...(values));
    All(values...);
  }

 private:
  void Put(std::string_view text) { Text(text); }
  void Put(std::integral auto number) { Integer(static_cast<int64_t>(number)); }
};

inline constexpr int kResp2 = 2, kResp3 = 3;

// RESP, appended to a string. HELLO may change the protocol before its reply.
class RespOutput : public Output {
 public:
  explicit RespOutput(std::string& bytes, const int& protocol = kResp2)
      : bytes_(bytes), protocol_(protocol) {}
  void Nil() override;
  void Integer(int64_t number) override;
  void Text(std::string_view text) override;
  void Status(std::string_view text) override;
  void Error(std::string_view text) override;
  void Array(size_t size) override { Header('*', size); }
  void Map(size_t pairs) override;
  void Push(size_t size) override { Header(resp3() ? '>' : '*', size); }
  void Pairs(size_t count) override;
  void Pair() override;
  void Score(double score) override;
  void Lines(std::string_view text) override;

 private:
  bool resp3() const { return protocol_ == kResp3; }
  void Header(char type, size_t size);

  std::string& bytes_;
  const int& protocol_;
};

// Replies as values. There may be several, as from SUBSCRIBE.
class ReplyOutput : public Output {
 public:
  void Nil() override { Add({}); }
  void Integer(int64_t number) override;
  void Text(std::string_view text) override;
  void Status(std::string_view text) override;
  void Error(std::string_view text) override;
  void Array(size_t size) override;
  std::vector<redis::Reply>& replies() { return replies_; }

 private:
  struct Open {
    redis::Reply array;
    size_t missing;
  };
  void Add(redis::Reply reply);

  std::vector<redis::Reply> replies_;
  std::vector<Open> open_;
};

// Reads one command, an array of bulk strings, from the front of a stream. Returns its length in
// bytes, or 0 if it is incomplete. The words point into the stream. Anything else ends the run.
size_t ReadCommand(std::string_view stream, std::vector<std::string_view>& words);

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_REDIS_RESP_H_
