#include "src/redis/wire/errors.h"

#include "tests/support/testing.h"

namespace redlatch::redis {
namespace {

struct ServerError {
  std::string_view text;  // as servers say it
  ErrorCode code;
  absl::StatusCode status;
  bool transient = false;
};

std::vector<ServerError> Errors() {
  using enum ErrorCode;
  using enum absl::StatusCode;
  return {
      {"NOSCRIPT No matching script. Please use EVAL.", kNoScript, kNotFound},
      {"LOADING Redis is loading the dataset in memory", kLoading, kUnavailable, true},
      {"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
       kBusy, kUnavailable, true},
      {"READONLY You can't write against a read only replica.", kReadOnly, kUnavailable, true},
      {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
       kMasterDown, kUnavailable, true},
      {"OOM command not allowed when used memory > 'maxmemory'.", kOutOfMemory, kResourceExhausted},
      {"NOAUTH Authentication required.", kNoAuth, kPermissionDenied},
      {"WRONGPASS invalid username-password pair or user is disabled.", kWrongPass,
       kPermissionDenied},
      {"NOPERM this user has no permissions to run the 'eval' command", kNoPermission,
       kPermissionDenied},
      {"ERR The user executing the script can't run this command or subcommand script: 9a8b, on "
       "@user_script:1.",
       kNoPermission, kPermissionDenied},
      {"ERR The user executing the script can't access at least one of the keys mentioned in the "
       "command arguments script: 9a8b, on @user_script:1.",
       kNoPermission, kPermissionDenied},
      {"ERR ACL failure in script: User bob has no permissions to run the 'hset' command",
       kNoPermission, kPermissionDenied},
      {"ERR unknown command 'EVALSHA', with args beginning with: '0' '0' ", kUnknownCommand,
       kFailedPrecondition},
      {"ERR Unknown Redis command called from script script: 9a8b, on @user_script:1.",
       kUnknownCommand, kFailedPrecondition},
      {"ERR This Redis command is not allowed from script script: 9a8b, on @user_script:1.", kOther,
       kFailedPrecondition},
      {"ERR This instance has Lua scripting support disabled", kOther, kFailedPrecondition},
      {"WRONGTYPE Operation against a key holding the wrong kind of value", kWrongType,
       kFailedPrecondition},
      {"MOVED 3999 127.0.0.1:6381", kMoved, kFailedPrecondition},
      {"ASK 3999 127.0.0.1:6381", kAsk, kFailedPrecondition},
      {"TRYAGAIN Multiple keys request during rehashing of slot", kTryAgain, kUnavailable, true},
      {"CLUSTERDOWN The cluster is down", kClusterDown, kUnavailable, true},
      {"ERR max number of clients reached", kTooManyClients, kUnavailable, true},
      {"ERR max number of clients + cluster connections reached", kTooManyClients, kUnavailable,
       true},
      {"ERR unknown command 'FOO'", kUnknownCommand, kFailedPrecondition},
      {"BUSYKEY Target key name already exists.", kOther, kInternal},
      {"NOTBUSY No scripts in execution right now.", kOther, kInternal},
      {"ERR about key: ERR ACL failure in script", kOther, kInternal},
      {"ERR NOSCRIPT", kOther, kInternal},
      {"noscript", kOther, kInternal},
      {" NOSCRIPT", kOther, kInternal},
      {"NOSCRIPT", kNoScript, kNotFound},
      {"", kOther, kInternal},
  };
}

TEST(ErrorsTest, ClassifiesErrorByFirstWords) {
  for (const ServerError& error : Errors()) {
    SCOPED_TRACE(error.text);
    EXPECT_EQ(ClassifyError(error.text), error.code);
    EXPECT_EQ(IsTransient(ClassifyError(error.text)), error.transient);
    EXPECT_EQ(ErrorStatus(error.text, "redis://h:6379").code(), error.status);
  }
}

TEST(ErrorsTest, MessagesNameServerAndItsText) {
  for (const ServerError& error : Errors()) {
    const absl::Status status = ErrorStatus(error.text, "redis://h:6379");
    EXPECT_THAT(std::string(status.message()),
                StartsWith("redis://h:6379 answered: " +
                           std::string(error.text.substr(0, error.text.find(" script: 9a8b")))));
    EXPECT_FALSE(MayHaveExecuted(status));
  }
}

TEST(ErrorsTest, ScriptThatStoppedMidwayMayHaveExecuted) {
  for (const std::string_view text :
       {"ERR Script attempted to access a non local key in a cluster node script: 9a8b, on "
        "@user_script:1.",
        "ERR Attempted to access a non local key in a cluster node script: on @user_script:1."}) {
    EXPECT_EQ(ClassifyError(text), ErrorCode::kStoppedMidway);
    EXPECT_TRUE(absl::IsUnavailable(ErrorStatus(text, "s")));
    EXPECT_TRUE(MayHaveExecuted(ErrorStatus(text, "s")));
  }
}

TEST(ErrorsTest, MessagesOmitScriptAndLine) {
  const auto message = [](std::string_view error) {
    return std::string(ErrorStatus(error, "s").message());
  };
  const std::string place =
      " script: a89a33b5d3074c7b6a6e1246cc4c67de4692b74b, on @user_script:136.";
  EXPECT_THAT(message("WRONGTYPE the key" + place), StartsWith("s answered: WRONGTYPE the key ("));
  EXPECT_EQ(message("ERR what" + place), "s answered: ERR what");
  EXPECT_EQ(message("REFUSED what" + place), "what");
  EXPECT_EQ(message("ERR what script: on @user_script:136."), "s answered: ERR what");
  for (const std::string_view text :
       {"ERR my script: stays", "ERR on @user_script:1.", "ERR script: a, on @user_script:1 x"}) {
    EXPECT_EQ(message(text), "s answered: " + std::string(text));
  }
}

TEST(ErrorsTest, MessagesNameTheFix) {
  const auto message = [](std::string_view error) {
    return std::string(ErrorStatus(error, "s").message());
  };
  EXPECT_EQ(message("NOAUTH HELLO must be called with the client already authenticated, otherwise "
                    "the HELLO <proto> AUTH <user> <pass> option can be used"),
            "s answered: NOAUTH HELLO must be called with the client already authenticated (put "
            "the password into the URL: redis://:password@host)");
  EXPECT_THAT(message("WRONGPASS x"), HasSubstr("user and password"));
  EXPECT_THAT(message("NOPERM x"), HasSubstr("ACL SETUSER"));
  EXPECT_THAT(message("NOPERM No permissions to access a key"), HasSubstr("key pattern"));
  EXPECT_THAT(message("WRONGTYPE x"), HasSubstr("choose another name"));
  EXPECT_EQ(message("WRONGTYPE x is in use as a latch, not as a simple lock; use another name"),
            "s answered: WRONGTYPE x is in use as a latch, not as a simple lock; use another name");
  EXPECT_THAT(message("READONLY x"), HasSubstr("connect to the primary"));
  EXPECT_THAT(message("OOM x"), HasSubstr("maxmemory"));
  EXPECT_THAT(message("BUSY x"), HasSubstr("SCRIPT KILL"));
  EXPECT_THAT(message("ERR x"), Not(HasSubstr("(")));
}

TEST(ErrorsTest, RemembersThatCommandMayHaveExecuted) {
  const absl::Status plain = absl::UnavailableError("no answer");
  EXPECT_FALSE(MayHaveExecuted(plain));
  const absl::Status marked = MarkMayHaveExecuted(plain);
  EXPECT_TRUE(MayHaveExecuted(marked));
  EXPECT_TRUE(MayHaveExecuted(MarkMayHaveExecuted(marked)));
  EXPECT_EQ(marked.code(), plain.code());
  EXPECT_EQ(marked.message(), plain.message());
  EXPECT_FALSE(MayHaveExecuted(plain));
  EXPECT_TRUE(MarkMayHaveExecuted(absl::OkStatus()).ok());
}

TEST(ErrorsTest, ExplainsUnwritableAppendOnlyFile) {
  const std::string aof(
      ErrorStatus("MISCONF Errors writing to the AOF file: No space left on device", "s")
          .message());
  EXPECT_THAT(aof, HasSubstr("append-only file"));
  EXPECT_THAT(aof, HasSubstr("make room on its disk"));
  EXPECT_THAT(aof, Not(HasSubstr("stop-writes-on-bgsave-error")));
  const std::string rdb(
      ErrorStatus("MISCONF Redis is configured to save RDB snapshots, but it's currently unable",
                  "s")
          .message());
  EXPECT_THAT(rdb, HasSubstr("stop-writes-on-bgsave-error"));
}

TEST(ErrorStatus, ServerTextIsEscapedAndShortened) {
  for (const char* kind : {"ERR ", "MISCONF ", "REFUSED ", "LOADING ", "MOVED 1 "}) {
    const std::string said = kind + ("\x1b[2J\a" + std::string(900'000, 'x'));
    const std::string message(ErrorStatus(said, "the server").message());
    EXPECT_THAT(message, HasSubstr("\\x1b[2J\\x07xx"));
    EXPECT_LT(message.size(), 11'000U);
  }
  EXPECT_FALSE(RedirectOf(ErrorStatus("MOVED 1 a\x1b:6379", "the server")).has_value());
}

}  // namespace
}  // namespace redlatch::redis
