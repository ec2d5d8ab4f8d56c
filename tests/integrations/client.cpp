// A client as C++ compilers have them: pipes, fgets into a short buffer, cells split at every comma, whole numbers only.
// Usage: client FAILURE ORDER PROGRAM ARGUMENT...
//   FAILURE  what it reports for a configuration that does not run: -1, 2147483647 or nan
//   ORDER    same, or mixed: the columns of the reply in another order, with further ones
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

static FILE *from_server, *to_server;

static void fail(const std::string &why) {
    std::fprintf(stderr, "client: %s\n", why.c_str());
    std::exit(3);
}

static pid_t start(char **command) {
    int down[2], up[2];
    if (pipe(down) || pipe(up)) fail("pipe");
    pid_t child = fork();
    if (child == 0) {
        dup2(down[0], 0);
        dup2(up[1], 1);
        for (int fd : {down[0], down[1], up[0], up[1]}) close(fd);
        execvp(command[0], command);
        _exit(99);
    }
    close(down[0]);
    close(up[1]);
    to_server = fdopen(down[1], "w");
    from_server = fdopen(up[0], "r");
    return child;
}

static std::string line() {
    char buffer[1000];
    if (!std::fgets(buffer, sizeof buffer, from_server)) fail("the server has gone");
    size_t length = std::strlen(buffer);
    if (buffer[length - 1] != '\n') fail("a line is too long");
    return std::string(buffer, length - 1);
}

static std::vector<std::string> cells(const std::string &text) {
    std::vector<std::string> found;
    size_t begin = 0, end;
    while ((end = text.find(',', begin)) != std::string::npos) {
        found.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    found.push_back(text.substr(begin));
    return found;
}

static long whole(const std::string &text) {
    char *end;
    long number = std::strtol(text.c_str(), &end, 10);
    if (end == text.c_str() || *end) fail("not a whole number: " + text);
    return number;
}

static std::string join(const std::vector<std::string> &parts, bool reversed) {
    std::string text;
    for (size_t i = 0; i < parts.size(); i++)
        text += (i ? "," : "") + parts[reversed ? parts.size() - 1 - i : i];
    return text;
}

int main(int argc, char **argv) {
    if (argc < 4) fail("client FAILURE ORDER PROGRAM ARGUMENT...");
    const std::string failure = argv[1];
    const bool mixed = !std::strcmp(argv[2], "mixed");
    const pid_t child = start(argv + 3);
    int evaluations = 0;
    for (std::string request; (request = line()) != "End of HyperMapper";) {
        if (request.compare(0, 8, "Request ")) fail("not a request: " + request);
        const long rows = whole(request.substr(8));
        std::vector<std::string> names = cells(line());
        std::vector<std::string> columns = names;
        columns.insert(columns.end(), {"runtime", "Valid"});
        if (mixed) columns.push_back("Timestamp");
        std::string reply = join(columns, mixed) + "\n";
        for (long row = 0; row < rows; row++, evaluations++) {
            std::vector<std::string> values = cells(line());
            if (values.size() != names.size()) fail("a row of another length");
            const long x = whole(values[0]), y = whole(values[1]);
            const bool runs = x * y <= 64;
            values.push_back(runs ? std::to_string((x - 8) * (x - 8) + 1.0 * y) : failure);
            values.push_back(runs ? "1" : "0");
            if (mixed) values.push_back(std::to_string(evaluations));
            reply += join(values, mixed) + "\n";
        }
        std::fputs(reply.c_str(), to_server);
        std::fflush(to_server);
    }
    std::fclose(to_server);
    if (std::fgetc(from_server) != EOF) fail("something stands behind the last line");
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("%d evaluations\n", evaluations);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}
