// The code of recipes/grpc-server.md, and tests that run it.
#include "docs/code/expect.h"
#include "gtest/gtest.h"

// [reservation]
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <stop_token>

#include "absl/time/clock.h"
#include "redlatch/simple_lock.h"
#include "seats.grpc.pb.h"

// One call of Reserve(). No thread waits for the lock.
class Reservation final : public grpc::ServerUnaryReactor {
 public:
  Reservation(const redlatch::Client& client, const grpc::CallbackServerContext& context,
              const ReserveRequest& request, ReserveReply* reply)
      : lock_(client, "seat:" + request.seat()) {
    const absl::Duration left = absl::FromChrono(context.deadline()) - absl::Now();
    lock_.AcquireAsync({.wait = std::min(left, absl::Seconds(5)), .stop = stop_.get_token()},
                       [this, reply](absl::StatusOr<redlatch::Lease> lease) {
                         if (!lease.ok()) return End(lease.status());
                         // ... reserve the seat, while lease->valid()
                         reply->set_token(lease->fencing_token().value());
                         lease->ReleaseAsync([this](const absl::Status& done) { End(done); });
                       });
  }

 private:
  // The codes of absl::Status and of grpc::Status are the same.
  void End(const absl::Status& status) {
    Finish({static_cast<grpc::StatusCode>(status.code()), std::string(status.message())});
  }
  void OnCancel() override { stop_.request_stop(); }  // the caller has gone
  void OnDone() override { delete this; }

  redlatch::SimpleLock lock_;
  std::stop_source stop_;
};
// [/reservation]

// [service]
class SeatService final : public Seats::CallbackService {
 public:
  explicit SeatService(redlatch::Client client) : client_(std::move(client)) {}

  grpc::ServerUnaryReactor* Reserve(grpc::CallbackServerContext* context,
                                    const ReserveRequest* request, ReserveReply* reply) override {
    return new Reservation(client_, *context, *request, reply);  // deletes itself in OnDone()
  }

 private:
  redlatch::Client client_;
};
// [/service]

grpc::Status Ask(Seats::Stub& stub, const std::string& seat, absl::Duration timeout,
                 ReserveReply& reply) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  ReserveRequest request;
  request.set_seat(seat);
  return stub.Reserve(&context, request, &reply);
}

TEST(GrpcServerRecipe, ReservesUntilTheDeadlineOfTheCall) {
  SeatService service(Connected());
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const std::unique_ptr<Seats::Stub> stub = Seats::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));

  ReserveReply reply;
  const grpc::Status first = Ask(*stub, "17", absl::Seconds(10), reply);
  EXPECT_TRUE(first.ok()) << first.error_message();
  EXPECT_GT(reply.token(), 0U);

  const redlatch::Client another_process = Connected();
  redlatch::SimpleLock lock(another_process, "seat:17");
  absl::StatusOr<redlatch::Lease> lease = lock.Acquire({.wait = absl::Seconds(5)});
  ExpectOk(lease.status());
  EXPECT_EQ(Ask(*stub, "17", absl::Milliseconds(300), reply).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Ask(*stub, "18", absl::Seconds(10), reply).ok());
  ExpectOk(lease->Release());
  EXPECT_TRUE(Ask(*stub, "17", absl::Seconds(10), reply).ok());
  server->Shutdown();
}
