#include "tests/sim/world/sentinel.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/sha1.h"
#include "tests/sim/redis/resp.h"
#include "tests/sim/trace.h"
#include "tests/sim/world/host.h"

namespace redlatch::sim {
namespace {

constexpr const char* kSwitched = "+switch-master";

std::string HostText(Address address) {
  const std::string text = ToString(address);
  return text.substr(0, text.find(':'));
}

std::string PortText(Address address) { return std::to_string(address.port); }

void Fields(const std::vector<std::string>& fields, Output& out) {
  out.Array(fields.size());
  for (const std::string& each : fields) out.Text(each);
}

}  // namespace

Sentinel::Sentinel(Network& network, Address address, const std::vector<Address>& all,
                   Address primary)
    : network_(network), address_(address), others_(all), primary_(primary) {
  std::erase(others_, address_);
  network_.Listen(address_, this);
}

void Sentinel::GoDown(bool silently) {
  up_ = false;
  clients_.clear();
  network_.StopListening(address_, silently);
}

void Sentinel::ComeUp() {
  up_ = true;
  network_.Listen(address_, this);
}

void Sentinel::Switch(Address primary, int64_t epoch) {
  const std::string text =
      absl::StrCat(kPrimaryName, " ", HostText(primary_), " ", PortText(primary_), " ",
                   HostText(primary), " ", PortText(primary));
  primary_ = primary;
  epoch_ = epoch;
  Trace::Say("the sentinel ", ToString(address_), " says: ", text);
  for (const auto& [connection, client] : clients_) {
    if (!client.channels.contains(kSwitched)) continue;
    std::string bytes;
    RespOutput out(bytes);
    Fields({"message", kSwitched, text}, out);
    network_.Send(connection, bytes);
  }
}

void Sentinel::Received(uint64_t connection, std::string_view bytes) {
  if (Trace::enabled()) {
    Trace::Say("the sentinel ", ToString(address_), " receives on ", connection, " of ",
               network_.ProcessOf(connection)->name, ": ", InWords(bytes));
  }
  Client& client = clients_[connection];
  client.input.append(bytes);
  std::string replies;
  RespOutput out(replies);
  std::vector<std::string_view> words;
  size_t done = 0;
  while (const size_t size = ReadCommand(std::string_view(client.input).substr(done), words)) {
    done += size;
    if (!words.empty()) Execute(client, words, out);
  }
  client.input.erase(0, done);
  if (!replies.empty()) network_.Send(connection, replies);
}

void Sentinel::Execute(Client& client, Words words, Output& out) {
  const auto is = [&](std::string_view name) { return EqualsIgnoringCase(words[0], name); };
  if (is("SENTINEL")) return ExecuteSentinel(words, out);
  if (is("HELLO")) return Fields({"server", "redis", "version", "7.0.15", "mode", "sentinel"}, out);
  if (is("CLIENT") && EqualsIgnoringCase(words[1], "SETNAME")) return out.Status("OK");
  if (is("PING")) {
    if (client.channels.empty()) return out.Status("PONG");
    return Fields({"pong", words.size() > 1 ? std::string(words[1]) : ""}, out);
  }
  const bool subscribes = is("SUBSCRIBE");
  if (!subscribes && !is("UNSUBSCRIBE")) Unknown("this command of a sentinel", words);
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string channel(words[i]);
    subscribes ? static_cast<void>(client.channels.insert(channel))
               : static_cast<void>(client.channels.erase(channel));
    out.Array(3);
    out.Text(subscribes ? "subscribe" : "unsubscribe");
    out.Text(channel);
    out.Integer(static_cast<int64_t>(client.channels.size()));
  }
}

std::string Sentinel::Id(Address sentinel) const { return base::Sha1Hex(ToString(sentinel)); }

void Sentinel::ExecuteSentinel(Words words, Output& out) const {
  const auto is = [&](std::string_view name) { return EqualsIgnoringCase(words[1], name); };
  if (is("MYID")) return out.Text(Id(address_));
  if (words.size() != 3 || words[2] != kPrimaryName) Unknown("this form of SENTINEL", words);
  if (is("GET-MASTER-ADDR-BY-NAME")) {
    return Fields({HostText(primary_), PortText(primary_)}, out);
  }
  if (is("MASTER")) {
    return Fields({"name", kPrimaryName, "ip", HostText(primary_), "port", PortText(primary_),
                   "flags", "master", "config-epoch", std::to_string(epoch_)},
                  out);
  }
  if (!is("SENTINELS")) Unknown("this form of SENTINEL", words);
  out.Array(others_.size());
  for (const Address other : others_) {
    Fields({"name", Id(other), "ip", HostText(other), "port", PortText(other)}, out);
  }
}

}  // namespace redlatch::sim
