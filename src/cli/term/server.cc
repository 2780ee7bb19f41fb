#include "src/cli/term/server.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/base/parker.h"
#include "src/cli/term/output.h"
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
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < std::min(count, at_once); ++i) {
    threads.emplace_back([&] {
      for (size_t mine = next++; mine < count; mine = next++) work(mine);
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
        "a quorum of servers has no semaphores, latches or read-write locks; ask one server: "
        "--server ",
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

// Learns which node has which slots. Asks nodes with a working connection first.
absl::Status Server::Learn() {
  std::vector<redis::HostAndPort> whom;
  for (const Node& node : nodes_) {
    if (node.connection) whom.push_back(node.where);
  }
  whom.insert(whom.end(), parsed_.nodes.begin(), parsed_.nodes.end());
  for (const Node& node : nodes_) whom.push_back(node.where);
  const absl::StatusOr<redis::ClusterView> view = FindCluster(parsed_, whom);
  if (!view.ok()) return view.status();
  owners_.assign(redis::kSlots, kNoNode);
  for (const redis::SlotRange& range : view->ranges) {
    std::fill(owners_.begin() + range.first, owners_.begin() + range.last + 1,
              NodeAt(range.primary));
  }
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

absl::StatusOr<std::vector<redis::Reply>> Server::AskNode(Node& node,
                                                          absl::Span<const redis::Command> commands,
                                                          base::Instant deadline) {
  if (!node.connection) {
    const absl::Duration timeout = parsed_.connect_timeout + parsed_.command_timeout;
    auto opened = redis::PlainConnection::Open(node.url, std::min(deadline, base::Now() + timeout));
    node.failure = opened.status();
    if (!opened.ok()) return opened.status();
    node.connection = *std::move(opened);
  }
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

absl::StatusOr<std::vector<redis::Reply>> Server::Ask(absl::Span<const redis::Command> commands,
                                                      absl::Span<const std::string> keys,
                                                      Unreachable unreachable) {
  const bool soon = unreachable == Unreachable::kIsNil;
  Questioned asked{.commands = commands,
                   .keys = keys,
                   .nil_if_unreachable = is_cluster() && (soon || passes_over_unreachable_),
                   .deadline = base::Now() + (soon ? parsed_.command_timeout : timeout_),
                   .replies = std::vector<redis::Reply>(commands.size())};
  std::map<size_t, std::vector<size_t>> by_node;
  for (size_t i = 0; i < keys.size(); ++i) by_node[PartOf(keys[i])].push_back(i);
  auto left = static_cast<int64_t>(by_node.size());
  for (const auto& [node, questions] : by_node) {
    const base::Instant now = base::Now();
    asked.nodes_share = now + (asked.deadline - now) / left--;  // leaves time for the other nodes
    if (absl::Status done = AskTogether(node, questions, asked); !done.ok()) return done;
  }
  return std::move(asked.replies);
}

absl::Status Server::AskTogether(size_t node, const std::vector<size_t>& questions,
                                 Questioned& asked) {
  std::vector<redis::Command> commands;
  for (const size_t i : questions) commands.push_back(asked.commands[i]);
  absl::StatusOr<std::vector<redis::Reply>> replies = std::vector<redis::Reply>();
  if (node == kNoNode) {
    replies = absl::UnavailableError(absl::StrCat("no node of ", name_, " serves slot ",
                                                  redis::SlotOf(asked.keys[questions[0]])));
  } else if (asked.nil_if_unreachable && !nodes_[node].failure.ok()) {
    replies = nodes_[node].failure;
  } else {
    replies = AskNode(nodes_[node], commands, asked.nodes_share);
    if (!replies.ok() && is_cluster()) Learn().IgnoreError();
  }
  if (!replies.ok() && PartOf(asked.keys[questions[0]]) == node) {
    if (!asked.nil_if_unreachable) return replies.status();
    (void)PassesOver(replies.status());
    return absl::OkStatus();
  }
  for (size_t i = 0; i < questions.size(); ++i) {
    redis::Reply& reply = asked.replies[questions[i]];
    if (replies.ok()) reply = std::move((*replies)[i]);
    if (replies.ok() && !reply.is_error()) continue;
    if (replies.ok() && IsNil(reply.text)) {
      reply = {};
    } else if (replies.ok() && !is_cluster()) {
      return redis::ErrorStatus(reply.text, name_);
    } else if (absl::Status done = AskGroup(questions[i], asked); !done.ok()) {
      return done;
    }
  }
  return absl::OkStatus();
}

// Asks through the library's server group, which finds the node that has the key now.
absl::Status Server::AskGroup(size_t question, Questioned& asked) {
  if (group_ == nullptr) {
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
  }
  for (;;) {
    const auto reply = group_->Call(asked.keys[question], asked.commands[question], asked.deadline);
    absl::Status why = reply.status();
    if (reply.ok() && reply->is_error() && !IsNil(reply->text)) {
      why = redis::ErrorStatus(reply->text, group_->server(asked.keys[question]));
    }
    asked.replies[question] = reply.ok() && !reply->is_error() ? *reply : redis::Reply();
    if (why.ok()) return why;
    if (absl::IsUnavailable(why) && reply.ok() && base::Now() < asked.deadline) {
      base::Parker().ParkUntil(base::Now() + absl::Milliseconds(20));  // the refusal is temporary
      continue;
    }
    if (!absl::IsUnavailable(why) || !asked.nil_if_unreachable) return why;
    (void)PassesOver(why);
    return absl::OkStatus();
  }
}

bool Server::IsNil(const std::string& error) const {
  const redis::ErrorCode code = redis::ClassifyError(error);
  // True if the key is forbidden, not the command ("... to run the 'scan' command").
  const bool forbidden =
      code == redis::ErrorCode::kNoPermission && absl::StrContains(error, "to access");
  return code == redis::ErrorCode::kWrongType || (forbidden && passes_over_forbidden_);
}

bool Server::PassesOver(const absl::Status& why) {
  if (!passes_over_unreachable_) return false;
  if (std::ranges::find(missing_, why) == missing_.end()) missing_.push_back(why);
  return true;
}

absl::StatusOr<int64_t> Server::NowMicros(const std::string& key) {
  const redis::Command command{"TIME"};
  const absl::StatusOr<std::vector<redis::Reply>> replies =
      Ask({&command, 1}, {&key, 1}, Unreachable::kFails);
  if (!replies.ok()) return replies.status();
  if (passes_over_unreachable_ && replies->front().is_nil()) return 0;
  const std::vector<redis::Reply>& time = replies->front().elements;
  if (time.size() != 2) return absl::InternalError("TIME answered no time");
  return NumberIn(time[0]) * 1'000'000 + NumberIn(time[1]);
}

absl::Status Questions::Ask(Server& server, Unreachable unreachable) {
  if (commands_.empty()) return absl::OkStatus();
  const auto replies = server.Ask(commands_, keys_, unreachable);
  if (!replies.ok()) return replies.status();
  for (size_t i = 0; i < takes_.size(); ++i) takes_[i]((*replies)[i]);
  return absl::OkStatus();
}

int64_t NumberIn(const redis::Reply& reply) {
  if (reply.type == redis::Reply::Type::kInteger) return reply.integer;
  int64_t number = 0;
  if (absl::SimpleAtoi(reply.text, &number)) return number;
  double real = 0;  // scores may have an exponent
  return absl::SimpleAtod(reply.text, &real) ? static_cast<int64_t>(real) : 0;
}

QuorumServers::QuorumServers(const redis::Url& parsed, std::string_view url)
    : name_(parsed.DebugString()) {
  const std::vector<std::string> urls = redis::MembersOf(url);
  for (size_t i = 0; i < urls.size(); ++i) {
    servers_.push_back(
        {.url = urls[i], .name = parsed.members[i].DebugString(), .server = nullptr});
  }
}

std::vector<absl::Status> QuorumServers::Visit(
    const std::function<absl::Status(size_t i, Server& server)>& visit) {
  std::vector<absl::Status> outcomes(size());
  ForEach(size(), size(), [&](size_t i) {
    One& one = servers_[i];
    if (absl::IsUnknown(one.opened)) {
      auto server = Server::Open(one.url);
      one.opened = server.status();
      if (server.ok()) one.server = *std::move(server);
    }
    outcomes[i] = one.opened.ok() ? visit(i, *one.server) : one.opened;
  });
  return outcomes;
}

absl::Status QuorumServers::WhyNoMajority(const std::vector<absl::Status>& outcomes) const {
  const auto well = static_cast<size_t>(std::ranges::count_if(outcomes, &absl::Status::ok));
  if (well >= majority()) return absl::OkStatus();
  std::string why;
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  for (const absl::Status& each : outcomes) {
    if (each.ok()) continue;
    absl::StrAppend(&why, why.empty() ? "" : "; ", each.message());
    if (!absl::IsUnavailable(each) && !absl::IsNotFound(each)) code = each.code();
  }
  return {code, absl::StrCat(well, " of ", size(), " servers answered, and ", majority(),
                             " are needed: ", why)};
}

}  // namespace redlatch::cli
