#include "src/cli/term/server.h"

#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/base/atomic.h"
#include "src/base/parker.h"
#include "src/cli/term/output.h"
#include "src/lock/description.h"
#include "src/redis/connect/handshake.h"
#include "src/redis/embedded/embedded.h"
#include "src/redis/server_group/cluster.h"
#include "src/redis/transport/tls.h"
#include "src/redis/wire/errors.h"

namespace redlatch::cli {

std::vector<Shard> ShardsOf(const redis::ClusterView& view) {
  std::vector<Shard> shards;
  for (const redis::SlotRange& range : view.ranges) {
    auto shard = std::ranges::find(shards, range.primary, &Shard::primary);
    if (shard == shards.end()) {
      shard =
          shards.insert(shard, {.primary = range.primary, .replicas = range.replicas, .slots = {}});
    }
    for (int slot = range.first; slot <= range.last; ++slot) {
      shard->slots.set(static_cast<size_t>(slot));
    }
  }
  std::ranges::sort(shards, {}, &Shard::primary);
  return shards;
}

std::optional<std::string> NameIn(const Shard& shard, std::string_view beginning) {
  // For a shard of few slots it may take many names. If the first ones all have the same slot, the
  // beginning has a hash tag, and further names do not help.
  constexpr int kMostNames = 300'000;
  constexpr int kEnoughOfOneSlot = 100;
  std::optional<redis::Slot> first;
  bool spread = false;
  for (int i = 0; i < kMostNames && (spread || i < kEnoughOfOneSlot); ++i) {
    std::string name = absl::StrCat(std::string(beginning), ":", i);
    const redis::Slot slot = redis::SlotOf(name);
    if (shard.slots.test(slot)) return name;
    spread = spread || slot != first.value_or(slot);
    first = slot;
  }
  return std::nullopt;
}

absl::StatusOr<redis::ClusterView> FindCluster(const redis::Url& url,
                                               absl::Span<const redis::HostAndPort> nodes) {
  absl::Status why;
  // The first round has a short timeout, so that a node that hangs delays it little.
  for (const absl::Duration timeout :
       {absl::Milliseconds(500), url.connect_timeout + url.command_timeout}) {
    std::optional<redis::ClusterView> best;
    for (const redis::HostAndPort& node : nodes) {
      absl::StatusOr<redis::ClusterView> view = redis::AskForView(url, node, base::Now() + timeout);
      if (!view.ok()) {
        why = view.status();
        if (absl::StrContains(why.message(), "cluster support disabled")) {
          why = absl::FailedPreconditionError(
              absl::StrCat(node.text(), " is no node of a cluster (begin the URL with redis://)"));
        }
        continue;
      }
      if (!best || best->epoch < view->epoch || view->well) best = *std::move(view);
      if (best->well) break;
    }
    if (best) return *std::move(best);
  }
  return why;
}

// Each line is: id address@port[,host] flags primary ping pong epoch link slots... Among the slots,
// "[93->-id]" is one that leaves the node, and "[93-<-id]" one that comes to it.
std::vector<ClusterLine> ReadClusterNodes(const std::string& text) {
  std::vector<ClusterLine> lines;
  for (const absl::string_view row : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
    const std::vector<absl::string_view> words = absl::StrSplit(row, ' ', absl::SkipEmpty());
    if (words.size() < 8) continue;
    ClusterLine line = {.id = std::string(words[0]),
                        .address = std::string(words[1].substr(0, words[1].find('@'))),
                        .flags = absl::StrSplit(words[2], ',')};
    for (size_t i = 8; i < words.size(); ++i) {
      const std::vector<std::string> move =
          absl::StrSplit(words[i], absl::ByAnyChar("[]<>"), absl::SkipEmpty());
      OpenSlot slot = {.leaving = absl::StrContains(words[i], ">")};
      if (words[i].front() != '[') {
        line.serves = true;
      } else if (move.size() == 2 && move[1].size() > 1 &&
                 absl::SimpleAtoi(move[0].substr(0, move[0].find('-')), &slot.slot)) {
        slot.other = move[1].substr(1);
        line.open.push_back(std::move(slot));
      }
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

void ForEach(size_t count, size_t at_once, const std::function<void(size_t i)>& work) {
  base::Atomic<size_t> next = 0;
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < std::min(count, at_once); ++i) {
    threads.emplace_back([&] {
      for (size_t mine; (mine = next.fetch_add(1)) < count;) work(mine);
    });
  }
}

// Many commands are sent at once, so they get more time than the URL's command_timeout.
Server::Server(const redis::Url& parsed, std::string_view url)
    : parsed_(parsed),
      url_(url),
      name_(parsed.DebugString()),
      timeout_(parsed.command_timeout + absl::Seconds(4)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Open(std::string_view url) {
  const absl::StatusOr<redis::Url> parsed = redis::ParseUrl(url);
  if (!parsed.ok()) return parsed.status();
  if (parsed->kind == redis::Url::Kind::kQuorum) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a quorum of servers has no semaphores, latches, read-write locks or elections; ask one "
        "server: --server ",
        parsed->members.front().DebugString()));
  }
  std::unique_ptr<Server> server(new Server(*parsed, url));
  absl::Status opened = server->is_cluster() ? server->Learn() : server->Connect();
  if (!opened.ok()) return opened;
  if (parsed->tls != nullptr && parsed->tls->options().insecure) {
    Complain({"warning: ", redis::NotVerified(server->name())});
  }
  return server;
}

absl::Status Server::Connect() {
  if (parsed_.kind == redis::Url::Kind::kEmbedded) {
    const absl::StatusOr<std::optional<std::string>> socket =
        redis::FindEmbeddedServer(parsed_.path);
    if (!socket.ok()) return socket.status();
    if (!socket->has_value()) {
      return absl::NotFoundError(
          absl::StrCat("your private server (", name_,
                       ") is not running, so it has no locks; choose another server with "
                       "--server or $REDLATCH_URL"));
    }
  }
  nodes_.push_back({.where = {}, .url = parsed_});
  const redis::Command hello{"HELLO"};
  const auto replies = AskNode(nodes_[0], {&hello, 1}, base::Now() + timeout_);
  if (!replies.ok()) return replies.status();
  is_replica_ = redis::ValueOf(replies->front(), "role") == "replica";
  // A server that cannot hold locks has none to show.
  const auto purpose = redis::Handshake::Purpose::kQuestions;
  absl::Status fit = redis::Handshake(parsed_, purpose).CheckHello(replies->front());
  if (fit.ok() && is_replica_) {
    Complain({"warning: ", name_, " is a replica: what it shows may be out of date"});
  }
  return fit;
}

// Learns which node has which slots.
absl::Status Server::Learn() {
  const absl::StatusOr<redis::ClusterView> view = FindCluster(parsed_, parsed_.nodes);
  if (!view.ok()) return view.status();
  owners_.assign(redis::kSlots, kNoNode);
  for (const redis::SlotRange& range : view->ranges) {
    std::fill(owners_.begin() + range.first, owners_.begin() + range.last + 1,
              NodeAt(range.primary));
  }
  redis::Url url = parsed_;
  url.only_questions = true;
  url.quarantine = absl::ZeroDuration();
  group_ = std::make_unique<redis::Cluster>(
      url,
      redis::Cluster::Own{.channel = [](std::string_view) { return std::string(); },
                          .description_key = "",
                          .description = redis::Command{"PING"},
                          .mark = [](std::string_view) { return redis::Command{"PING"}; }},
      redis::ServerGroup::Events{.on_message = [](std::string_view) {},
                                 .on_reconnected = [] {},
                                 .on_subscribed = [](bool, std::string_view) {}});
  return absl::OkStatus();
}

size_t Server::NodeAt(const redis::HostAndPort& where) {
  const auto found = std::ranges::find(nodes_, where, &Node::where);
  if (found != nodes_.end()) return static_cast<size_t>(found - nodes_.begin());
  nodes_.push_back({.where = where, .url = redis::UrlOfNode(parsed_, where)});
  return nodes_.size() - 1;
}

void Server::FindAllParts() {
  if (!is_cluster()) return;
  const auto unserved = std::ranges::find(owners_, kNoNode);
  if (unserved != owners_.end()) {
    PassesOver(absl::UnavailableError(
        absl::StrCat("no node of ", name(), " serves ", std::ranges::count(owners_, kNoNode),
                     " of its slots, the first of which is ", unserved - owners_.begin())));
  }
  for (size_t part = 0; part < nodes_.size(); ++part) {
    const absl::StatusOr<redis::Reply> told = AskPart(part, redis::Command{"CLUSTER", "NODES"});
    if (absl::IsPermissionDenied(told.status())) return;
    if (!told.ok()) continue;
    for (const ClusterLine& line : ReadClusterNodes(told->text)) {
      const size_t colon = line.address.rfind(':');
      int port = 0;
      if (line.serves || line.flags != std::set<std::string>{"master"} || colon == 0 ||
          colon == std::string::npos || !absl::SimpleAtoi(line.address.substr(colon + 1), &port)) {
        continue;
      }
      NodeAt({.host = line.address.substr(0, colon), .port = static_cast<uint16_t>(port)});
    }
    return;
  }
}

absl::Status Server::Reach(Node& node, base::Instant deadline) {
  if (node.connection) return absl::OkStatus();
  auto opened = redis::PlainConnection::Open(
      node.url, std::min(deadline, base::Now() + parsed_.connect_timeout));
  node.failure = opened.status();
  if (opened.ok()) node.connection = *std::move(opened);
  return node.failure;
}

absl::StatusOr<std::vector<redis::Reply>> Server::AskNode(Node& node,
                                                          absl::Span<const redis::Command> commands,
                                                          base::Instant deadline) {
  if (absl::Status reached = Reach(node, deadline); !reached.ok()) return reached;
  auto replies = node.connection->CallAll(commands, deadline);
  node.failure = replies.status();
  if (!replies.ok()) node.connection.reset();
  return replies;
}

absl::StatusOr<redis::Reply> Server::AskPart(size_t part, const redis::Command& command) {
  Node& node = nodes_[part];
  if (passes_over_unreachable_ && !node.failure.ok()) return node.failure;
  auto replies = AskNode(node, {&command, 1}, base::Now() + timeout_);
  if (!replies.ok()) return replies.status();
  if (!replies->front().is_error()) return std::move(replies->front());
  return redis::ErrorStatus(replies->front().text, node.url.DebugString());
}

absl::Status Server::Ask(absl::Span<const Question> questions, Unreachable unreachable) {
  if (questions.empty()) return absl::OkStatus();
  const bool soon = unreachable == Unreachable::kIsNil;
  const bool pass_over = is_cluster() && (soon || passes_over_unreachable_);
  const base::Instant deadline = base::Now() + (soon ? parsed_.command_timeout : timeout_);
  Replies replies;
  if (is_cluster()) {
    replies = AskGroup(questions, pass_over, deadline);
  } else {
    std::vector<redis::Command> commands;
    for (const Question& each : questions) commands.push_back(each.command);
    auto answers = AskNode(nodes_[0], commands, deadline);
    if (!answers.ok()) return answers.status();
    replies.assign(answers->begin(), answers->end());
  }
  for (size_t i = 0; i < questions.size(); ++i) {
    absl::StatusOr<redis::Reply>& reply = replies[i];
    if (reply.ok() && reply->is_error()) {
      if (IsNil(reply->text)) {
        reply = redis::Reply();
      } else {
        reply =
            redis::ErrorStatus(reply->text, group_ ? group_->facts(questions[i].key).name : name_);
      }
    }
    if (pass_over && absl::IsUnavailable(reply.status())) {
      const size_t part = PartOf(questions[i].key);
      if (part != kNoNode) nodes_[part].failure = reply.status();
      (void)PassesOver(reply.status());
      reply = redis::Reply();
    }
    if (!reply.ok()) return reply.status();
    questions[i].take(*reply);
  }
  return absl::OkStatus();
}

// Why the node that has the key can't be asked. A connection of this command's own finds a node
// that is down within the connect timeout; the group would try to reach it until the deadline.
absl::Status Server::WhyDown(std::string_view key, bool pass_over, base::Instant deadline) {
  const size_t part = PartOf(key);
  if (part == kNoNode) {
    return absl::UnavailableError(
        absl::StrCat("no node of ", name_, " serves slot ", redis::SlotOf(key)));
  }
  Node& node = nodes_[part];
  if (pass_over && !node.failure.ok()) return node.failure;
  absl::Status reached = Reach(node, deadline);
  if (!absl::IsUnavailable(reached)) return absl::OkStatus();  // the group says what is wrong
  if (pass_over) return reached;
  return absl::UnavailableError(absl::StrCat(
      reached.message(), absl::EndsWith(reached.message(), "?") ? " " : "; ",
      "this node of the cluster has the lock: start it again, or let a replica take over (redlatch "
      "doctor checks all nodes)"));
}

// Asks through the library's server group, which finds the node that has each key now.
Server::Replies Server::AskGroup(absl::Span<const Question> questions, bool pass_over,
                                 base::Instant deadline) {
  Replies replies(questions.size(), absl::UnknownError("not asked"));
  std::vector<std::string_view> keys(questions.size());
  std::vector<size_t> asked;
  std::vector<redis::ScriptCall> calls;
  for (size_t i = 0; i < questions.size(); ++i) {
    keys[i] = questions[i].key;
    if (absl::Status down = WhyDown(keys[i], pass_over, deadline); !down.ok()) {
      replies[i] = down;
      continue;
    }
    asked.push_back(i);
    calls.push_back({.keys = {&keys[i], 1}, .command = &questions[i].command});
  }
  Replies answers(calls.size());
  group_->Run(calls, deadline, absl::MakeSpan(answers));
  std::set<size_t> down;  // parts that have failed until the deadline
  for (size_t at = 0; at < asked.size(); ++at) {
    absl::StatusOr<redis::Reply>& reply = replies[asked[at]];
    reply = std::move(answers[at]);
    // In a batch, the group soon gives up a call whose slot is moving, or whose node it has not
    // connected to yet.
    const auto fails_for_now = [&] {
      return reply.ok() ? reply->is_error() && redis::IsTransient(redis::ClassifyError(reply->text))
                        : absl::IsUnavailable(reply.status());
    };
    const size_t part = PartOf(keys[asked[at]]);
    constexpr absl::Duration kLeast = absl::Milliseconds(200);  // less gives no better reason
    while (fails_for_now() && !down.contains(part) && base::Now() + kLeast < deadline) {
      base::Parker().ParkUntil(base::Now() + absl::Milliseconds(20));
      reply = group_->Run(calls[at], deadline);
    }
    if (fails_for_now()) down.insert(part);
  }
  return replies;
}

bool Server::IsNil(const std::string& error) const {
  return redis::ClassifyError(error) == redis::ErrorCode::kWrongType ||
         (passes_over_forbidden_ && redis::DeniesKey(error));
}

bool Server::PassesOver(const absl::Status& why) {
  if (!passes_over_unreachable_) return false;
  if (std::ranges::find(missing_, why) == missing_.end()) missing_.push_back(why);
  return true;
}

absl::StatusOr<int64_t> Server::NowMicros(const std::string& key) {
  int64_t now = 0;
  const Question question = {key, redis::Command{"TIME"},
                             [&now](const redis::Reply& reply) { now = MicrosIn(reply); }};
  if (absl::Status asked = Ask({&question, 1}); !asked.ok()) return asked;
  if (now == 0 && !passes_over_unreachable_) return absl::InternalError("TIME answered no time");
  return now;
}

int64_t NumberIn(const redis::Reply& reply) {
  if (reply.type == redis::Reply::Type::kInteger) return reply.integer;
  int64_t number = 0;
  if (absl::SimpleAtoi(reply.text, &number)) return number;
  double real = 0;  // scores may have an exponent
  return absl::SimpleAtod(reply.text, &real) ? static_cast<int64_t>(real) : 0;
}

int64_t MicrosIn(const redis::Reply& time) {
  if (time.elements.size() != 2) return 0;
  return NumberIn(time.elements[0]) * 1'000'000 + NumberIn(time.elements[1]);
}

std::optional<Leader> ReadLeader(const std::string& record, std::string_view holder) {
  const std::vector<std::string> words = absl::StrSplit(record, absl::MaxSplits(' ', 4));
  uint64_t epoch = 0;
  int64_t since = 0;
  if (words.size() < 5 || words[0] != holder || !absl::SimpleAtoi(words[1], &epoch) ||
      !absl::SimpleAtoi(words[3], &since)) {
    return std::nullopt;
  }
  return Leader{.value = words[4],
                .epoch = FencingToken(epoch),
                .since = absl::FromUnixMicros(since),
                .client = std::string(internal::ClientOf(holder))};
}

}  // namespace redlatch::cli
