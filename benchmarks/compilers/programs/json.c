/* Parsers: JSON. A scanner, a tree, a writer, look-ups by path, equality, statistics. */
#include "suite.h"

typedef enum { NOTHING, FALSE_VALUE, TRUE_VALUE, NUMBER, TEXT, LIST, TABLE } Kind;

typedef struct Value {
    Kind kind;
    long number;
    int scale; /* decimals of the number, or the length of the text */
    const char *text, *key;
    int key_length;
    struct Value *child, *next;
} Value;

typedef struct {
    const char *at, *end, *error;
    Value *pool;
    int used, room, depth;
} Parser;

static Value *new_value(Parser *p, Kind kind) {
    if (p->used >= p->room) {
        p->error = "full";
        return &p->pool[0];
    }
    Value *value = &p->pool[p->used++];
    memset(value, 0, sizeof *value);
    value->kind = kind;
    return value;
}

static void skip(Parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r'))
        p->at++;
}

static int take(Parser *p, char c) {
    skip(p);
    if (p->at < p->end && *p->at == c) {
        p->at++;
        return 1;
    }
    return 0;
}

static int take_word(Parser *p, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(p->end - p->at) < length || strncmp(p->at, word, length) != 0)
        return 0;
    p->at += length;
    return 1;
}

static int parse_text(Parser *p, const char **text) {
    *text = p->at;
    while (p->at < p->end && *p->at != '"') {
        if (*p->at == '\\')
            p->at++;
        if ((unsigned char)*p->at < 32)
            p->error = "control character";
        p->at++;
    }
    int length = (int)(p->at - *text);
    if (p->at >= p->end)
        p->error = "open text";
    else
        p->at++;
    return length;
}

static Value *parse_number(Parser *p) {
    Value *value = new_value(p, NUMBER);
    int sign = 1, is_fraction = 0;
    if (*p->at == '-') {
        sign = -1;
        p->at++;
    }
    for (; p->at < p->end; p->at++) {
        if (*p->at >= '0' && *p->at <= '9') {
            value->number = (value->number * 10 + (*p->at - '0')) % 1000000007;
            value->scale += is_fraction;
        } else if (*p->at == '.' && !is_fraction) {
            is_fraction = 1;
        } else {
            break;
        }
    }
    value->number *= sign;
    return value;
}

static Value *parse_value(Parser *p) {
    Value *value, **last;
    skip(p);
    if (p->at >= p->end || p->error || p->depth > 40) {
        p->error = p->error ? p->error : "value expected";
        return new_value(p, NOTHING);
    }
    switch (*p->at) {
    case '"':
        p->at++;
        value = new_value(p, TEXT);
        value->scale = parse_text(p, &value->text);
        return value;
    case '[':
    case '{':
        value = new_value(p, *p->at == '[' ? LIST : TABLE);
        last = &value->child;
        p->at++;
        p->depth++;
        if (!take(p, value->kind == LIST ? ']' : '}')) {
            do {
                const char *key = NULL;
                int length = 0;
                if (value->kind == TABLE) {
                    if (!take(p, '"'))
                        p->error = "key expected";
                    length = parse_text(p, &key);
                    if (!take(p, ':'))
                        p->error = "colon expected";
                }
                *last = parse_value(p);
                (*last)->key = key;
                (*last)->key_length = length;
                last = &(*last)->next;
            } while (!p->error && take(p, ','));
            if (!take(p, value->kind == LIST ? ']' : '}'))
                p->error = p->error ? p->error : "end expected";
        }
        p->depth--;
        return value;
    case 't':
        take_word(p, "true");
        return new_value(p, TRUE_VALUE);
    case 'f':
        take_word(p, "false");
        return new_value(p, FALSE_VALUE);
    case 'n':
        take_word(p, "null");
        return new_value(p, NOTHING);
    default:
        if (*p->at != '-' && (*p->at < '0' || *p->at > '9'))
            p->error = "unknown character";
        return parse_number(p);
    }
}

static char *write_plain(char *out, const char *text, int length) {
    for (int i = 0; i < length; i++)
        *out++ = text[i];
    return out;
}

static char *write_long(char *out, long number) {
    char digits[24];
    int count = 0;
    unsigned long rest = number < 0 ? 0ul - (unsigned long)number : (unsigned long)number;
    if (number < 0)
        *out++ = '-';
    do
        digits[count++] = (char)('0' + rest % 10);
    while (rest /= 10);
    while (count > 0)
        *out++ = digits[--count];
    return out;
}

char *write_value(char *out, const Value *value) {
    static const char *words[] = {"null", "false", "true"};
    switch (value->kind) {
    case NUMBER:
        return write_long(out, value->number);
    case TEXT:
        *out++ = '"';
        out = write_plain(out, value->text, value->scale);
        *out++ = '"';
        return out;
    case LIST:
    case TABLE:
        *out++ = value->kind == LIST ? '[' : '{';
        for (const Value *child = value->child; child; child = child->next) {
            if (value->kind == TABLE) {
                *out++ = '"';
                out = write_plain(out, child->key, child->key_length);
                *out++ = '"';
                *out++ = ':';
            }
            out = write_value(out, child);
            if (child->next)
                *out++ = ',';
        }
        *out++ = value->kind == LIST ? ']' : '}';
        return out;
    default:
        return write_plain(out, words[value->kind], (int)strlen(words[value->kind]));
    }
}

const Value *look_up(const Value *value, const char *path) {
    while (value && *path) {
        const char *end = strchr(path, '.');
        int length = end ? (int)(end - path) : (int)strlen(path);
        const Value *child = value->child;
        if (value->kind == LIST) {
            for (int index = atoi(path); child && index > 0; index--)
                child = child->next;
        } else {
            while (child && (child->key_length != length || strncmp(child->key, path, (size_t)length) != 0))
                child = child->next;
        }
        value = child;
        path += length + (end != NULL);
    }
    return value;
}

static void count_kinds(const Value *value, int depth, int counts[7], int *deepest) {
    counts[value->kind]++;
    if (depth > *deepest)
        *deepest = depth;
    for (const Value *child = value->child; child; child = child->next)
        count_kinds(child, depth + 1, counts, deepest);
}

static int make_document(char *out, int depth) {
    char *begin = out;
    int kind = depth == 0 ? 6 : (int)(next_random() % (depth < 5 ? 8 : 4));
    if (kind < 2) {
        int whole = draw(2000) - 1000;
        return sprintf(out, "%d.%d ", whole, draw(100));
    }
    if (kind < 3)
        return sprintf(out, "\"t%u\\\"\"", next_random() % 500);
    if (kind < 4)
        return sprintf(out, next_random() % 2 ? "true" : "null");
    int count = 1 + (int)(next_random() % 5);
    *out++ = kind & 1 ? '[' : '{';
    for (int i = 0; i < count; i++) {
        if (!(kind & 1))
            out += sprintf(out, "\n \"%c%d\": ", 'a' + i, i % 2);
        out += make_document(out, depth + 1);
        if (i + 1 < count)
            *out++ = ',';
    }
    *out++ = kind & 1 ? ']' : '}';
    return (int)(out - begin);
}

void run(int size) {
    static const char *paths[] = {"a0", "a0.b1", "b1.0", "c0.1.a0", "b1.c0", "d1.a0.b1"};
    char *text = malloc(1 << 20), *out = malloc(1 << 20);
    Parser parser = {.pool = malloc(sizeof(Value) * 20000), .room = 20000};
    for (int round = 0; round < size; round++) {
        int length = make_document(text, 0), counts[7] = {0}, deepest = 0;
        if (round % 7 == 6)
            text[next_random() % (uint32_t)length] = '#';
        parser.at = text;
        parser.end = text + length;
        parser.error = NULL;
        parser.used = parser.depth = 0;
        const Value *value = parse_value(&parser);
        mix((uint64_t)(parser.error ? parser.error[0] : parser.used));
        count_kinds(value, 0, counts, &deepest);
        for (int k = 0; k < 7; k++)
            mix((uint64_t)(counts[k] * 50 + deepest));
        for (unsigned k = 0; k < sizeof paths / sizeof paths[0]; k++) {
            const Value *found = look_up(value, paths[k]);
            mix(found ? (uint64_t)found->kind * 7 + (uint64_t)found->number : 99);
        }
        if (!parser.error)
            for (char *c = out, *end = write_value(out, value); c < end; c++)
                mix((unsigned char)*c);
    }
    free(parser.pool);
    free(text);
    free(out);
}
