// baco_like.hpp: tune a compiler that is written in C++17. One file, POSIX, no dependencies.
//
//   auto tuner = baco_like::Tuner::start({"baco-like", "serve", "--json", "space.json"});
//   while (auto trial = tuner.next()) {
//     int tile = trial->integer<int>("tile");
//     tuner.observe(*trial, {1.31, 1.29});  // or tuner.fail(*trial, "compile", "what the compiler said")
//   }
//
// Every call ends within Options::time_limit. Errors are exceptions of the type baco_like::Error. With -fno-exceptions,
// a call that fails returns an empty value, and so do all later calls of this thread until take_error() returns the
// reason: next() ends the loop, and observe() records nothing.
// A Tuner belongs to one thread at a time. Its destructor ends the process that start() has started.
// It is written for POSIX and tried on Linux with GCC and Clang. Windows is not supported (use WSL).
// The guide is docs/cpp.md, the protocol is docs/any_language.md.

#ifndef BACO_LIKE_HPP
#define BACO_LIKE_HPP

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <future>
#include <limits>
#include <locale>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

extern "C" char** environ;

namespace baco_like {

// Files with and without exceptions can be linked into one program, because their types have different names.
#if defined(__cpp_exceptions)
inline namespace throwing {
#else
inline namespace returning {
#endif

// The negative codes are those of the protocol, 100 and above the status of an HTTP answer.
enum class ErrorCode : int {
  none = 0,
  start = 1,     // the process cannot be started, or the address is wrong
  lost = 2,      // the server has ended or cannot be reached
  late = 3,      // no answer within the time limit; the same call again asks for the same answer
  protocol = 4,  // the answer is not a message of the protocol
  type = 5,      // a parameter does not exist or has another type
  parse = -32700,
  request = -32600,
  method = -32601,
  params = -32602,
  internal = -32603,
  config = -32001,
  trial = -32002,
  exhausted = -32003,
  ended = -32004,
  space = -32005,
  journal = -32006,
  no_run = -32007,
  limit = -32008,
  id_reused = -32009,
  conflict = -32010,
  wait = -32011,  // the last trials of the budget are pending, and may be lost
};

class Error : public std::runtime_error {
 public:
  Error() : Error(ErrorCode::none, "") {}
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }
  explicit operator bool() const { return code_ != ErrorCode::none; }

 private:
  ErrorCode code_;
};

namespace detail {

inline Error& stored_error() {
  thread_local Error error;
  return error;
}

// Throws the error, or stores it where exceptions are off. The first error stays, because the later ones only follow
// from it.
inline void raise(const Error& error) {
#if defined(__cpp_exceptions)
  if (error) throw error;
#else
  if (!stored_error()) stored_error() = error;
#endif
}

}  // namespace detail

// With -fno-exceptions: the first error of this thread that nobody has taken.
inline const Error& last_error() {
  return detail::stored_error();
}
// The same; and the calls work again.
inline Error take_error() {
  return std::exchange(detail::stored_error(), Error());
}

// ---- JSON ----

namespace detail {

// Returns the length of the UTF-8 sequence at the start, or 0 if it is none.
inline std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? text[i] & 0xFF : 0; };
  const int first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  // The limits of the second byte exclude longer forms than necessary, surrogates, and all beyond U+10FFFF.
  const int least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const int most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (first < 0xC2 || first > 0xF4 || second < least || second > most) return 0;
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  for (std::size_t i = 2; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  return length;
}

inline void append_code_point(std::uint32_t code, std::string& out) {
  constexpr std::uint32_t first_bytes[] = {0, 0xC0, 0xE0, 0xF0};  // by the number of bytes that follow
  const unsigned following = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  out += static_cast<char>(first_bytes[following] | code >> (6 * following));
  for (unsigned rest = following; rest-- > 0;) out += static_cast<char>(0x80 | ((code >> (6 * rest)) & 0x3F));
}

constexpr std::uint32_t replacement_character = 0xFFFD;

// Messages of compilers may have any bytes: those that are no UTF-8 are replaced, so that the server accepts the line.
inline void append_quoted(std::string_view text, std::string& out) {
  constexpr char digits[] = "0123456789abcdef";
  out += '"';
  const auto is_special = [](char c) { return (c & 0x80) != 0 || c < 0x20 || c == '"' || c == '\\'; };
  for (;;) {
    const auto plain = std::find_if(text.begin(), text.end(), is_special) - text.begin();
    out += text.substr(0, static_cast<std::size_t>(plain));
    text.remove_prefix(static_cast<std::size_t>(plain));
    if (text.empty()) break;
    const char first = text.front();
    const std::size_t length = sequence_length(text);
    if (length == 0) {
      append_code_point(replacement_character, out);
    } else if (length == 1 && first < 0x20) {
      out += "\\u00";
      out += digits[first >> 4];
      out += digits[first & 15];
    } else {
      if (first == '"' || first == '\\') out += '\\';
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  out += '"';
}

// Some libraries lack std::from_chars and std::to_chars for floating-point numbers, such as LLVM's before 20.
#if defined(__cpp_lib_to_chars) && !defined(BACO_LIKE_PORTABLE)
constexpr bool converts_reals = true;
#else
constexpr bool converts_reals = false;
#endif

// Both functions do not depend on the locale of the program, which may write 1,5.
template <class Number>
bool read_number(const std::string& text, Number& value) {
  if constexpr (converts_reals || std::is_integral_v<Number>) {
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    return error == std::errc() && rest == end;
  } else {
    std::istringstream in(text);
    in.imbue(std::locale::classic());
    return static_cast<bool>(in >> value) && in.peek() == std::istringstream::traits_type::eof();
  }
}

template <class Number>
std::string number_text(Number value) {
  if constexpr (converts_reals || std::is_integral_v<Number>) {
    char text[64];
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
  } else {
    std::ostringstream out;
    out.imbue(std::locale::classic());
    out.precision(std::numeric_limits<Number>::max_digits10);
    out << value;
    return out.str();
  }
}

template <class Value>
struct is_vector : std::false_type {};
template <class Item>
struct is_vector<std::vector<Item>> : std::true_type {};

}  // namespace detail

class Json;
using Fields = std::vector<std::pair<std::string, Json>>;  // an object, in the order of its text

// A JSON value. A number is kept as its text, so that 64-bit integers stay exact.
class Json {
 public:
  enum class Kind { null, flag, number, text, list, object };

  Json() = default;
  Json(const char* text) : Json(std::string(text)) {}
  Json(std::string text) : kind_(Kind::text), scalar_(std::move(text)) {}
  Json(Fields fields) : kind_(Kind::object) {
    for (auto& [key, value] : fields) set(std::move(key), std::move(value));
  }
  template <class Item>
  Json(const std::vector<Item>& items) : kind_(Kind::list), items_(items.begin(), items.end()) {}
  Json(std::initializer_list<double> items) : Json(std::vector<double>(items)) {}
  // A number that is not finite is null, as JSON has none.
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  Json(Number value) : kind_(std::is_same_v<Number, bool> ? Kind::flag : Kind::number) {
    if constexpr (std::is_same_v<Number, bool>)
      scalar_ = value ? "true" : "false";
    else if constexpr (std::is_integral_v<Number>)
      scalar_ = std::to_string(value);
    else if (std::isfinite(value))
      scalar_ = detail::number_text(value);
    else
      kind_ = Kind::null;
  }

  // Returns nothing if the text is not exactly one JSON value in UTF-8, of at most 100 levels.
  static std::optional<Json> parse(std::string_view text);
  std::string dump() const;

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::null; }
  const std::vector<Json>& items() const& { return items_; }      // of a list or an object
  std::vector<Json> items() && { return std::move(items_); }      // so that a loop over the items of a result is safe
  const std::vector<std::string>& keys() const { return keys_; }  // of an object

  // Adds a key to an object.
  void set(std::string key, Json value) {
    keys_.push_back(std::move(key));
    items_.push_back(std::move(value));
  }

  // Returns the value of a key, null if there is none. Of equal keys the last one counts.
  Json operator[](std::string_view key) && { return std::as_const(*this)[key]; }
  const Json& operator[](std::string_view key) const& {
    static const Json null;
    for (std::size_t i = keys_.size(); i-- > 0;)
      if (keys_[i] == key) return items_[i];
    return null;
  }

  // Returns the value as bool, an integer, a double, std::string or a std::vector of these; nothing if it is of another
  // type or beyond its range. An integer is a double, too; 2.0 is no integer.
  template <class Value>
  std::optional<Value> as() const {
    if constexpr (detail::is_vector<Value>::value) return as_list<Value>();
    if constexpr (std::is_same_v<Value, std::string>)
      return kind_ == Kind::text ? std::optional(scalar_) : std::nullopt;
    if constexpr (std::is_same_v<Value, bool>)
      return kind_ == Kind::flag ? std::optional(scalar_ == "true") : std::nullopt;
    if constexpr (std::is_arithmetic_v<Value> && !std::is_same_v<Value, bool>) {
      Value value{};
      const bool exact = kind_ == Kind::number && detail::read_number(scalar_, value);
      return exact ? std::optional(value) : std::nullopt;
    }
  }

 private:
  friend class JsonReader;

  template <class List>
  std::optional<List> as_list() const {
    if (kind_ != Kind::list) return std::nullopt;
    List list;
    for (const Json& item : items_) {
      const auto value = item.as<typename List::value_type>();
      if (!value) return std::nullopt;
      list.push_back(*value);
    }
    return list;
  }

  void append_to(std::string& out) const;

  Kind kind_ = Kind::null;
  std::string scalar_;  // a text; or a number, true or false as in the text
  std::vector<Json> items_;
  std::vector<std::string> keys_;
};

// Reads one value. Each function moves past what it reads, and returns false at the first error.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  std::optional<Json> read_document() {
    Json value;
    if (!read_value(value, 0)) return std::nullopt;
    skip_space();
    return at_ == text_.size() ? std::optional(std::move(value)) : std::nullopt;
  }

 private:
  static constexpr int most_levels = 100;  // each level is a call, and a stack is small

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool accept(std::string_view choices) {
    const bool found = at_ < text_.size() && choices.find(text_[at_]) != choices.npos;
    if (found) ++at_;
    return found;
  }
  bool accept_word(std::string_view word) {
    const bool found = text_.substr(at_, word.size()) == word;
    if (found) at_ += word.size();
    return found;
  }
  void skip_space() {
    while (accept(" \t\r\n")) {
    }
  }
  bool accept_token(std::string_view token) {
    skip_space();
    return accept(token);
  }

  bool read_value(Json& out, int level) {
    skip_space();
    const std::size_t start = at_;
    if (peek() == '{' || peek() == '[') return read_items(out, level);
    if (accept_word("null")) return true;
    if (peek() == '"') {
      out.kind_ = Json::Kind::text;
      return read_text(out.scalar_);
    }
    if (accept_word("true") || accept_word("false"))
      out.kind_ = Json::Kind::flag;
    else if (read_number())
      out.kind_ = Json::Kind::number;
    else
      return false;
    out.scalar_ = text_.substr(start, at_ - start);
    return true;
  }

  bool read_items(Json& out, int level) {
    const bool object = text_[at_++] == '{';
    const std::string_view end = object ? "}" : "]";
    out.kind_ = object ? Json::Kind::object : Json::Kind::list;
    if (level == most_levels) return false;
    if (accept_token(end)) return true;
    do {
      if (object && !read_key(out.keys_.emplace_back())) return false;
      if (!read_value(out.items_.emplace_back(), level + 1)) return false;
    } while (accept_token(","));
    return accept_token(end);
  }

  bool read_key(std::string& out) {
    skip_space();
    return peek() == '"' && read_text(out) && accept_token(":");
  }

  bool read_text(std::string& out) {
    ++at_;
    while (!accept("\"")) {
      if (accept("\\")) {
        if (!read_escape(out)) return false;
        continue;
      }
      const std::size_t length = detail::sequence_length(text_.substr(at_));
      const bool control = static_cast<unsigned char>(peek()) < 0x20;  // also the end of the text
      if (length == 0 || control) return false;
      out += text_.substr(at_, length);
      at_ += length;
    }
    return true;
  }

  bool read_escape(std::string& out) {
    constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    const std::size_t which = letters.find(peek());
    if (accept(letters)) {
      out += meanings[which];
      return true;
    }
    std::uint32_t code = 0, low = 0;
    if (!accept("u") || !read_hex(code)) return false;
    const std::size_t after = at_;
    if (code >> 10 == 0x36 && accept("\\") && accept("u") && read_hex(low) && low >> 10 == 0x37)
      code = 0x10000 + ((code & 0x3FF) << 10) + (low & 0x3FF);
    else
      at_ = after;
    const bool lone_surrogate = code >> 11 == 0x1B;
    detail::append_code_point(lone_surrogate ? detail::replacement_character : code, out);
    return true;
  }

  bool read_hex(std::uint32_t& code) {
    const std::string_view digits = text_.substr(at_, 4);
    const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    at_ += digits.size();
    return digits.size() == 4 && error == std::errc() && rest == digits.data() + 4;
  }

  bool read_digits() {
    const std::size_t start = at_;
    while (accept("0123456789")) {
    }
    return at_ > start;
  }

  bool read_number() {
    accept("-");
    if (!accept("0") && !read_digits()) return false;
    if (accept(".") && !read_digits()) return false;
    if (!accept("eE")) return true;
    accept("+-");
    return read_digits();
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

inline std::optional<Json> Json::parse(std::string_view text) {
  return JsonReader(text).read_document();
}

inline std::string Json::dump() const {
  std::string out;
  append_to(out);
  return out;
}

inline void Json::append_to(std::string& out) const {
  const bool object = kind_ == Kind::object;
  if (kind_ == Kind::null) out += "null";
  if (kind_ == Kind::text) detail::append_quoted(scalar_, out);
  if (kind_ == Kind::flag || kind_ == Kind::number) out += scalar_;
  if (!object && kind_ != Kind::list) return;
  out += object ? '{' : '[';
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (i > 0) out += ',';
    if (object) {
      detail::append_quoted(keys_[i], out);
      out += ':';
    }
    items_[i].append_to(out);
  }
  out += object ? '}' : ']';
}

// ---- Connections ----

namespace detail {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;
using std::chrono::milliseconds;

// What Linux has as flags, and other systems only as a second call.
#if defined(SOCK_CLOEXEC) && !defined(BACO_LIKE_PORTABLE)
constexpr int closed_on_exec = SOCK_CLOEXEC, no_signal = MSG_NOSIGNAL;
#elif defined(MSG_NOSIGNAL)
constexpr int closed_on_exec = 0, no_signal = MSG_NOSIGNAL;
#else
constexpr int closed_on_exec = 0, no_signal = 0;
#endif

// One connected socket. Its functions return false when the connection is lost or the deadline is over. They raise no
// SIGPIPE, and leave the flags of the descriptor alone, because it may belong to the user.
class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {
#if defined(SO_NOSIGPIPE)
    const int on = 1;
    setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { close(descriptor_); }

  int descriptor() const { return descriptor_; }

  // Sends the text, after the rest of a text whose deadline was over. It reads meanwhile: a server that is busy writing
  // an old answer would never read this request.
  bool send(std::string_view text, Deadline deadline) {
    if (unsent_.size() > most_unsent) return false;
    unsent_ += text;
    while (!unsent_.empty()) {
      const int events = wait(POLLIN | POLLOUT, deadline);
      if (events == 0 || ((events & POLLIN) != 0 && !receive_some())) return false;
      if ((events & POLLOUT) == 0) continue;
      const ssize_t sent = ::send(descriptor_, unsent_.data(), unsent_.size(), MSG_DONTWAIT | no_signal);
      if (sent < 0 && !may_try_again()) return false;
      unsent_.erase(0, static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
    }
    return true;
  }

  bool receive_line(std::string& line, Deadline deadline) {
    std::size_t end = 0, searched = 0;
    while ((end = received_.find('\n', searched)) == received_.npos) {
      searched = received_.size();
      if (wait(POLLIN, deadline) == 0 || !receive_some()) return false;
    }
    line.assign(received_, 0, end);
    received_.erase(0, end + 1);
    return true;
  }

  bool receive_bytes(std::size_t number, std::string& bytes, Deadline deadline) {
    while (received_.size() < number)
      if (wait(POLLIN, deadline) == 0 || !receive_some()) return false;
    bytes.assign(received_, 0, number);
    received_.erase(0, number);
    return true;
  }

  // Returns those of the events that have happened, or 0 when the deadline is over, also if the server never stops to
  // send.
  int wait(int events, Deadline deadline) const {
    for (;;) {
      const auto rest = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
      if (rest < 0) return 0;
      pollfd waiting{descriptor_, static_cast<short>(events), 0};
      const int ready = poll(&waiting, 1, static_cast<int>(std::clamp<long long>(rest, 0, 60'000)));
      // A hang-up and an error are for `recv` and `send` to report.
      if (ready > 0) return (waiting.revents & events) != 0 ? waiting.revents & events : events;
      if (ready < 0 && errno != EINTR) return events;
      if (rest <= 0) return 0;
    }
  }

  static constexpr std::size_t most_bytes = std::size_t{1} << 28;  // of a server that never ends a line
  static constexpr std::size_t most_unsent = std::size_t{1} << 24;  // for a server that never reads

 private:
  static bool may_try_again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

  // Returns false when no more bytes will come.
  bool receive_some() {
    char piece[65536];
    const ssize_t number = recv(descriptor_, piece, sizeof piece, MSG_DONTWAIT);
    if (number <= 0) return number < 0 && may_try_again();
    received_.append(piece, static_cast<std::size_t>(number));
    return received_.size() <= most_bytes;
  }

  int descriptor_;
  std::string unsent_, received_;
};

// Sends requests to a server and receives its answers. False means: lost, or the deadline is over.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual bool send(const std::string& request, Deadline deadline) = 0;
  virtual bool receive(std::string& answer, Deadline deadline) = 0;
  virtual bool reconnect() = 0;        // false where that is impossible
  virtual bool may_start() const = 0;  // whether somebody else starts the server, perhaps at this moment
  virtual bool has_started() const { return false; }  // whether something has accepted a connection
  virtual bool leave_parent() = 0;     // in a forked child: false where the connection belongs to the parent
  virtual std::string describe() = 0;  // whom it reaches, for messages
};

// One message is one line. The other end is a descriptor of the user, or the stdin and stdout of a process.
class LineTransport final : public Transport {
 public:
  explicit LineTransport(int descriptor) : socket_(std::make_unique<Socket>(descriptor)) {}
  explicit LineTransport(std::vector<std::string> command) : command_(std::move(command)) { start(); }
  ~LineTransport() override { end(); }

  bool send(const std::string& request, Deadline deadline) override {
    return socket_ != nullptr && socket_->send(request + '\n', deadline);
  }
  bool receive(std::string& answer, Deadline deadline) override {
    is_silent_ = !socket_->receive_line(answer, deadline);
    return !is_silent_;
  }

  // Without a journal a new process would begin a new run, and the results so far would be lost silently.
  bool reconnect() override {
    const auto resumes = [](const std::string& word) {
      return word.rfind("--journal", 0) == 0 || word.rfind("--folder", 0) == 0;
    };
    if (std::none_of(command_.begin(), command_.end(), resumes)) return false;
    end();
    return start();
  }

  bool may_start() const override { return false; }
  bool leave_parent() override {
    process_ = 0;
    return false;
  }

  std::string describe() override {
    if (command_.empty()) return failure_ == 0 ? "the server of the descriptor" : "the server: the command is empty";
    if (failure_ != 0) return "the command '" + command_[0] + "' (" + std::strerror(failure_) + ")";
    return "'" + command_[0] + "' (if it has ended, its standard error says why)";
  }

 private:
  bool start() {
    // Other children of this program must not keep the socket open: the server would never see the end of its input.
    int ends[2];
    failure_ = EINVAL;
    if (command_.empty()) return false;
    failure_ = socketpair(AF_UNIX, SOCK_STREAM | closed_on_exec, 0, ends) == 0 ? 0 : errno;
    if (failure_ != 0) return false;
    for (const int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
    socket_ = std::make_unique<Socket>(ends[0]);
    const Socket other(ends[1]);
    failure_ = spawn(ends[1]);
    return failure_ == 0;
  }

  // Stdin and stdout are one socket, where `send` can do without SIGPIPE. The process has a group of its own, so that
  // Ctrl-C ends this program first, and the signals that this thread blocks are not blocked there.
  int spawn(int descriptor) {
    std::vector<char*> words;
    for (std::string& word : command_) words.push_back(word.data());
    words.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, descriptor, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, descriptor, STDOUT_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    const int failure = posix_spawnp(&process_, words[0], &actions, &attributes, words.data(), environ);
    if (failure != 0) process_ = 0;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return failure;
  }

  // The server ends when its input ends. One that does not is killed. A forked child leaves it to the parent.
  void end() {
    if (process_ == 0 || getpid() != owner_) return;
    shutdown(socket_->descriptor(), SHUT_WR);
    const Deadline deadline = Clock::now() + milliseconds(is_silent_ ? 500 : 5'000);
    // The result is -1 in a program that ignores SIGCHLD or waits for all children.
    while (waitpid(process_, nullptr, WNOHANG) == 0) {
      if (Clock::now() > deadline) kill(-process_, SIGKILL);
      std::this_thread::sleep_for(milliseconds(5));
    }
    process_ = 0;
  }

  std::unique_ptr<Socket> socket_;
  std::vector<std::string> command_;
  pid_t process_ = 0, owner_ = getpid();
  int failure_ = 0;
  bool is_silent_ = false;  // the last answer has not come
};

// One message is the body of a POST. The connection stays open for the next one.
class HttpTransport final : public Transport {
 public:
  // The address is http://HOST:PORT/RUN, without /RUN if the server has one run.
  HttpTransport(const std::string& address, std::string token) : token_(std::move(token)) {
    while (!token_.empty() && token_.back() <= ' ') token_.pop_back();  // the end of the line in its file
    const bool valid = address.rfind("http://", 0) == 0;
    const std::size_t slash = std::min(address.find('/', 7), address.size());
    authority_ = valid ? address.substr(7, slash - 7) : "";
    path_ = slash < address.size() ? address.substr(slash) : "/";
  }

  bool send(const std::string& request, Deadline deadline) override {
    if (socket_ == nullptr && !connect_to_any(deadline)) return false;
    std::string text = "POST " + path_ + " HTTP/1.1\r\nHost: " + authority_ + "\r\nContent-Type: application/json\r\n";
    if (!token_.empty()) text += "Authorization: Bearer " + token_ + "\r\n";
    text += "Content-Length: " + std::to_string(request.size()) + "\r\n\r\n" + request;
    return socket_->send(text, deadline) || drop();
  }

  bool receive(std::string& answer, Deadline deadline) override {
    bool chunked = false;
    std::size_t length = 0;
    if (!receive_head(length, chunked, deadline)) return drop();
    if (!(chunked ? receive_chunks(answer, deadline) : socket_->receive_bytes(length, answer, deadline))) return drop();
    // Too many requests, or a proxy without a server: the same request has a chance later.
    if (status_ == 429 || (status_ >= 502 && status_ <= 504)) return false;
    if (status_ != 200) describe_status(answer);
    return true;
  }

  bool reconnect() override {  // by the next `send`
    drop();
    return true;
  }
  bool may_start() const override { return !authority_.empty(); }
  // Behind a proxy that has no server yet, it may still start.
  bool has_started() const override { return has_connected_ && (status_ < 502 || status_ > 504); }
  bool leave_parent() override { return reconnect(); }

  std::string describe() override {
    if (authority_.empty())
      return "the server: expected an address such as http://host:8765/run (instead of https: the address of a tunnel, "
             "such as ssh -L, or of a proxy on this machine)";
    const std::string reason = status_ == 0 ? reason_ : "HTTP status " + std::to_string(status_);
    return "http://" + authority_ + path_ + (reason.empty() ? "" : " (" + reason + ")");
  }

 private:
  // What is left of an answer must not be taken for the next one.
  bool drop() {
    socket_.reset();
    return false;
  }

  bool connect_to_any(Deadline deadline) {
    status_ = 0;
    const std::size_t colon = authority_.rfind(':');
    std::string host = authority_.substr(0, colon),
                port = colon == authority_.npos ? "80" : authority_.substr(colon + 1);
    if (host.size() > 2 && host[0] == '[') host = host.substr(1, host.size() - 2);  // an address of IPv6
    const Addresses all = find_addresses(host, port, deadline);
    reason_ = all == nullptr ? "the name of the host is unknown" : "";
    for (const addrinfo* one = all.get(); one != nullptr && socket_ == nullptr; one = one->ai_next)
      connect_to(*one, deadline);
    return socket_ != nullptr;
  }

  struct Freed {
    void operator()(addrinfo* first) const { freeaddrinfo(first); }
  };
  using Addresses = std::unique_ptr<addrinfo, Freed>;

  static Addresses find_addresses(const std::string& host, const std::string& port, int flags) {
    addrinfo hints{}, *first = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags;
    return Addresses(getaddrinfo(host.c_str(), port.c_str(), &hints, &first) == 0 ? first : nullptr);
  }

  // Asking for the address of a name has no time limit, so another thread asks, and is left alone if it takes too long.
  static Addresses find_addresses(const std::string& host, const std::string& port, Deadline deadline) {
    Addresses known = find_addresses(host, port, AI_NUMERICHOST);
    if (known != nullptr) return known;
    std::promise<Addresses> promise;
    std::future<Addresses> found = promise.get_future();
    std::thread([host, port, promise = std::move(promise)]() mutable {
      promise.set_value(find_addresses(host, port, 0));
    }).detach();
    return found.wait_until(deadline) == std::future_status::ready ? found.get() : nullptr;
  }

  void connect_to(const addrinfo& target, Deadline deadline) {
    const int type = target.ai_socktype | closed_on_exec;
    auto candidate = std::make_unique<Socket>(socket(target.ai_family, type, target.ai_protocol));
    const int descriptor = candidate->descriptor();
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    fcntl(descriptor, F_SETFL, O_NONBLOCK);
    int failure = connect(descriptor, target.ai_addr, target.ai_addrlen) == 0 ? 0 : errno;
    socklen_t size = sizeof failure;
    if (failure == 0 || failure == EINPROGRESS) {
      const bool done = candidate->wait(POLLOUT, deadline) != 0;
      failure = done ? 0 : ETIMEDOUT;
      if (done && getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &failure, &size) != 0) failure = errno;
    }
    if (failure == 0) {
      socket_ = std::move(candidate);
      has_connected_ = true;
    }
    reason_ = failure == 0 ? "" : std::strerror(failure);
  }

  bool receive_head(std::size_t& length, bool& chunked, Deadline deadline) {
    std::string line;
    if (!socket_->receive_line(line, deadline)) return false;
    status_ = 0;
    if (line.rfind("HTTP/1.", 0) == 0 && line.size() >= 12) std::from_chars(&line[9], &line[12], status_);
    const auto is = [&](std::string_view name) { return strncasecmp(line.c_str(), name.data(), name.size()) == 0; };
    while (socket_->receive_line(line, deadline)) {
      if (line.empty() || line == "\r") return true;
      if (is("Content-Length:")) length = std::strtoul(line.c_str() + 15, nullptr, 10);
      if (is("Transfer-Encoding:")) chunked = line.find("chunked") != line.npos;
    }
    return false;
  }

  bool receive_chunks(std::string& body, Deadline deadline) {
    std::string piece;
    body.clear();
    for (std::size_t size = 1; size > 0; body.append(piece, 0, size)) {
      if (!socket_->receive_line(piece, deadline)) return false;
      size = std::strtoul(piece.c_str(), nullptr, 16);
      if (size > Socket::most_bytes - body.size()) return false;
      if (!socket_->receive_bytes(size + 2, piece, deadline)) return false;  // the line of a chunk ends with \r\n
    }
    return true;
  }

  // An answer that is no message of the protocol becomes one, so that the caller sees the status and the text.
  void describe_status(std::string& answer) const {
    const std::optional<Json> message = Json::parse(answer);
    if (message && !(*message)["error"]["message"].is_null()) return;
    const std::string text = "HTTP status " + std::to_string(status_) + ": " + answer.substr(0, 500);
    answer = Json(Fields{{"error", Fields{{"code", status_}, {"message", text}}}}).dump();
  }

  std::string token_, authority_, path_;
  std::string reason_;  // why no connection was made
  std::unique_ptr<Socket> socket_;
  int status_ = 0;
  bool has_connected_ = false;
};

}  // namespace detail

// ---- Trials and the tuner ----

// A configuration to measure, with its number; and its outcome where the server has one.
class Trial {
 public:
  Trial() = default;
  explicit Trial(Json json) : json_(std::move(json)) {}

  explicit operator bool() const { return !json_.is_null(); }
  const Json& json() const { return json_; }
  const Json& config() const { return json_["config"]; }
  std::int64_t id() const { return json_["id"].as<std::int64_t>().value_or(-1); }
  std::optional<double> value() const { return json_["value"].as<double>(); }  // nothing if it failed or is pending

  // The value of a parameter. A conditional parameter that is inactive has none.
  bool has(std::string_view name) const { return !config()[name].is_null(); }
  template <class Integer = std::int64_t>
  Integer integer(std::string_view name) const {
    return get<Integer>(name, "an integer in the range of this type");
  }
  double real(std::string_view name) const { return get<double>(name, "a number"); }
  bool flag(std::string_view name) const { return get<bool>(name, "true or false"); }
  std::string text(std::string_view name) const { return get<std::string>(name, "a text"); }
  std::vector<int> order(std::string_view name) const { return get<std::vector<int>>(name, "a list of integers"); }
  std::vector<std::string> texts(std::string_view name) const {
    return get<std::vector<std::string>>(name, "a list of texts");
  }

 private:
  template <class Value>
  Value get(std::string_view name, const char* expected) const {
    const Json& json = config()[name];
    if (const auto value = json.template as<Value>()) return *value;
    std::string text = "parameter '" + std::string(name) + "' ";
    if (json.is_null()) {
      text += "has no value here: it is inactive, or misspelt. These have one:";
      for (const std::string& key : config().keys()) text += " '" + key + "'";
    } else {
      text += "is " + json.dump() + ", expected " + expected;
    }
    detail::raise(Error(ErrorCode::type, text));
    return Value{};
  }

  Json json_;
};

struct Options {
  std::chrono::milliseconds time_limit{300'000};      // of one call; the first one starts Python
  std::chrono::milliseconds reconnect_limit{30'000};  // how long a lost connection is tried again
  std::chrono::milliseconds start_limit{10'000};      // how long a server over HTTP may take to start
  std::string token;                                  // of a server on another machine; default: BACO_LIKE_TOKEN
  std::string run;                                    // the name of the run; default: the one that was opened last
  std::string client;                                 // the name of this program; default: one of its own over HTTP
};

class Tuner {
 public:
  // Starts the server. With --journal or --folder in the command, a server that dies is started again.
  static Tuner start(std::vector<std::string> command, Options options = {}) {
    return Tuner(std::make_unique<detail::LineTransport>(std::move(command)), std::move(options));
  }
  // Takes a connected socket, which it closes.
  static Tuner connect(int descriptor, Options options = {}) {
    return Tuner(std::make_unique<detail::LineTransport>(descriptor), std::move(options));
  }
  // Connects to `baco-like serve --http`, at an address such as http://host:8765/run.
  static Tuner connect(const std::string& address, Options options = {}) {
    const char* token = std::getenv("BACO_LIKE_TOKEN");
    if (options.token.empty() && token != nullptr) options.token = token;
    auto transport = std::make_unique<detail::HttpTransport>(address, options.token);
    return Tuner(std::move(transport), std::move(options));
  }

  void set_time_limit(std::chrono::milliseconds limit) { options_.time_limit = limit; }

  // Opens or continues a run, to which the later calls belong. The text is the JSON object of the parameters of `open`.
  Json open(std::string_view description) {
    const std::optional<Json> parameters = Json::parse(description);
    opening_ = parameters && parameters->kind() == Json::Kind::object ? *parameters : Json();
    Json result;
    detail::raise(opening_.is_null() ? Error(ErrorCode::protocol, "the description of the run is no JSON object")
                                     : request("open", opening_, result));
    run_ = result["run"].as<std::string>().value_or(run_);
    return result;
  }

  // Returns the next trial. That the run has ended is an error here.
  Trial suggest(Fields extra = {}) { return Trial(first(call("suggest", std::move(extra))["trials"])); }
  std::vector<Trial> suggest_many(int number, Fields extra = {}) {
    extra.emplace_back("n", number);
    return trials(call("suggest", std::move(extra)));
  }
  // Returns the next trial, or nothing when the run has ended: its budget or the space has room for no more trials.
  // Over HTTP that may be because trials of a program that was killed are pending, see pending().
  std::optional<Trial> next(Fields extra = {}) {
    if (last_error()) return std::nullopt;
    Json result;
    Error error = request("suggest", extra, result);
    // Another program has the last trials for a time. If it is lost, this one gets them.
    const Deadline deadline = detail::Clock::now() + options_.time_limit;
    while (error.code() == ErrorCode::wait && detail::Clock::now() < deadline && pending().empty()) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      error = request("suggest", extra, result);
    }
    if (error.code() == ErrorCode::ended || error.code() == ErrorCode::exhausted) return std::nullopt;
    detail::raise(error);
    return error ? std::nullopt : std::optional(Trial(first(result["trials"])));
  }

  // Reports a value, its repeats, or the metrics (with the objectives) by name. Returns whether it is the best so far.
  // More fields of the protocol are in `extra`: {{"seconds", 2.5}, {"program", hash}}.
  bool observe(const Trial& trial, double value, Fields extra = {}) {
    return report(trial, "value", value, std::move(extra));
  }
  enum class NoValue {};
  bool observe(const Trial& trial, NoValue value, Fields extra = {}) = delete;  // {} would be the value 0
  bool observe(const Trial& trial, const std::vector<double>& repeats, Fields extra = {}) {
    return report(trial, "values", repeats, std::move(extra));
  }
  bool observe(const Trial& trial, Fields metrics, Fields extra = {}) {
    return report(trial, "metrics", std::move(metrics), std::move(extra));
  }
  // Reports a failure by a word such as "compile", "runtime" or "correctness". With {{"bound", 2.5}}: stopped at 2.5.
  void fail(const Trial& trial, const std::string& word, const std::string& message = "", Fields extra = {}) {
    constexpr std::size_t most_bytes = 10'000;  // a compiler can print megabytes, which the server would refuse
    extra.emplace_back("message", message.substr(0, most_bytes));
    report(trial, "failed", word, std::move(extra));
  }
  Trial claim(Json config) { return Trial(call("claim", {{"config", std::move(config)}})["trial"]); }
  void enqueue(Json config) { call("enqueue", {{"config", std::move(config)}}); }
  // Proposes a configuration that competes with those of the strategy. Returns why it is refused, or an empty text.
  std::string propose(Json config, const std::string& source, const std::string& note = "") {
    const std::vector<Json> configs{std::move(config)};
    const Json answers = call("propose", {{"configs", configs}, {"source", source}, {"note", note}})["answers"];
    return first(answers)["reason"].as<std::string>().value_or("");
  }
  // Says that these trials are still being measured: needed where the server gives leases, and for more than one
  // trial at a time after it has been started again.
  void heartbeat(const std::vector<Trial>& trials) {
    std::vector<std::int64_t> ids;
    for (const Trial& trial : trials) ids.push_back(trial.id());
    call("heartbeat", {{"trials", ids}});
  }
  void abandon(const Trial& trial, const std::string& reason = "") {
    call("abandon", {{"trial", trial.id()}, {"reason", reason}});
  }

  // Returns the best trial, or nothing before the first success.
  std::optional<Trial> best(Fields extra = {}) {
    const Json trial = call("best", std::move(extra))["trial"];
    return trial.is_null() ? std::nullopt : std::optional(Trial(trial));
  }
  std::vector<Trial> front() { return trials(call("front")); }
  // Returns the pending trials of programs of this name (Options::client): after a restart, measure these first.
  std::vector<Trial> pending() {
    const Json status = call("status");
    std::vector<Trial> own;
    for (const Json& trial : status["pending"].items())
      if (trial["client"].as<std::string>() == client_) own.emplace_back(trial);
    return own;
  }

  // Calls any method of the protocol and returns its result.
  Json call(const std::string& method, Fields parameters = {}) {
    Json result;
    detail::raise(request(method, std::move(parameters), result));
    return result;
  }
  // The same, where an error is no exception.
  Error request(const std::string& method, Json parameters, Json& result);

 private:
  using Deadline = detail::Deadline;

  Tuner(std::unique_ptr<detail::Transport> transport, Options options)
      : transport_(std::move(transport)), options_(std::move(options)) {
    choose_names();
    const Json hello = call("hello", {{"version", protocol_version}});
    if (!hello.is_null() && hello["protocol"].as<int>() != protocol_version)
      detail::raise(Error(ErrorCode::protocol, "the server speaks protocol " + hello["protocol"].dump() +
                                                   ", this header 1: take the header of the installed package"));
  }

  // The ids are random, so that no other process and no later run has the same.
  void choose_names() {
    std::random_device random;
    prefix_.clear();
    for (int i = 0; i < 4; ++i) prefix_ += std::to_string(random()) + '-';
    client_ = options_.client;
    if (client_.empty()) client_ = transport_->may_start() ? "cpp-" + std::to_string(random()) : "client";
  }

  static Json first(const Json& list) { return list.items().empty() ? Json() : list.items().front(); }
  static std::vector<Trial> trials(const Json& result) {
    const std::vector<Json>& items = result["trials"].items();
    return {items.begin(), items.end()};
  }

  bool report(const Trial& trial, const std::string& key, Json value, Fields fields) {
    fields.emplace_back("trial", trial.id());
    if (!trial.config().is_null()) fields.emplace_back("config", trial.config());  // the server compares it
    fields.emplace_back(key, std::move(value));
    return call("observe", std::move(fields))["best"].as<bool>().value_or(false);
  }

  Error open_again_and_request(const std::string& method, const Json& parameters, Json& result);
  Error exchange(const std::string& request, Json& answer);
  bool receive(Json& answer, Deadline deadline);

  static constexpr int protocol_version = 1;
  std::unique_ptr<detail::Transport> transport_;
  Options options_;
  Json opening_;        // the parameters of open()
  pid_t process_ = getpid();
  std::string prefix_, client_;     // of the ids; the name of this program
  std::string run_ = options_.run;  // the run of the calls: the last one that was opened
  std::int64_t number_ = 0;
  std::string id_;          // of the last request
  std::string unanswered_;  // the last request if its answer has not come
};

inline Error Tuner::request(const std::string& method, Json parameters, Json& result) {
  if (last_error()) return last_error();
  if (process_ != getpid()) {  // a forked child
    const bool usable = transport_->leave_parent();
    if (!usable) return {ErrorCode::lost, "this server belongs to the parent of this process; start another one"};
    process_ = getpid();
    choose_names();
    unanswered_.clear();
  }
  const Json given = parameters;
  const std::string& run = method == "open" ? options_.run : run_;
  if (!run.empty() && parameters["run"].is_null()) parameters.set("run", run);
  if (parameters["client"].is_null()) parameters.set("client", client_);
  const std::string content = Json(Fields{{"method", method}, {"params", parameters}}).dump();
  // The call that is repeated after an error has the same id, so that the server does nothing twice.
  if (content != unanswered_) id_ = prefix_ + std::to_string(++number_);
  unanswered_ = content;
  Json answer;
  if (const Error error = exchange(R"({"jsonrpc":"2.0","id":")" + id_ + "\"," + content.substr(1), answer))
    return error;
  unanswered_.clear();
  result = answer["result"];
  const Json& error = answer["error"];
  if (error.is_null()) return {};
  const int number = error["code"].as<int>().value_or(0);
  const auto code = number == 0 ? ErrorCode::protocol : static_cast<ErrorCode>(number);
  if (code == ErrorCode::no_run && !opening_.is_null()) return open_again_and_request(method, given, result);
  return {code, error["message"].as<std::string>().value_or("an error without a message")};
}

// A server that has been started again knows no run.
inline Error Tuner::open_again_and_request(const std::string& method, const Json& parameters, Json& result) {
  const Json opening = std::exchange(opening_, Json());
  Json opened;
  Error error = request("open", opening, opened);
  if (!error) error = request(method, parameters, result);
  opening_ = opening;
  return error;
}

// Sends the request until an answer comes: after a lost connection again, with the same id.
inline Error Tuner::exchange(const std::string& request, Json& answer) {
  const Deadline deadline = detail::Clock::now() + options_.time_limit;
  std::optional<Deadline> end;
  constexpr detail::milliseconds shortest(100), longest(2'000);
  for (detail::milliseconds pause{0};; pause = std::clamp(2 * pause, shortest, longest)) {
    if (transport_->send(request, deadline) && receive(answer, deadline)) return {};
    const Deadline now = detail::Clock::now();
    const std::string whom = transport_->describe();
    if (now >= deadline)
      return {ErrorCode::late, "no answer within " + std::to_string(options_.time_limit.count()) + " ms from " + whom};
    const bool first = number_ == 1;
    const Error failure = first ? Error(ErrorCode::start, "cannot start or reach " + whom)
                                : Error(ErrorCode::lost, "lost the connection to " + whom);
    if (first && (!transport_->may_start() || transport_->has_started())) return failure;
    const auto limit = first ? std::min(options_.start_limit, options_.reconnect_limit) : options_.reconnect_limit;
    end = end.value_or(std::min(deadline, now + limit));
    if (now + pause > *end) return {failure.code(), failure.what() + ("; tried for " + std::to_string(limit.count()) + " ms")};
    std::this_thread::sleep_for(pause);
    if (!transport_->reconnect()) return failure;
  }
}

inline bool Tuner::receive(Json& answer, Deadline deadline) {
  for (std::string text; transport_->receive(text, deadline);) {
    answer = Json::parse(text).value_or(Json());
    if (answer["result"].is_null() && answer["error"].is_null())
      answer = Fields{{"error", Fields{{"message", "this is not a message of the protocol: " + text.substr(0, 200)}}}};
    const Json& id = answer["id"];
    // A line with another id is the late answer of a call that has ended.
    if (id.is_null() || id.as<std::string>() == id_) return true;
  }
  return false;
}

}  // namespace throwing or returning
}  // namespace baco_like

#endif  // BACO_LIKE_HPP
