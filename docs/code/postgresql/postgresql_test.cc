// The code of recipes/postgresql.md, and a test that runs it on the server of with_server.sh.

// [read]
#include <libpq-fe.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "redlatch/fencing_token.h"

// Reads a balance and leaves the token there, so that an earlier holder can no longer write.
absl::StatusOr<std::string> ReadBalance(PGconn* db, redlatch::FencingToken token,
                                        const std::string& account) {
  const std::string fence = std::to_string(token.value());
  const char* const values[] = {fence.c_str(), account.c_str()};
  const std::unique_ptr<PGresult, decltype(&PQclear)> result(
      PQexecParams(db,
                   "UPDATE account SET fence = $1 WHERE id = $2 AND fence <= $1 RETURNING balance",
                   2, nullptr, values, nullptr, nullptr, 0),
      &PQclear);
  if (PQresultStatus(result.get()) != PGRES_TUPLES_OK) {
    return absl::UnavailableError(PQerrorMessage(db));
  }
  if (PQntuples(result.get()) != 1) {
    return absl::AbortedError("a later holder has the account, or there is no such account");
  }
  return std::string(PQgetvalue(result.get(), 0, 0));
}
// [/read]

// [write]
// Writes a balance, unless a later holder of the lock has read or written it. The comparison and
// the write are one statement, so nothing can come between them.
absl::Status WriteBalance(PGconn* db, redlatch::FencingToken token, const std::string& account,
                          const std::string& balance) {
  const std::string fence = std::to_string(token.value());
  const char* const values[] = {fence.c_str(), account.c_str(), balance.c_str()};
  const std::unique_ptr<PGresult, decltype(&PQclear)> result(
      PQexecParams(db, "UPDATE account SET fence = $1, balance = $3 WHERE id = $2 AND fence <= $1",
                   3, nullptr, values, nullptr, nullptr, 0),
      &PQclear);
  if (PQresultStatus(result.get()) != PGRES_COMMAND_OK) {
    return absl::UnavailableError(PQerrorMessage(db));
  }
  if (PQcmdTuples(result.get()) != std::string("1")) {
    return absl::AbortedError("a later holder has the account, or there is no such account");
  }
  return absl::OkStatus();
}
// [/write]

// The page shows all that its code needs, so the headers of its test come after it.
#include "docs/code/expect.h"
#include "gtest/gtest.h"
#include "redlatch/simple_lock.h"

TEST(PostgresqlRecipe, AnEarlierHolderCannotWrite) {
  // The server, and the table that the page shows, come from with_server.sh.
  const std::unique_ptr<PGconn, decltype(&PQfinish)> db(PQconnectdb(""), &PQfinish);
  ASSERT_EQ(PQstatus(db.get()), CONNECTION_OK) << PQerrorMessage(db.get());

  const redlatch::Client first = Connected();
  const redlatch::Client second = Connected();
  redlatch::SimpleLock lock(first, "account:7");
  const absl::StatusOr<redlatch::Lease> early = lock.Acquire();
  ExpectOk(early.status());
  EXPECT_EQ(*ReadBalance(db.get(), early->fencing_token(), "7"), "100");
  EXPECT_TRUE(absl::IsAborted(ReadBalance(db.get(), early->fencing_token(), "8").status()));

  // The first holder freezes, loses the lock, and wakes too late.
  redlatch::SimpleLock others(second, "account:7");
  ExpectOk(others.ForceRelease());
  const absl::StatusOr<redlatch::Lease> late = others.Acquire({.wait = absl::Seconds(5)});
  ExpectOk(late.status());
  EXPECT_EQ(*ReadBalance(db.get(), late->fencing_token(), "7"), "100");
  EXPECT_TRUE(absl::IsAborted(WriteBalance(db.get(), early->fencing_token(), "7", "90")));
  ExpectOk(WriteBalance(db.get(), late->fencing_token(), "7", "150"));
  EXPECT_EQ(*ReadBalance(db.get(), late->fencing_token(), "7"), "150");
}
