/* Tunes a C program with `baco-like serve --json`, without a library:

       cc -o client client.c && ./client baco-like serve --json ../space.json

   One message is one line. The pipes are one socket, as `send` can do without SIGPIPE when the server has ended.
   The functions `skip` and `find` read JSON in place; a program with a library for JSON needs neither. */

#define _DEFAULT_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 20, LIMIT_MS = 300000 };

static int server;
static unsigned prefix[2]; /* of the ids: random, so that no other program and no later run has the same */
static char line[MOST_BYTES + 1];

static void die(const char *reason)
{
    fprintf(stderr, "client: %.500s\n", reason);
    exit(1);
}

/* Returns the end of the JSON value at `at`. */
static const char *skip(const char *at)
{
    int depth = 0;
    do {
        at += strspn(at, " ,:");
        if (*at == '\0') die("the answer is cut");
        if (*at == '"') {
            for (at++; *at != '"' && *at != '\0'; at++) at += *at == '\\' && at[1] != '\0';
            at += *at == '"';
        } else if (strchr("{}[]", *at) != NULL) {
            depth += *at == '{' || *at == '[' ? 1 : -1;
            at++;
        } else {
            at += strcspn(at, " ,:]}");
        }
    } while (depth > 0);
    return at;
}

/* Returns the value of a key of an object, or NULL. */
static const char *find(const char *object, const char *key)
{
    size_t length = strlen(key);
    for (const char *at = object + 1; at += strspn(at, " ,"), *at == '"';) {
        const char *value = skip(at);
        value += strspn(value, " :");
        if (strncmp(at + 1, key, length) == 0 && at[length + 1] == '"') return value;
        at = skip(value);
    }
    return NULL;
}

static const char *member(const char *object, const char *key)
{
    const char *value = find(object, key);
    if (value == NULL) die(object);
    return value;
}

/* Calls a method. Returns its result, or NULL if the run has ended. */
static const char *call(const char *method, const char *params)
{
    static int number;
    int size = snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":\"%08x%08x-%d\",\"method\":\"%s\",\"params\":%s}\n",
                        prefix[0], prefix[1], ++number, method, params);
    if (size < 0 || size > MOST_BYTES) die("the parameters are too long");
    if (send(server, line, (size_t)size, MSG_NOSIGNAL) != size) die("the server has ended");
    struct pollfd waiting = {server, POLLIN, 0};
    size_t length = 0;
    do {
        if (poll(&waiting, 1, LIMIT_MS) <= 0) die("no answer");
        ssize_t received = recv(server, line + length, MOST_BYTES - length, 0);
        if (received <= 0) die("the server has ended");
        length += (size_t)received;
    } while (line[length - 1] != '\n');
    line[length] = '\0';
    const char *error = find(line, "error");
    if (error == NULL) return member(line, "result");
    if (atoi(member(error, "code")) != -32004) die(member(error, "message"));
    return NULL;
}

/* Stands for: compile with these values, run, take the time. */
static double measure(const char *config)
{
    double tile = strtod(member(config, "tile"), NULL), share = strtod(member(config, "share"), NULL);
    int first_loop = atoi(member(config, "loops") + 1);
    int fast = strncmp(member(config, "mode"), "\"fast\"", 6) == 0;
    double difference = (tile - 16.0) / 16.0, rest = share - 0.3;
    return 1.0 + difference * difference + rest * rest + 0.1 * first_loop + (fast ? 0.0 : 0.5);
}

int main(int count, char **words)
{
    int ends[2];
    if (count < 2 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) die("name the command of the server");
    if (getentropy(prefix, sizeof prefix) != 0) die("no random numbers");
    if (fork() == 0) {
        dup2(ends[1], STDIN_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        execvp(words[1], words + 1);
        _exit(127);
    }
    close(ends[1]);
    server = ends[0];
    call("hello", "{\"version\":1}");
    for (const char *result; (result = call("suggest", "{}")) != NULL;) {
        const char *trial = member(result, "trials") + 1, *config = member(trial, "config");
        double value = measure(config);
        printf("%.*s\n", (int)(skip(config) - config), config);
        char params[200]; /* %.17g is the same number again; `call` overwrites the trial */
        snprintf(params, sizeof params, "{\"trial\":%d,\"values\":[%.17g,%.17g]}", atoi(member(trial, "id")), value,
                 value + 0.25);
        call("observe", params);
    }
    close(server);
    wait(NULL);
    return 0;
}
