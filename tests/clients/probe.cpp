// Drives baco_like.hpp for the tests:
//   probe json                 reads lines and writes each as JSON again, or "invalid"
//   probe types LINE           writes what the getters return for the trial LINE
//   probe relay SERVER...      reads lines {"method":...,"params":...} and writes results and errors;
//                              "fill" instead of the parameters: the size of a text
//   probe all SERVER...        calls each method once
//   probe tune SERVER...       a tuning loop: writes each configuration
//   probe fork SERVER...       asks in a forked child, and after it in the parent
// SERVER is http://..., the number of a descriptor, or a command.

#include <baco_like.hpp>
#include <cstdlib>
#include <iostream>
#include <sys/wait.h>

using baco_like::Error;
using baco_like::ErrorCode;
using baco_like::Fields;
using baco_like::Json;
using baco_like::Options;
using baco_like::Trial;
using baco_like::Tuner;

namespace {

Tuner reach(const std::vector<std::string>& words) {
  Options options;
  options.time_limit = std::chrono::seconds(60);
  options.start_limit = std::chrono::milliseconds(2'500);
  if (words[0].rfind("http", 0) == 0) return Tuner::connect(words[0], options);
  if (words.size() == 1 && std::isdigit(words[0][0]) != 0) return Tuner::connect(std::stoi(words[0]), options);
  return Tuner::start(words, options);
}

Json describe(const Error& error) {
  return Fields{{"error", Fields{{"code", static_cast<int>(error.code())}, {"message", error.what()}}}};
}

void copy_json() {
  for (std::string line; std::getline(std::cin, line);) {
    const std::optional<Json> value = Json::parse(line);
    std::cout << (value ? value->dump() : "invalid") << '\n';
  }
}

// Calls a getter, and returns its value or the code of its error.
template <class Get>
Json value_or_error(Get get) {
#if defined(__cpp_exceptions)
  try {
    return get();
  } catch (const Error& error) {
    return describe(error);
  }
#else
  Json value = get();
  const Error error = baco_like::take_error();
  return error ? describe(error) : value;
#endif
}

void show_types(const std::string& line) {
  const Trial trial(Json::parse(line).value());
  for (const std::string& name : trial.config().keys()) {
    Fields out;
    out.emplace_back("integer", value_or_error([&] { return Json(trial.integer(name)); }));
    out.emplace_back("int8", value_or_error([&] { return Json(trial.integer<std::int8_t>(name)); }));
    out.emplace_back("unsigned", value_or_error([&] { return Json(trial.integer<std::uint64_t>(name)); }));
    out.emplace_back("real", value_or_error([&] { return Json(trial.real(name)); }));
    out.emplace_back("flag", value_or_error([&] { return Json(trial.flag(name)); }));
    out.emplace_back("text", value_or_error([&] { return Json(trial.text(name)); }));
    out.emplace_back("order", value_or_error([&] { return Json(trial.order(name)); }));
    out.emplace_back("texts", value_or_error([&] { return Json(trial.texts(name)); }));
    std::cout << Json(out).dump() << '\n';
  }
}

void relay(Tuner& tuner) {
  for (std::string line; std::getline(std::cin, line);) {
    const Json request = Json::parse(line).value();
    if (const auto limit = request["time_limit"].as<int>()) tuner.set_time_limit(std::chrono::milliseconds(*limit));
    Json result;
    if (request["open"].as<bool>()) {
      tuner.open(request["params"].dump());
      std::cout << "{}" << std::endl;
      continue;
    }
    Json params = request["params"];
    if (const auto size = request["fill"].as<int>()) params = Fields{{"text", std::string(static_cast<std::size_t>(*size), 'x')}};
    const Error error = tuner.request(*request["method"].as<std::string>(), std::move(params), result);
    std::cout << (error ? describe(error) : Json(Fields{{"result", result}})).dump() << std::endl;
  }
}

// The objective of same_suggestions.py, in the same operations.
double cost(const Trial& trial) {
  const double tile = trial.real("tile"), share = trial.real("share");
  const std::vector<int> loops = trial.order("loops");
  const double difference = (tile - 16.0) / 16.0, rest = share - 0.3;
  return 1.0 + difference * difference + rest * rest + 0.1 * loops[0] + (trial.text("mode") == "fast" ? 0.0 : 0.5);
}

void tune(Tuner& tuner) {
  while (const auto trial = tuner.next()) {
    std::cout << trial->config().dump() << std::endl;
    tuner.observe(*trial, {cost(*trial), cost(*trial) + 0.25});
  }
}

// Calls each method once; the server notes the requests.
void call_all(Tuner& tuner) {
  const Trial trial = tuner.suggest();
  const std::vector<Trial> more = tuner.suggest_many(2, {{"task", Fields{{"n", 512}}}});
  tuner.observe(trial, 0.1, {{"program", "5be1"}});
  tuner.observe(more[0], {1.0, std::nan(""), 1e300, -0.5});
  tuner.observe(more[0], {{"time", {0.5, 0.25}}, {"size", std::vector<int>{1, 2}}}, {{"seconds", 2}});
  tuner.fail(more[1], "compile", "line 1\nline \xff 2\t\"");
  tuner.fail(more[1], "timeout", std::string(20'000, 'x'), {{"bound", 2.5}});
  tuner.abandon(more[1], "no time");
  tuner.heartbeat(more);
  tuner.enqueue(Fields{{"tile", 8}});
  tuner.claim(Fields{{"tile", 16}});
  if (tuner.propose(Fields{{"tile", 3}}, "expert", "why not") != "infeasible: 3") std::abort();
  std::vector<std::int64_t> pending;
  const bool has_best = tuner.best().has_value();
  const std::int64_t front = tuner.front()[0].id();
  for (const Trial& own : tuner.pending()) pending.push_back(own.id());
  std::cout << Json(Fields{{"best", has_best}, {"front", front}, {"pending", pending}}).dump() << std::endl;
}

void suggest_once(Tuner& tuner) {
  Json result;
  const Error error = tuner.request("suggest", Fields{}, result);
  std::cout << (error ? describe(error) : result).dump() << std::endl;
}

void fork_and_ask(Tuner tuner) {
  const pid_t child = fork();
  if (child != 0) waitpid(child, nullptr, 0);
  suggest_once(tuner);
}

void run(const std::string& mode, const std::vector<std::string>& words) {
  Tuner tuner = reach(words);
  if (!baco_like::last_error() && mode == "relay") relay(tuner);
  if (!baco_like::last_error() && mode == "tune") tune(tuner);
  if (!baco_like::last_error() && mode == "all") call_all(tuner);
  if (!baco_like::last_error() && mode == "fork") fork_and_ask(std::move(tuner));
}

}  // namespace

int main(int count, char** arguments) {
  const std::string mode = arguments[1];
  const std::vector<std::string> words(arguments + 2, arguments + count);
  if (mode == "json") return copy_json(), 0;
  if (mode == "types") return show_types(words[0]), 0;
  std::cout.precision(17);
#if defined(__cpp_exceptions)
  try {
    run(mode, words);
  } catch (const Error& error) {
    std::cout << describe(error).dump() << std::endl;
    return 1;
  }
#else
  run(mode, words);
  if (baco_like::last_error()) return std::cout << describe(baco_like::last_error()).dump() << std::endl, 1;
#endif
  return 0;
}
