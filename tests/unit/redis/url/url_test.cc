#include "src/redis/url/url.h"

#include "src/redis/transport/tls.h"
#include "tests/support/testing.h"

namespace redlatch::redis {
namespace {

std::string Message(const absl::Status& status) { return std::string(status.message()); }

struct Accepted {
  std::string_view text;
  Url expected;
  std::string_view debug_string;
};

Url Tcp(std::string host, uint16_t port = 6379, int db = 0) {
  return {.host = std::move(host), .port = port, .db = db};
}
Url Unix(std::string path) { return {.kind = Url::Kind::kUnix, .path = std::move(path)}; }
Url Embedded(std::string path = "") {
  return {.kind = Url::Kind::kEmbedded, .path = std::move(path)};
}
Url With(Url url, const std::function<void(Url&)>& change) {
  change(url);
  return url;
}
Url With(Url url, std::string user, std::string password) {
  url.user = std::move(user);
  url.password = std::move(password);
  return url;
}

TEST(UrlTest, ReadsEveryPart) {
  const Accepted cases[] = {
      {"redis://localhost", Tcp("localhost"), "redis://localhost:6379"},
      {"redis://localhost/", Tcp("localhost"), "redis://localhost:6379"},
      {"redis://localhost?", Tcp("localhost"), "redis://localhost:6379"},
      {"REDIS://localhost", Tcp("localhost"), "redis://localhost:6379"},
      {"Redis://my_host-1.example.com.:1/0", Tcp("my_host-1.example.com.", 1),
       "redis://my_host-1.example.com.:1"},
      {"redis://127.0.0.1:65535/15", Tcp("127.0.0.1", 65535, 15), "redis://127.0.0.1:65535/15"},
      {"redis://h/2147483647", Tcp("h", 6379, 2147483647), "redis://h:6379/2147483647"},
      {"redis://[::1]", Tcp("::1"), "redis://[::1]:6379"},
      {"redis://[::1]:7000/2", Tcp("::1", 7000, 2), "redis://[::1]:7000/2"},
      {"redis://[::ffff:10.0.0.1]:7000", Tcp("::ffff:10.0.0.1", 7000),
       "redis://[::ffff:10.0.0.1]:7000"},
      {"redis://[fe80::1%25eth0]:7000", Tcp("fe80::1%eth0", 7000), "redis://[fe80::1%25eth0]:7000"},
      {"redis://[fe80::1%252]", Tcp("fe80::1%2"), "redis://[fe80::1%252]:6379"},

      {"redis://@h", Tcp("h"), "redis://h:6379"},
      {"redis://:@h", Tcp("h"), "redis://h:6379"},
      {"redis://user:@h", With(Tcp("h"), "user", ""), "redis://h:6379"},
      {"redis://:secret@h", With(Tcp("h"), "", "secret"), "redis://h:6379"},
      {"redis://user:secret@h:1/2", With(Tcp("h", 1, 2), "user", "secret"), "redis://h:1/2"},
      {"redis://u:secret@[::1]:1", With(Tcp("::1", 1), "u", "secret"), "redis://[::1]:1"},
      {"redis://us%65r:%40%3A%2f%3F%23%25%20%00@h",
       With(Tcp("h"), "user", std::string("@:/?#% \0", 8)), "redis://h:6379"},
      {"redis://user:a:b:c@h", With(Tcp("h"), "user", "a:b:c"), "redis://h:6379"},
      {"redis://user:a@b@c@h", With(Tcp("h"), "user", "a@b@c"), "redis://h:6379"},
      {"redis://:a[]&=+b@h", With(Tcp("h"), "", "a[]&=+b"), "redis://h:6379"},
      {"redis://:\xc3\xa4@h", With(Tcp("h"), "", "\xc3\xa4"), "redis://h:6379"},

      {"unix:/run/redis.sock", Unix("/run/redis.sock"), "unix:///run/redis.sock"},
      {"unix:///run/redis.sock", Unix("/run/redis.sock"), "unix:///run/redis.sock"},
      {"UNIX:///r?db=3", With(Unix("/r"), [](Url& u) { u.db = 3; }), "unix:///r?db=3"},
      {"unix://u:secret@/r", With(Unix("/r"), "u", "secret"), "unix:///r"},
      {"unix://:secret@/r", With(Unix("/r"), "", "secret"), "unix:///r"},
      {"unix:///a%40b%3Fc%25", Unix("/a@b?c%"), "unix:///a%40b%3Fc%25"},
      {"unix:///my dir/ my sock", Unix("/my dir/ my sock"), "unix:///my%20dir/%20my%20sock"},
      {"unix:///my%20dir/sock%20", Unix("/my dir/sock "), "unix:///my%20dir/sock%20"},
      {"unix:/my dir/r?db=3", With(Unix("/my dir/r"), [](Url& u) { u.db = 3; }),
       "unix:///my%20dir/r?db=3"},
      {"unix:///caf\xc3\xa9", Unix("/caf\xc3\xa9"), "unix:///caf%C3%A9"},

      {"embedded:", Embedded(), "embedded:"},
      {"embedded://", Embedded(), "embedded:"},
      {"Embedded:?", Embedded(), "embedded:"},
      {"embedded:/dir", Embedded("/dir"), "embedded:/dir"},
      {"embedded:/my dir", Embedded("/my dir"), "embedded:/my%20dir"},
      {"embedded:///dir/sub/", Embedded("/dir/sub/"), "embedded:/dir/sub/"},
      {"embedded://///dir//sub", Embedded("/dir//sub"), "embedded:/dir//sub"},
      {"unix:////run/%2fs", Unix("/run//s"), "unix:///run//s"},
      {"embedded:/%2f/dir", Embedded("/dir"), "embedded:/dir"},
      {"embedded:?idle_stop=5m", With(Embedded(), [](Url& u) { u.idle_stop = absl::Minutes(5); }),
       "embedded:"},
      {"embedded:/d?idle_stop=720h&name=x",
       With(Embedded("/d"),
            [](Url& u) {
              u.idle_stop = absl::Hours(720);
              u.client_name = "x";
            }),
       "embedded:/d"},

      {"redis://h?connect_timeout=1ms&command_timeout=24h",
       With(Tcp("h"),
            [](Url& u) {
              u.connect_timeout = absl::Milliseconds(1);
              u.command_timeout = absl::Hours(24);
            }),
       "redis://h:6379"},
      {"redis://h/1?command_timeout=1.5s&eviction=allow&name=a%26b=c:d/%41+",
       With(Tcp("h", 6379, 1),
            [](Url& u) {
              u.command_timeout = absl::Seconds(1.5);
              u.allow_eviction = true;
              u.client_name = "a&b=c:d/A+";
            }),
       "redis://h:6379/1"},
  };
  for (const Accepted& c : cases) {
    SCOPED_TRACE(c.text);
    const absl::StatusOr<Url> url = ParseUrl(c.text);
    ASSERT_TRUE(url.ok()) << url.status();
    EXPECT_EQ(*url, c.expected);
    EXPECT_EQ(url->DebugString(), c.debug_string);
    // It leads to the same server.
    Url bare = {.kind = url->kind, .host = url->host, .port = url->port, .path = url->path};
    bare.db = url->db;
    const absl::StatusOr<Url> again = ParseUrl(url->DebugString());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, bare);
  }
}

struct Refused {
  std::string text;
  std::string named;  // a part of the message
};

TEST(UrlTest, NamesThePartThatIsWrong) {
  const std::string v6 = "redis://[::1]:6379";
  const Refused cases[] = {
      {"", "empty"},
      {std::string(8193, 'x'), "8193 bytes; the limit is 8192"},

      {"localhost:6379", "did you mean redis://localhost:6379?"},
      {"redis.example.com:7", "did you mean redis://redis.example.com:7?"},
      {"[::1]:6379", "did you mean redis://[::1]:6379?"},
      {"localhost", "no scheme; write redis://host:6379"},
      {"localhost:6379/2", "no scheme"},
      {"default:12345", "no scheme"},
      {"/run/redis.sock", "unix:///path/to/socket"},
      {"://h",
       "unknown scheme; known are redis://, rediss://, redis-sentinel://, redis-cluster://, "
       "unix://, embedded: and redlock:"},
      {"redis", "no scheme"},
      {"redis:", "no '//' after redis:"},
      {"redis:/h", "no '//' after redis:"},

      {"redis://h ", "begins or ends with a space"},
      {" redis://h", "begins or ends with a space"},
      {"unix:///run/redis.sock ", "write it as %20"},
      {"redis://h h", "a character that is not allowed in a host name"},
      {"redis://h\n", "a line break or another control character"},
      {"redis://h/\t0", "control character"},
      {std::string("redis://h\0", 10), "control character"},
      {"redis://h#x", "'#'"},
      {"redis://:p#w@h", "%23"},

      {"redis://", "the host is empty"},
      {"redis://:6379", "the host is empty"},
      {"redis://u:p@", "the host is empty"},
      {"redis://" + std::string(254, 'h'), "longer than 253"},
      {"redis://h%6Fst", "a character that is not allowed in a host name"},
      {"redis://h1,h2", "a single server"},
      {"redis://::1:6379", v6},
      {"redis://fe80::1", v6},
      {"redis://[::1", "'[' without a ']'"},
      {"redis://[]", "do not hold an IPv6 address"},
      {"redis://[::g]", "do not hold an IPv6 address"},
      {"redis://[127.0.0.1]", "do not hold an IPv6 address"},
      {"redis://[::1]6379", "follow the ']'"},
      {"redis://[fe80::1%25]", "the zone"},
      {"redis://[fe80::1%eth0]", "%25"},
      {"redis://[fe80::1%25a%2Fb]", "the zone"},
      {"redis://[fe80::1%25interface_of_16x]", "the zone"},

      {"redis://h:", "the port"},
      {"redis://h:0", "the port is not a number from 1 to 65535"},
      {"redis://h:65536", "the port"},
      {"redis://h:99999999999999999999", "the port"},
      {"redis://h:-1", "the port"},
      {"redis://h:+1", "the port"},
      {"redis://h:6379x", "the port"},
      {"redis://h:0x10", "the port"},
      {"redis://user:password", "the port"},

      {"redis://h/-1", "the database after the '/'"},
      {"redis://h/-0", "the database after the '/'"},
      {"redis://h/2147483648", "from 0 to 2147483647"},
      {"redis://h/1/", "the database"},
      {"redis://h//1", "the database"},
      {"redis://h/%31", "the database"},

      {"redis://user@h", "user:password@"},
      {"redis://u%00:p@h", "the user contains"},
      {"redis://u v:p@h", "a space in the user or the password; write it as %20"},
      {"redis://u:p w@h", "a space in the user or the password; write it as %20"},
      {"redis://u%4:p@h", "the user contains a '%'"},
      {"redis://u:p%2@h", "the password contains a '%'"},
      {"redis://u:%g0@h", "the password contains a '%'"},
      {"redis://u:%0g@h", "the password contains a '%'"},
      {"redis://u:p/w@h", "%2F"},
      {"redis://u:p?w@h", "%3F"},
      {"redis://u:p@h/0?name=a@b", "%40"},
      {"unix:///run/user@1000/s", "%40"},

      {"unix:", "the socket's path is not absolute"},
      {"unix://", "the socket's path is not absolute"},
      {"unix:run/s", "unix:///run/redis.sock"},
      {"unix:%2Frun/s", "not absolute"},
      {"unix://u:p@", "not absolute"},
      {"unix:///run/", "ends with a '/'"},
      {"unix:///run%2F", "ends with a '/'"},
      {"unix:///a%00b", "the socket's path contains a control character"},
      {"unix:///a\nb", "a line break or another control character"},
      {"unix:///a%", "the socket's path contains a '%'"},
      {"unix:/" + std::string(107, 's'), "has 108 bytes; the limit is 107"},
      {"unix:/" + std::string(500, 's'), "socket holds 108"},

      {"embedded:dir", "the directory is not absolute"},
      {"embedded://u:p@/dir", "no user and no password"},
      {"embedded:/", "the root directory"},
      {"embedded:/a%09b", "the directory contains"},
      {"embedded:/" + std::string(107, 'd'), "has 108 bytes; the limit is 107"},

      {"redis://h?x=1", "unknown option x; known are connect_timeout, command_timeout, name"},
      {"redis://h?password=p", "unknown option password"},
      {"redis://h?" + std::string(33, 'x') + "=1", "unknown option"},
      {"redis://h?Name=x", "unknown option Name"},
      {"redis://h?name", "name=value"},
      {"redis://h?name=", "name=value"},
      {"redis://h?=x", "name=value"},
      {"redis://h?&name=x", "name=value"},
      {"redis://h?name=x&&eviction=allow", "name=value"},
      {"redis://h?name=x&name=x", "the option name is given twice"},
      {"redis://h?name=%2", "the value of an option contains a '%'"},
      {"redis://h?name=a%20b", "CLIENT SETNAME"},
      {"redis://h?name=a%0Ab", "CLIENT SETNAME"},
      {"redis://h?name=\xc3\xa4", "CLIENT SETNAME"},
      {"redis://h?name=" + std::string(129, 'n'), "1 to 128"},
      {"redis://h?connect_timeout=2", "the option connect_timeout is not a duration"},
      {"redis://h?connect_timeout=2 s", "is not a duration"},
      {"redis://h?connect_timeout=fast", "such as 2s or 500ms"},
      {"redis://h?connect_timeout=1%00s", "is not a duration"},
      {"redis://h?connect_timeout=0", "between 1ms and 24h"},
      {"redis://h?command_timeout=-1s", "the option command_timeout is not between"},
      {"redis://h?command_timeout=999us", "between 1ms and 24h"},
      {"redis://h?command_timeout=inf", "between 1ms and 24h"},
      {"redis://h?command_timeout=24h1ns", "between 1ms and 24h"},
      {"redis://h?command_timeout=99999999999999999999h", "the option command_timeout"},
      {"redis://h?eviction=deny", "the only value of the option eviction is allow"},
      {"redis://h?db=1", "write, for example, redis://host:6379/3"},
      {"embedded:?db=1", "the option db is for unix: and redis-sentinel: only"},
      {"unix:/s?db=-1", "the option db is not a number from 0 to 2147483647"},
      {"redis://h?idle_stop=1s", "the option idle_stop is for embedded: only"},
      {"unix:/s?idle_stop=1s", "the option idle_stop is for embedded: only"},
      {"embedded:?idle_stop=721h", "between 1ms and 720h"},

      {"redis://h?ca=/ca.pem", "the option ca is for TLS; write rediss://"},
      {"redis://h?servername=x", "the option servername is for TLS"},
      {"rediss://h?tls=off", "neither on nor insecure"},
      {"rediss://h?tls=insecure&ca=/x", "would check nothing"},
      {"rediss://h?tls=insecure&servername=x", "would check nothing"},
      {"rediss://h?key=/k", "name that as well: cert="},
      {"rediss://h?ca=a%00b", "control character"},
      {"unix:///s?tls=on", "for redis://, rediss://, redis-sentinel:// and redis-cluster:// only"},
      {"embedded:?tls=on", "for redis://, rediss://, redis-sentinel:// and redis-cluster:// only"},
      {"unix:///s?ca=/x", "is for TLS"},
      {"rediss:h", "no '//' after rediss:"},

      {"redis-sentinel:h/m", "no '//' after redis-sentinel:"},
      {"redis-sentinel://h1,h2", "the name of the primary is missing"},
      {"redis-sentinel://h1,h2/", "the name of the primary is missing"},
      {"redis-sentinel:///m", "the host is empty"},
      {"redis-sentinel://h1,,h2/m", "the host is empty"},
      {"redis-sentinel://h1:x,h2/m", "the port is not a number"},
      {"redis-sentinel://h/m/2", "the database is an option: db=2"},
      {"redis-sentinel://h/a%20b", "the primary's name holds something else"},
      {"redis-sentinel://h/m?ca=/x", "is for TLS; add tls=on"},
      {"redis-sentinel://h/m?sentinel_tls=on", "the only value of the option sentinel_tls"},
      {"redis-sentinel://h/m?sentinel_user=a%20b", "contains a space"},
      {"redis-sentinel://h/m?idle_stop=1s", "is for embedded: only"},
      {"redis://h?sentinel_password=hunter2", "is for redis-sentinel: only"},
      {"redis-sentinel://h/m?sentinel_password=x&hunter2=y", "write '&' in a password as %26"},
      {"redis://h1,h2", "redis-sentinel:// several sentinels"},

      {"redis-cluster:n1", "no '//' after redis-cluster:"},
      {"redis-cluster://", "the host is empty"},
      {"redis-cluster://n1:x", "the port is not a number"},
      {"redis-cluster://n1/3", "a cluster has no database but 0"},
      {"redis-cluster://n1?db=3", "there is no other than 0"},
      {"redis-cluster://n1?ca=/x", "is for TLS; add tls=on"},
      {"redis-cluster://n1?map=a:1", "is not a list such as"},
      {"redis-cluster://n1?map=a:1/b:x", "is not a list such as"},
      {"redis://n1?map=a:1/b:2", "for redis-cluster: only"},
  };
  for (const Refused& c : cases) {
    SCOPED_TRACE(c.text.substr(0, 80));
    const absl::StatusOr<Url> url = ParseUrl(c.text);
    ASSERT_FALSE(url.ok()) << url->DebugString();
    EXPECT_EQ(url.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(url.status()), AllOf(HasSubstr("server URL: "), HasSubstr(c.named)));
    EXPECT_THAT(Message(url.status()), Not(HasSubstr("hunter2")));
  }
}

TEST(UrlTest, ReadsTlsOptions) {
  const absl::StatusOr<Url> url = ParseUrl(
      "rediss://user:hunter2@h:6380/2?ca=%2Fca.pem&cert=/c&key=/k&servername=redis.example");
  ASSERT_TRUE(url.ok()) << url.status();
  ASSERT_NE(url->tls, nullptr);
  EXPECT_EQ(url->tls->options(), (TlsOptions{.ca = "/ca.pem",
                                             .cert = "/c",
                                             .key = "/k",
                                             .server_name = "redis.example",
                                             .insecure = false}));
  EXPECT_EQ(url->DebugString(), "rediss://h:6380/2");
  EXPECT_EQ(ParseUrl("redis://h")->tls, nullptr);
  EXPECT_EQ(ParseUrl("RedisS://h")->tls->options(), TlsOptions());
  EXPECT_EQ(ParseUrl("redis://h?tls=on")->DebugString(), "rediss://h:6379");
  EXPECT_FALSE(ParseUrl("redis://h?tls=on")->tls->options().insecure);
  EXPECT_TRUE(ParseUrl("rediss://h?tls=insecure&cert=/c")->tls->options().insecure);
}

TEST(UrlTest, ReadsSentinels) {
  const absl::StatusOr<Url> url = ParseUrl(
      "Redis-Sentinel://u:p%40ss@s1,s2:1,[::1]:2/my-master.1?sentinel_user=w&"
      "sentinel_password=x%20y&db=3&tls=on&sentinel_tls=off&connect_timeout=1s");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->kind, Url::Kind::kSentinel);
  EXPECT_EQ(url->user, "u");
  EXPECT_EQ(url->password, "p@ss");
  EXPECT_EQ(url->db, 3);
  EXPECT_NE(url->tls, nullptr);
  const Sentinels::Options& options = url->sentinels->options();
  EXPECT_EQ(options.primary, "my-master.1");
  EXPECT_EQ(options.user, "w");
  EXPECT_EQ(options.password, "x y");
  EXPECT_FALSE(options.tls);
  EXPECT_THAT(options.hosts,
              ElementsAre(HostAndPort{"s1", 26379}, HostAndPort{"s2", 1}, HostAndPort{"::1", 2}));
  EXPECT_EQ(url->DebugString(), "redis-sentinel://s1:26379,s2:1,[::1]:2/my-master.1?tls=on&db=3");
  const absl::StatusOr<Url> again = ParseUrl(url->DebugString());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->DebugString(), url->DebugString());
}

TEST(UrlTest, AddsLearnedSentinelsToThoseOfTheUrl) {
  Sentinels sentinels({.hosts = {{"a", 1}, {"b", 2}}, .primary = "m"});
  sentinels.Learn({{"b", 2}, {"c", 3}});
  EXPECT_THAT(sentinels.Known(),
              ElementsAre(HostAndPort{"a", 1}, HostAndPort{"b", 2}, HostAndPort{"c", 3}));
  sentinels.Learn({});
  EXPECT_EQ(sentinels.Known().size(), 3);
  sentinels.Learn({{"d", 4}});
  EXPECT_THAT(sentinels.Known(),
              ElementsAre(HostAndPort{"a", 1}, HostAndPort{"b", 2}, HostAndPort{"d", 4}));
}

TEST(UrlTest, ParsesClusterUrls) {
  const auto url = ParseUrl(
      "Redis-Cluster://u:p%40ss@n1,n2:1,[::1]:2?tls=on&ca=/ca.pem&name=x&map=a:1/b:2,[::1]:3/c");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->kind, Url::Kind::kCluster);
  const std::pair<HostAndPort, HostAndPort> mapped[] = {{{"a", 1}, {"b", 2}},
                                                        {{"::1", 3}, {"c", 6379}}};
  EXPECT_THAT(url->mapped, ::testing::ElementsAreArray(mapped));
  EXPECT_EQ(url->user, "u");
  EXPECT_EQ(url->password, "p@ss");
  EXPECT_THAT(url->nodes,
              ElementsAre(HostAndPort{"n1", 6379}, HostAndPort{"n2", 1}, HostAndPort{"::1", 2}));
  ASSERT_NE(url->tls, nullptr);
  EXPECT_EQ(url->DebugString(), "redis-cluster://n1:6379,n2:1,[::1]:2?tls=on");
  EXPECT_TRUE(ParseUrl("redis-cluster://n1").ok());
  EXPECT_TRUE(ParseUrl("redis-cluster://n1/").ok());
}

TEST(UrlTest, AcceptsTheLongestPathsThatFit) {
  EXPECT_TRUE(ParseUrl("unix:/" + std::string(kMaxSocketPath - 1, 's')).ok());
  EXPECT_TRUE(ParseUrl("redis://h?name=" + std::string(128, 'n')).ok());
  EXPECT_TRUE(ParseUrl("redis://:" + std::string(8192 - 11, 'p') + "@h").ok());
}

// No message about a refused URL shows the secret, and no DebugString of an accepted one, unless
// the rest of the URL makes it a host or a path.
void ExpectSilentAbout(std::string_view secret, const std::string& text) {
  const absl::StatusOr<Url> url = ParseUrl(text);
  if (url.ok() && (url->host + url->path).find(secret) != std::string::npos) return;
  const std::string shown = url.ok() ? url->DebugString() : url.status().ToString();
  EXPECT_THAT(shown, Not(HasSubstr(std::string(secret)))) << "for " << text;
}

std::string Replace(std::string text, size_t at, size_t size, std::string_view by) {
  return text.replace(at, size, by);
}

const char* const kUrlsWithSecret[] = {"redis://user:hunter2@host:6379/2?name=x&command_timeout=1s",
                                       "redis://:hunter2@[::1]:6379",
                                       "redis://user:hunter2@host/0",
                                       "redis://hunter2@host:6379/0",
                                       "redis://host:6379/0?password=hunter2",
                                       "redis://host:6379/0?user=u&password=hunter2&name=x",
                                       "unix://user:hunter2@/run/redis.sock?db=2",
                                       "unix:///run/redis.sock?password=hunter2",
                                       "embedded://user:hunter2@/dir",
                                       "rediss://user:hunter2@host:6379/2",
                                       "http://user:hunter2@host:6379/2",
                                       "user:hunter2@host:6379",
                                       ":hunter2@localhost:6379"};

TEST(UrlTest, NeverShowsSecretWithSpecialCharacters) {
  for (const std::string_view url : kUrlsWithSecret) {
    const size_t at = url.find("hunter2");
    for (const std::string_view special :
         {"/", "?", "#",  "@",  ":",  "%",   "%2", "%zz", "[",  "]",      "&",
          "=", " ", "\n", "\\", "//", "://", ",",  "/1?", "1/", "&name=", "\xff"}) {
      const std::string whole(url);
      ExpectSilentAbout("hunter2", Replace(whole, at, 0, special));
      ExpectSilentAbout("hunter2", Replace(whole, at + 7, 0, special));
      const std::string both = std::string(special) + "hunter2" + std::string(special);
      ExpectSilentAbout("hunter2", Replace(whole, at, 7, both));
    }
  }
}

TEST(UrlTest, NeverShowsSecretOfMangledUrl) {
  const std::string bytes("/?#@:%[]&=,. \n0aZ\0\xff", 19);
  for (const std::string url : kUrlsWithSecret) {
    const size_t secret = url.find("hunter2");
    for (size_t at = 0; at <= url.size(); ++at) {
      if (at > secret && at < secret + 7) continue;
      ExpectSilentAbout("hunter2", url.substr(0, at));
      ExpectSilentAbout("hunter2", url.substr(at));
      for (const char c : bytes) ExpectSilentAbout("hunter2", Replace(url, at, 0, {&c, 1}));
      if (at == secret || at == url.size()) continue;
      ExpectSilentAbout("hunter2", Replace(url, at, 1, ""));
      for (const char c : bytes) ExpectSilentAbout("hunter2", Replace(url, at, 1, {&c, 1}));
    }
  }
}

TEST(UrlTest, MessageDoesNotDependOnSecret) {
  for (const std::string_view url : kUrlsWithSecret) {
    const size_t at = url.find("hunter2");
    for (const std::string_view tail : {"", "/", "?", "@", ":", "%", "#", " "}) {
      const auto say = [&](std::string_view secret) {
        const absl::StatusOr<Url> parsed =
            ParseUrl(Replace(std::string(url), at, 7, std::string(secret) + std::string(tail)));
        return parsed.ok() ? parsed->DebugString() : parsed.status().ToString();
      };
      EXPECT_EQ(say("hunter2"), say("another-one")) << url << " with " << tail;
    }
  }
}

TEST(UrlTest, HidesPasswordsInText) {
  EXPECT_EQ(WithoutPasswords("no \"redis://app:hunter2@h:1/0\", and redis://:a:b@c@h"),
            "no \"redis://app:***@h:1/0\", and redis://:***@h");
  EXPECT_EQ(WithoutPasswords("unix:///s?password=hunter2&db=1 sentinel_password=x"),
            "unix:///s?password=***&db=1 sentinel_password=***");
  for (const char* text : {"", "://", "redis://", "redis://h:6379", "redis://app@h:6379/1", "a:b@c",
                           "redis://app:***@h", "password="}) {
    EXPECT_EQ(WithoutPasswords(WithoutPasswords(text)), WithoutPasswords(text)) << text;
    if (std::string_view(text) != "password=") {
      EXPECT_EQ(WithoutPasswords(text), text);
    }
  }
}

std::string Why(std::string_view url) { return std::string(ParseUrl(url).status().message()); }

TEST(QuorumUrl, KeepsServersAsWritten) {
  const std::string url =
      "RedLock:redis://:p%2Cw@a/1?name=x,redis-cluster://n1,n2:7001?map=n1:1/m:2,n2:1/m:3,"
      "unix:///run/a,b.sock,rediss://c";
  EXPECT_THAT(MembersOf(url), ElementsAre("redis://:p%2Cw@a/1?name=x",
                                          "redis-cluster://n1,n2:7001?map=n1:1/m:2,n2:1/m:3",
                                          "unix:///run/a,b.sock", "rediss://c"));
  const auto parsed = ParseUrl(url);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->kind, Url::Kind::kQuorum);
  ASSERT_EQ(parsed->members.size(), 4U);
  EXPECT_EQ(parsed->members[0].password, "p,w");
  EXPECT_EQ(parsed->members[1].nodes.size(), 2U);
  EXPECT_EQ(parsed->members[2].path, "/run/a,b.sock");
}

TEST(QuorumUrl, DebugStringParsesAndHidesSecrets) {
  const auto parsed = ParseUrl("redlock:redis://me:secret@a,redis://b:7000");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->DebugString(), "redlock:redis://a:6379,redis://b:7000");
  EXPECT_TRUE(ParseUrl(parsed->DebugString()).ok());
}

TEST(QuorumUrl, SaysWhatIsWrong) {
  EXPECT_THAT(Why("redlock:"), HasSubstr("1 to 64 servers"));
  EXPECT_THAT(Why("redlock:redis://a,redis://a:6379"), HasSubstr("twice"));
  EXPECT_THAT(Why("redlock:redis://a,redlock:redis://b"), HasSubstr("is a quorum"));
  EXPECT_THAT(Why("redlock:redis://a?restart_delay=1m,redis://b"), HasSubstr("differs"));
  EXPECT_FALSE(ParseUrl("redlock:redis://a,").ok());
}

}  // namespace
}  // namespace redlatch::redis
